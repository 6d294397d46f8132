"""What a script runs under ``__main__`` is the same in a slot: classes without defaults, and the lines of functions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from dataclasses import dataclass, field
from typing import Any

from penstock import StreamsBuilder
from penstock.engine.shipping.shipping import dumps


@dataclass
class Order:
    id: str
    amount: int
    tags: list[str] = field(default_factory=list)
    note: str = field(default="none", kw_only=True)


def half(order: Order) -> str:
    print(repr(order))
    return str(
        10 // order.amount
    )


builder = StreamsBuilder()
builder.stream("in", key=str, value=Order).map_values(half).to("out")
builder.stream("times", key=str, value=dict, timestamp="at").to("later")
with open(sys.argv[1], "wb") as file:
    file.write(dumps(builder.build()))
"""
SLOT = """
import sys

from penstock.engine.shipping.shipping import loads
from penstock.errors import PenstockError
from penstock.testing import TopologyTestDriver

driver = TopologyTestDriver(loads(open(sys.argv[1], "rb").read()))

for topic, value in (("in", b'{"id": "x", "amount": 5}'), ("in", b'{"id": "x"}'), ("in", b'{"id": "x", "amount": 0}'),
                     ("times", {"x": 1})):
    try:
        driver.pipe_input(topic, "a", value, timestamp=0)
    except PenstockError as error:
        print(str(error).split("nothing of this batch")[0].strip())
"""


def test_a_class_of_a_script_needs_its_fields_in_a_slot_and_errors_name_the_lines(tmp_path: Path) -> None:
    script, slot, program = tmp_path / "app.py", tmp_path / "slot.py", tmp_path / "program"
    script.write_text(SCRIPT)
    slot.write_text(SLOT)
    subprocess.run([sys.executable, str(script), str(program)], check=True)
    said = subprocess.run([sys.executable, str(slot), str(program)], check=True, capture_output=True, text=True).stdout
    begin = "failed on the record at topic"
    no_fields = "if the topic holds others, say so with value= (value=bytes takes them as they are)"
    assert said.splitlines() == [
        "Order(id='x', amount=5, tags=[], note='none')",
        f"KSTREAM-SOURCE-0000000000 {begin} 'in', partition 0, offset 1: Object missing required field `amount`; the "
        'bytes are b\'{"id": "x"}\'',
        "  the record: key 'a', value b'{\"id\": \"x\"}', timestamp 0",
        f"  the way out: the source at {script}:26 reads values of type json[Order]; {no_fields}",
        "Order(id='x', amount=0, tags=[], note='none')",
        f"KSTREAM-MAPVALUES-0000000001 {begin} 'in', partition 0, offset 2: ZeroDivisionError: integer division or "
        "modulo by zero",
        "  the record: key 'a', value Order(id='x', amount=0, tags=[], note='none'), timestamp 0",
        f"  the function: half at {script}:18, given to the step at {script}:26",
        f"  the line: {script}:21: 10 // order.amount",
        f"KSTREAM-SOURCE-0000000003 {begin} 'times', partition 0, offset 0: LookupError: the value has no field 'at', "
        "which timestamp= names",
        "  the record: key 'a', value {'x': 1}, timestamp 0",
        f"  the function: the field 'at' at {script}:27, given to the step at {script}:27",
    ]

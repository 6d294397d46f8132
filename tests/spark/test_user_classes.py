"""Types and functions that are defined in the user's script, on their way to a slot: pickled in one process, run in
another one. Spark itself is not needed for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Annotated, NamedTuple, NotRequired, Optional, TypedDict

import msgspec

from penstock import StreamsBuilder
from penstock.engine.spark.shipping import dumps
from penstock.serdes import of
from penstock.testing import TopologyTestDriver

RATE = 2.0


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    S = 1


@dataclass
class Order:
    item: str
    amount: float
    color: Color = Color.RED


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    within: "Optional[Part]" = None


class Point(TypedDict):
    x: int
    y: NotRequired[float]


class Pair(NamedTuple):
    left: str
    right: Size = Size.S


class Base(msgspec.Struct, tag=True):
    name: str


class Leaf(Base, kw_only=True):
    weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    tags: list[str] = []

    def __post_init__(self):
        self.tags = sorted(self.tags)


class Branch(Base):
    below: "list[Leaf | Branch]" = msgspec.field(default_factory=list, name="children")

    @property
    def weight(self):
        return sum(one.weight for one in self.below)

    def heavier(self):
        return Branch(self.name, [*self.below, Leaf(name="lead", weight=10.0)])


CASES = {
    "order": (Order, Order("pen", 1.5, Color.BLUE), lambda order: replace(order, amount=order.amount * RATE)),
    "part": (Part, Part("a", Part("b")), lambda part: Part("c", part)),
    "point": (Point, {"x": 1}, lambda point: Point(x=point["x"] + 1, y=0.5)),
    "pair": (Pair, Pair("l"), lambda pair: pair._replace(left="m")),
    "branch": (Branch, Branch("a", [Leaf(name="l", tags=["b", "a"])]), lambda branch: branch.heavier()),
    "color": (Color, Color.RED, lambda color: Color.BLUE if color is Color.RED else color),
}

builder = StreamsBuilder()
for name, (type_, value, function) in CASES.items():
    stream = builder.stream(name, value=type_)
    stream.map_values(function, value=type_).to(name + "-out")
    stream.group_by_key().reduce(lambda one, other: other, store=name + "-last").to_stream().to(name + "-last")
topology = builder.build()
if "used" in sys.argv:
    driver = TopologyTestDriver(topology)
    for name, (type_, value, function) in CASES.items():
        driver.pipe_input(name, "k", value)
values = {name: of(type_).encode(value) for name, (type_, value, function) in CASES.items()}
sys.stdout.buffer.write(dumps((topology, values)))
"""

SLOT = """
import sys
from penstock.engine.spark.shipping import loads
from penstock.testing import TopologyTestDriver

topology, values = loads(sys.stdin.buffer.read())
driver = TopologyTestDriver(topology)
for name, data in values.items():
    driver.pipe_input(name, "k", data)
    driver.pipe_input(name, "k", b'{"nothing": [1]}') if "poison" in sys.argv else None
    print([record.value for topic in (name + "-out", name + "-last") for record in driver.read_output(topic)])
"""

EXPECTED = """\
[Order(item='pen', amount=3.0, color=<Color.BLUE: 'blue'>), Order(item='pen', amount=1.5, color=<Color.BLUE: 'blue'>)]
[Part(name='c', within=Part(name='a', within=Part(name='b', within=None))), Part(name='a', within=Part(name='b', within=None))]
[{'x': 2, 'y': 0.5}, {'x': 1}]
[Pair(left='m', right=<Size.S: 1>), Pair(left='l', right=<Size.S: 1>)]
[Branch(name='a', below=[Leaf(name='l', weight=1.0, tags=['a', 'b']), Leaf(name='lead', weight=10.0, tags=[])]), \
Branch(name='a', below=[Leaf(name='l', weight=1.0, tags=['a', 'b'])])]
[<Color.BLUE: 'blue'>, <Color.RED: 'red'>]
"""  # noqa: E501


def python(*arguments: str, stdin: bytes = b"", folder: Path) -> bytes:
    run = subprocess.run([sys.executable, *arguments], input=stdin, capture_output=True, cwd=folder)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


@pytest.mark.parametrize("use", [pytest.param("unused", marks=pytest.mark.slow), "used"])
@pytest.mark.parametrize("names", ["types", "names of types"])
def test_types_of_a_script_work_in_a_slot_used_before_or_not(tmp_path: Path, names: str, use: str):
    future = "from __future__ import annotations\n" if names == "names of types" else ""
    (tmp_path / "app.py").write_text(future + SCRIPT)
    shipped = python("app.py", use, folder=tmp_path)
    (tmp_path / "app.py").unlink()
    assert python("-c", SLOT, stdin=shipped, folder=tmp_path).decode() == EXPECTED

"""``map_values`` on streams."""

from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock import columnar
from support.flows import Run, source


def test_map_values_of_the_value_alone(run: Run):
    builder, stream = source(value=int)
    stream.map_values(lambda value: value + 1, value=int).to("out")
    assert run(builder, [("a", 1, 10), (None, 2, 5)]).output() == [("a", 2, 10), (None, 3, 5)]


def test_map_values_of_key_and_value(run: Run):
    builder, stream = source(value=int)
    stream.map_values(lambda key, value: f"{key}:{value}", value=str).to("out")
    assert run(builder, [("a", 1, 10), (None, 2, 5)]).output() == [("a", "a:1", 10), (None, "None:2", 5)]


def test_map_values_sees_and_may_give_null_values(run: Run):
    builder, stream = source(value=int)
    stream.map_values(lambda value: 0 if value is None else None, value=int).to("out")
    assert run(builder, [("a", None, 1), ("a", 5, 2)]).output() == [("a", 0, 1), ("a", None, 2)]


@dataclass
class Flight:
    carrier: str
    delay: int


class Delay(msgspec.Struct):
    minutes: int


def test_values_are_dataclasses_structs_or_dicts(run: Run):
    builder, stream = source(value=Flight)
    structs = stream.map_values(lambda flight: Delay(flight.delay), value=Delay)
    structs.to("structs")
    structs.map_values(lambda delay: {"late": delay.minutes > 0}, value=dict).to("dicts")
    ran = run(builder, [("a", Flight("AA", 5), 1), ("b", Flight("UA", -2), 2)])
    assert ran.output("structs") == [("a", Delay(5), 1), ("b", Delay(-2), 2)]
    assert ran.output("dicts") == [("a", {"late": True}, 1), ("b", {"late": False}, 2)]


def test_columnar_map_values_of_the_value_alone(run: Run):
    @columnar
    def doubled(value):
        return pc.multiply(value, 2)

    builder, stream = source(value=int)
    stream.map_values(doubled, value=int).to("out")
    assert run(builder, [("a", 1, 10), ("b", None, 11), ("c", 3, 12)]).output() == [
        ("a", 2, 10),
        ("b", None, 11),
        ("c", 6, 12),
    ]


def test_columnar_map_values_of_key_and_value(run: Run):
    @columnar
    def joined(key, value):
        return pc.binary_join_element_wise(key, value.cast(pa.string()), "=")

    builder, stream = source(value=int)
    stream.map_values(joined, value=str).to("out")
    assert run(builder, [("a", 1, 10), ("b", 2, 11)]).output() == [("a", "a=1", 10), ("b", "b=2", 11)]

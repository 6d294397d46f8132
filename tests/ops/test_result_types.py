"""The types of results (0073): those of the input unless something says otherwise, on the wire and in the driver; what
does not fit fails with its record, and says the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import (
    JoinWindows,
    Materialized,
    ProcessingError,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from penstock.serdes import Serde
from penstock.testing import TopologyTestDriver, pipe
from support.flows import Run, source

NEAR = JoinWindows.of_time_difference_with_no_grace("1 h")
HOUR = TimeWindows.of_size_with_no_grace("1 hour")


@dataclass
class Order:
    item: str
    amount: int = 1


WRITTEN: dict[str, Callable[[Any], Any]] = {
    "map_values": lambda s: s.map_values(lambda value: value.upper()),
    "map_values of a method": lambda s: s.map_values(str.upper),
    "map": lambda s: s.map(lambda key, value: (key, value.upper())),
    "flat_map": lambda s: s.flat_map(lambda key, value: [(key, value.upper())]),
    "flat_map_values": lambda s: s.flat_map_values(lambda value: [value.upper()]),
    "process": lambda s: s.process(lambda record, context: context.forward(record.with_value(record.value.upper()))),
    "table": lambda s: s.to_table().map_values(lambda value: value.upper()).to_stream(),
    "reduce": lambda s: s.map_values(str.upper).group_by_key().reduce(lambda one, other: one + other).to_stream(),
    "aggregate": lambda s: s.group_by_key().aggregate(str, lambda k, value, all_: all_ + value.upper()).to_stream(),
    "aggregate of a lambda": lambda s: (
        s.group_by_key().aggregate(lambda: "", lambda key, value, all_: all_ + value.upper()).to_stream()
    ),
    "join": lambda s: s.join(s.to_table(), lambda one, other: one.upper()),
    "group_by": lambda s: (
        s.to_table()
        .group_by(lambda key, value: (key, value.upper()))
        .reduce(lambda one, other: other, lambda one, other: one)
        .to_stream()
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_text_stays_text_without_quotes(name: str):
    builder, stream = source(value=str)
    WRITTEN[name](stream).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", "bcd", 0)
    written = driver.create_output_topic("out", key=bytes, value=bytes)
    assert written.read_key_values_to_list() == [(b"a", b"BCD")]


def test_keys_stay_what_they_are_and_windowed_ones_become_what_is_inside(run: Run):
    builder = StreamsBuilder()
    stream = builder.stream("in", key=int, value=str)
    stream.select_key(lambda key, value: key + 1).to("selected")
    stream.group_by(lambda key, value: key + 2).count().to_stream().to("grouped")
    counts = stream.group_by_key().windowed_by(HOUR).count()
    counts.to_stream(lambda windowed, count: windowed.key + 3).to("inside")
    ran = run(builder, [(1, "x", 5)])
    assert ran.output("selected") == [(2, "x", 5)]
    assert ran.output("grouped") == [(3, 1, 5)]
    assert ran.output("inside") == [(4, 1, 5)]


def test_untyped_values_stay_whatever_json_can_say():
    assert pipe(lambda stream: stream.map_values(lambda value: value["n"]), [("a", {"n": 1}), ("a", {"n": "x"})]) == [
        ("a", 1),
        ("a", "x"),
    ]


MISFITS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a dict for text": (
        lambda s: s.map_values(lambda value: {"v": value}),
        "map_values at HERE returned {'v': 'x'} of type dict where str is expected",
        "annotate its result or say value=dict at map_values; without that the values keep the type they had",
    ),
    "a number for text": (
        lambda s: s.map(lambda key, value: (key, 1)),
        "map at HERE returned 1 of type int where str is expected",
        "annotate its result or say value=int at map; without that the values keep the type they had",
    ),
    "a number for a key": (
        lambda s: s.select_key(lambda key, value: 1),
        "select_key at HERE returned the key 1 of type int where str is expected",
        "annotate its result or say key=int at select_key; without that the keys keep the type they had",
    ),
    "a fraction for a number": (
        lambda s: s.group_by_key().aggregate(lambda: 0, lambda key, value, total: total + 0.5).to_stream(),
        "aggregate at HERE returned 0.5 of type float where int is expected",
        "annotate its result or say value=float at aggregate; without that the values keep the type they had",
    ),
    "a list of a reducer": (
        lambda s: s.group_by(lambda key, value: "all").reduce(lambda one, other: [one, other]).to_stream(),
        "reduce at HERE returned ['x', 'y'] of type list where str is expected",
        "a reducer gives what it gets; for other results use aggregate(..., value=list)",
    ),
    "a number of a processor": (
        lambda s: s.process(lambda record, context: context.forward(record.with_value(1))),
        "process at HERE forwarded 1 of type int where str is expected",
        "say value=int at process; without that the values keep the type they had",
    ),
    "a number for a key of a processor": (
        lambda s: s.process(lambda record, context: context.forward(record.with_key(1))),
        "process at HERE forwarded the key 1 of type int where str is expected",
        "say key=int at process; without that the keys keep the type they had",
    ),
    "text of a join of two types": (
        lambda s: s.join(s.group_by_key().count(), lambda value, count: f"{value}{count}"),
        "join at HERE returned 'x1' of type str, and nothing tells the type of its results",
        "annotate its result or say value=str at join; without that the values keep the type they had",
    ),
    "text of an aggregate that begins with nothing": (
        lambda s: s.group_by_key().aggregate(lambda: None, lambda key, value, newest: value).to_stream(),
        "aggregate at HERE returned 'x' of type str, and nothing tells the type of its results",
        "annotate its result or say value=str at aggregate; without that the values keep the type they had",
    ),
    "a fraction in a session": (
        lambda s: (
            s.group_by_key()
            .windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10))
            .aggregate(lambda: 0, lambda key, value, total: total + 0.5, lambda key, one, other: one)
            .to_stream(lambda windowed, total: windowed.key)
        ),
        "aggregate at HERE returned 0.5 of type float where int is expected",
        "annotate its result or say value=float at aggregate; without that the values keep the type they had",
    ),
    "a dict in a sliding window": (
        lambda s: (
            s.group_by_key()
            .windowed_by(SlidingWindows.of_time_difference_with_no_grace(10))
            .aggregate(list, lambda key, value, all_: {"v": value})
            .to_stream(lambda windowed, total: windowed.key)
        ),
        "aggregate at HERE returned {'v': 'x'} of type dict where list is expected",
        "annotate its result or say value=dict at aggregate; without that the values keep the type they had",
    ),
    "a dict in an aggregate of lists": (
        lambda s: s.group_by_key().aggregate(list, lambda key, value, all_: {"v": value}).to_stream(),
        "aggregate at HERE returned {'v': 'x'} of type dict where list is expected",
        "annotate its result or say value=dict at aggregate; without that the values keep the type they had",
    ),
    "a count in a session whose store is to keep text": (
        lambda s: (
            s.group_by_key()
            .windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10))
            .count(Materialized.as_("counts").with_value_serde(str))
            .to_stream(lambda windowed, count: windowed.key)
        ),
        "the serde 'str' cannot encode 1 of type int",
        "the values of this step are of type str; say value=int at that step, or map them to str before it",
    ),
    "a number in front of a join in windows": (
        lambda s: s.map_values(lambda value: 1).join(s, lambda one, other: other, NEAR),
        "the serde 'str' cannot encode 1 of type int",
        "the values of this step are of type str; say value=int at that step, or map them to str before it",
    ),
    "a windowed key": (
        lambda s: s.group_by_key().windowed_by(HOUR).count().to_stream().map(lambda key, count: (key, count)),
        "map at HERE returned the key Windowed(key='a', start=0, end=3600000) of type Windowed where str is expected",
        "map_values and process_values keep the windowed keys as they are",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_fails_with_the_step_its_line_and_the_way_out(run: Run, name: str):
    steps, said, way_out = MISFITS[name]
    builder, stream = source(value=str)
    steps(stream).to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, [("a", "x", 0), ("b", "y", 1)]).output()
    lines = str(failure.value).splitlines()
    step, _, what = said.rpartition(" at HERE ")
    assert re.search(rf": {step and f'{step} at {re.escape(__file__)}:[0-9]+ '}{re.escape(what)}$", lines[0]), lines[0]
    assert f"  the way out: {way_out}" in lines


def test_results_that_nobody_writes_may_be_of_any_type(run: Run):
    builder, stream = source(value=str)
    stream.map_values(len).filter(lambda key, value: value > 1).map_values(lambda value: "x" * value).to("out")
    stream.map_values(lambda value: {"v": value}).to("said", value=dict)
    stream.map_values(len).merge(stream).map_values(lambda value: f"{value}").to("merged")
    lengths = stream.to_table().map_values(len).filter(lambda key, value: value > 1)
    lengths.to_stream().map_values(lambda value: f"{value}").to("filtered")
    ran = run(builder, [("a", "b", 0), ("a", "bc", 1)])
    assert ran.output() == [("a", "xx", 1)]
    assert ran.output("merged") == [("a", "1", 0), ("a", "b", 0), ("a", "2", 1), ("a", "bc", 1)]
    assert ran.output("filtered") == [("a", "None", 0), ("a", "2", 1)]
    assert ran.output("said") == [("a", {"v": "b"}, 0), ("a", {"v": "bc"}, 1)]


def test_dicts_of_joins_of_two_types_are_json(run: Run):
    builder = StreamsBuilder()
    orders = builder.stream("orders", value=Order)
    names = builder.table("names", value=str)
    orders.join(names, lambda order, name: {"item": order.item, "by": name}).to("named")
    orders.join(orders.map_values(lambda order: order.item, value=str), lambda one, item: [item], NEAR).to("windowed")
    ran = run(builder, [("names", "a", "ann", 0), ("orders", "a", Order("pen"), 1)])
    assert ran.output("named") == [("a", {"item": "pen", "by": "ann"}, 1)]
    assert ran.output("windowed") == [("a", ["pen"], 1)]


def test_the_driver_shows_what_is_read_back_from_the_bytes():
    builder = StreamsBuilder()
    stream = builder.stream("in", value=Order)
    stream.map_values(lambda order: {"item": order.item}).to("orders")
    stream.map_values(lambda order: order.amount, value=float).to("floats")
    stream.map_values(lambda order: (order.item,), value=list[str]).to("lists")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", Order("pen", 2), 0)
    driver.pipe_record_list("in", [("a", Order("pen", 2), 1)] * 3)
    for topic, value in (("orders", Order("pen", 1)), ("floats", 2.0), ("lists", ["pen"])):
        read = [record.value for record in driver.read_output(topic)]
        assert read == [value] * 4
        assert set(map(type, read)) == {type(value)}


class Strange:
    def __repr__(self) -> str:
        return "Strange()"


UNWRITABLE: dict[str, Callable[[Any], Any]] = {
    "an aggregate": lambda s: s.group_by_key().aggregate(dict, lambda key, value, all_: {"v": Strange()}),
    "an initial value": lambda s: s.group_by_key().aggregate(
        lambda: {"v": Strange()}, lambda k, v, all_: {}, value=dict
    ),
    "an aggregate of a table": lambda s: (
        s.to_table()
        .group_by(lambda key, value: ("all", value))
        .aggregate(dict, lambda key, value, all_: {"v": Strange()}, lambda key, value, all_: all_)
    ),
    "a session": lambda s: (
        s.group_by_key()
        .windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10))
        .aggregate(dict, lambda key, value, all_: {"v": Strange()}, lambda key, one, other: one)
    ),
    "a sliding window": lambda s: (
        s.group_by_key()
        .windowed_by(SlidingWindows.of_time_difference_with_no_grace(10))
        .aggregate(dict, lambda key, value, all_: {"v": Strange()})
    ),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_an_aggregate_that_json_cannot_say_fails_with_the_way_out(run: Run, name: str):
    builder, stream = source(value=str)
    UNWRITABLE[name](stream)
    with pytest.raises(ProcessingError, match=r"cannot write \{'v': Strange\(\)\} as JSON") as failure:
        run(builder, [("a", "x", 0)]).dropped()
    assert "  the way out: the values of this step are of type json[dict]; have the function return such" in str(
        failure.value
    )


@dataclass(frozen=True)
class Shouted(Serde):
    """A serde of a user's, as a frozen dataclass."""

    mark: str = "!"
    name = "shouted"

    def encode(self, value: str) -> bytes:
        return (value + self.mark).encode()

    def decode(self, data: bytes) -> str:
        return data.decode().removesuffix(self.mark)


def test_a_users_serde_that_cannot_be_changed_goes_from_step_to_step(run: Run):
    builder, stream = source(value=Shouted())
    stream.map_values(str.upper).to("out")
    ran = run(builder, [("a", "x", 0)])
    assert ran.output() == [("a", "X", 0)]


def test_an_initializer_is_not_called_while_the_program_is_built_where_the_type_is_said():
    calls = []

    def initial() -> Any:
        calls.append(1)
        return 0

    _, stream = source(value=str)
    stream.group_by_key().aggregate(initial, lambda key, value, total: total + 1, value=int)
    assert not calls

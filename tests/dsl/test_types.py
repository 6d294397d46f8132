"""The types of keys and values: told, annotated or by default; dataclasses, Structs, dicts."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NewType, TypedDict

import msgspec
import pytest

from penstock import StreamsBuilder, TimeWindows, ValueTransformerWithKey
from penstock.errors import ConfigError
from penstock.serdes import BYTES, FLOAT, INT, JSON, STR, UNSAID, JsonSerde, Serde
from penstock.testing import TopologyTestDriver


@dataclass
class Order:
    item: str
    amount: int = 1


class Flight(msgspec.Struct):
    carrier: str
    delay: float | None = None


class Point(TypedDict):
    x: int
    y: int


def types(stream) -> tuple[Serde, Serde]:
    """The types of keys and values that a step hands on."""
    return stream._key, stream._value


def through(type_, *values):
    """What a function gets, and what comes out, for values of a type."""
    seen = []
    builder = StreamsBuilder()
    builder.stream("in", value=type_).peek(lambda key, value: seen.append(value)).to("out")
    driver = TopologyTestDriver(builder.build())
    for value in values:
        driver.pipe_input("in", "k", value)
    return seen, [record.value for record in driver.read_output("out")]


# --- values as the functions see them --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (str, ["", "a", "ä€😀"]),
        (int, [0, -1, 2**63 - 1, -(2**63)]),
        (float, [0.0, -1.5, 1e300]),
        (bytes, [b"", b"\x00\xff"]),
        (dict, [{}, {"a": [1, None, {"b": "c"}]}]),
        (list, [[], [1, "a"]]),
        (bool, [True, False]),
        (Order, [Order("pen", 2), Order("ink")]),
        (Flight, [Flight("UA", 1.5), Flight("AA")]),
        (Point, [{"x": 1, "y": 2}]),
        (dict[str, int], [{"a": 1}]),
        (list[Order], [[Order("pen")]]),
        (int | None, [5]),
        (None, [{"a": 1}, [1], "text", 5, 1.5, True]),
    ],
)
def test_values_come_to_the_functions_as_they_went_in(type_, values):
    seen, written = through(type_, *values, None)
    assert seen == written == [*values, None]
    assert [type(value) for value in seen] == [type(value) for value in [*values, None]]


def test_json_fills_in_defaults_and_leaves_out_fields_that_the_class_has_not():
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda value: value, value=dict).to("plain")
    builder.stream("plain", value=Order).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", {"item": "pen", "colour": "red"})
    assert [record.value for record in driver.read_output("out")] == [Order("pen", 1)]


# --- which type a step results in ------------------------------------------------------------------------------------


def test_keys_are_text_and_values_json_by_default():
    assert types(StreamsBuilder().stream("in")) == (STR, JSON)


def test_types_of_a_source():
    assert types(StreamsBuilder().stream("in", key=int, value=Order)) == (INT, JsonSerde(Order))
    assert types(StreamsBuilder().table("in", key=bytes, value=float)) == (BYTES, FLOAT)


def test_a_serde_stands_for_itself():
    serde = JsonSerde(dict[str, int])
    assert types(StreamsBuilder().stream("in", value=serde))[1] is serde


def test_a_steps_result_is_what_it_is_told():
    stream = StreamsBuilder().stream("in")
    assert types(stream.map(lambda key, value: (key, value), key=int, value=Order)) == (INT, JsonSerde(Order))
    assert types(stream.map_values(lambda value: value, value=int)) == (STR, INT)
    assert types(stream.flat_map_values(lambda value: value, value=float)) == (STR, FLOAT)
    assert types(stream.select_key(lambda key, value: value, key=int)) == (INT, JSON)


def test_a_steps_result_is_what_its_function_is_annotated_with():
    def pair(key: str, value: dict) -> tuple[int, Order]:
        return 1, Order("pen")

    def pairs(key: str, value: dict) -> list[tuple[int, Order]]:
        return []

    def length(value: str) -> int:
        return len(value)

    def several(value: str) -> list[float]:
        return []

    def text(key, value) -> str:
        return ""

    stream = StreamsBuilder().stream("in", key=int)
    assert types(stream.map(pair)) == (INT, JsonSerde(Order))
    assert types(stream.flat_map(pairs)) == (INT, JsonSerde(Order))
    assert types(stream.map_values(length)) == (INT, INT)
    assert types(stream.flat_map_values(several)) == (INT, FLOAT)
    assert types(stream.select_key(text)) == (STR, JSON)
    assert types(stream.to_table().map_values(length)) == (INT, INT)


def test_what_is_told_counts_more_than_the_annotation():
    def length(value: str) -> int:
        return len(value)

    assert types(StreamsBuilder().stream("in").map_values(length, value=float)) == (STR, FLOAT)


def test_without_either_they_stay_what_they_were():
    stream = StreamsBuilder().stream("in", key=int, value=Order)
    kept = (INT, JsonSerde(Order))
    assert types(stream.map(lambda key, value: (key, value))) == kept
    assert types(stream.map_values(lambda value: value)) == kept
    assert types(stream.flat_map(lambda key, value: [(key, value)])) == kept
    assert types(stream.flat_map_values(lambda value: [value])) == kept
    assert types(stream.select_key(lambda key, value: key)) == kept
    assert types(stream.group_by(lambda key, value: key)) == kept
    assert types(stream.process(lambda record, context: None)) == kept
    assert types(stream.process_values(lambda record, context: None)) == kept
    table = stream.to_table()
    assert types(table.map_values(lambda value: value)) == kept
    assert types(table.group_by(lambda key, value: (key, value))) == kept
    assert types(table.to_stream(lambda key, value: key)) == kept
    assert types(table.transform_values(Same)) == kept


class Same(ValueTransformerWithKey):
    def transform(self, key, value):
        return value


class Priced(ValueTransformerWithKey):
    def transform(self, key, value) -> float:
        return value.amount


def test_a_transformer_is_annotated_too():
    table = StreamsBuilder().table("in", value=Order)
    assert types(table.transform_values(Priced)) == (STR, FLOAT)
    assert types(table.transform_values(lambda: Priced())) == (STR, FLOAT)
    assert types(table.transform_values(Priced, value=str)) == (STR, STR)


def test_windowed_keys_become_keys_of_the_type_inside():
    windows = TimeWindows.of_size_with_no_grace(10)
    counts = StreamsBuilder().stream("in", key=int).group_by_key().windowed_by(windows).count()
    assert types(counts.to_stream(lambda key, count: key.key)) == (INT, INT)
    assert types(counts.to_stream().map(lambda key, count: (key.key, count))) == (INT, INT)
    assert types(counts.group_by(lambda key, count: (key.key, count))) == (INT, INT)
    assert types(counts.to_stream().map_values(lambda count: count))[0] == types(counts)[0]


def test_a_join_of_two_types_says_none_and_one_of_the_same_type_has_it():
    builder = StreamsBuilder()
    numbers, orders = builder.stream("numbers", value=int), builder.table("orders", value=Order)
    others = builder.table("others", value=int)
    assert types(numbers.join(others, lambda one, other: one + other)) == (STR, INT)
    assert types(numbers.join(orders, lambda one, other: other)) == (STR, UNSAID)
    assert types(orders.join(others, lambda one, other: other)) == (STR, UNSAID)
    assert types(others.join(others, lambda one, other: other)) == (STR, INT)
    assert types(numbers.merge(numbers.join(orders, lambda one, other: other, value=int))) == (STR, INT)
    plain = builder.stream("plain")
    assert types(plain.merge(numbers.join(orders, lambda one, other: other))) == (STR, JSON)


@dataclass
class Total:
    n: int = 0


@pytest.mark.parametrize(
    ("initializer", "expected"),
    [
        (int, INT),
        (lambda: 0, INT),
        (lambda: 0.0, FLOAT),
        (str, STR),
        (lambda: "", STR),
        (dict, JsonSerde(dict)),
        (list, JsonSerde(list)),
        (Total, JsonSerde(Total)),
        (lambda: Total(), JsonSerde(Total)),
        (lambda: None, UNSAID),
        (lambda: object(), UNSAID),
        (lambda: 1 // 0, UNSAID),
    ],
)
def test_aggregates_are_of_the_type_that_they_begin_with(initializer, expected):
    grouped = StreamsBuilder().stream("in", value=bytes).group_by_key()
    assert types(grouped.aggregate(initializer, lambda key, value, total: total))[1] == expected
    assert types(grouped.cogroup(lambda key, value, total: total).aggregate(initializer))[1] == expected


UserId = NewType("UserId", int)


def optional(value) -> str | None: ...
def named(value) -> UserId: ...
def noted(value) -> Annotated[float, "in euros"]: ...
def anything(value) -> Any: ...


class Doubling:
    def __call__(self, value) -> float: ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (optional, STR),
        (named, INT),
        (noted, FLOAT),
        (anything, BYTES),
        (Doubling(), FLOAT),
        (partial(optional), STR),
        (int, INT),
        (Order, JsonSerde(Order)),
        (str.upper, BYTES),
    ],
)
def test_an_annotation_counts_wherever_it_stands_and_none_is_no_type(function, expected):
    stream = StreamsBuilder().stream("in", value=bytes)
    assert types(stream.map_values(function))[1] == expected


def generated(value) -> Generator[str, None, None]: ...
def iterated(value) -> Iterator[int]: ...
def alike(value) -> tuple[float, ...]: ...
def pairs(key, value) -> list[tuple[int, str]]: ...


def test_what_is_iterated_over_is_annotated_by_its_items():
    stream = StreamsBuilder().stream("in", value=bytes)
    assert types(stream.flat_map_values(generated))[1] == STR
    assert types(stream.flat_map_values(iterated))[1] == INT
    assert types(stream.flat_map_values(alike))[1] == FLOAT
    assert types(stream.flat_map(pairs)) == (INT, STR)


def test_other_steps_keep_the_types():
    stream = StreamsBuilder().stream("in", key=int, value=Order)
    kept = (INT, JsonSerde(Order))
    assert types(stream.filter(lambda key, value: True)) == kept
    assert types(stream.peek(lambda key, value: None)) == kept
    assert types(stream.merge(stream)) == kept
    assert types(stream.repartition()) == kept
    assert types(stream.to_table().to_stream()) == kept
    assert types(stream.group_by_key().reduce(lambda a, b: a)) == kept
    assert types(stream.group_by_key().count()) == (INT, INT)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [5, object, StreamsBuilder])
def test_a_type_that_cannot_be_read_is_refused_with_those_that_can(type_):
    with pytest.raises(ConfigError) as refused:
        StreamsBuilder().stream("in", value=type_)
    message = str(refused.value)
    assert message.startswith(f"value: JSON cannot be read into {type_!r}: ")
    assert message.endswith("; use str, int, float, bytes, dict, a dataclass, a msgspec.Struct, a schema or a Serde")

"""Keys of JSON are text: a dict with two keys that are the same text would lose one, and is refused."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pytest

from penstock import ProcessingError, StreamsBuilder
from penstock.errors import SerdeError
from penstock.serdes import of
from penstock.testing import TopologyTestDriver

ID = UUID(int=1)
DAY = date(2026, 11, 26)


class Letter(Enum):
    ONE = "1"
    TWO = 2


class Number(IntEnum):
    ONE = 1


@dataclass
class Basket:
    items: dict[Any, Any]


class Shelf(msgspec.Struct):
    baskets: list[Basket]


class Typed(TypedDict):
    items: dict[int | str, str]


TWINS: list[tuple[Any, Any, str]] = [
    (dict, {1: "a", "1": "b"}, "1"),
    (Any, {1: "a", "1": "b"}, "1"),
    (list, [{}, {1: "a", "1": "b"}], "1"),
    (dict, {"deep": [({"er": {1: "a", "1": "b"}},)]}, "1"),
    (dict[int | str, str], {1: "a", "1": "b"}, "1"),
    (Typed, {"items": {1: "a", "1": "b"}}, "1"),
    (Basket, Basket({1: "a", "1": "b"}), "1"),
    (Shelf, Shelf([Basket({}), Basket({"x": {1: "a", "1": "b"}})]), "1"),
    (dict, {"shelf": Shelf([Basket({1: "a", "1": "b"})])}, "1"),
    (dict, {1.5: "a", "1.5": "b"}, "1.5"),
    (dict, {Decimal("1.5"): "a", "1.5": "b"}, "1.5"),
    (dict, {ID: "a", str(ID): "b"}, str(ID)),
    (dict, {DAY: "a", str(DAY): "b"}, str(DAY)),
    (dict, {Letter.ONE: "a", "1": "b"}, "1"),
    (dict, {Letter.TWO: "a", 2: "b"}, "2"),
    (dict, {Number.ONE: "a", "1": "b"}, "1"),
    (dict, {b"a": "a", "YQ==": "b"}, "YQ=="),
    (dict, OrderedDict({1: "a", "1": "b"}), "1"),
    (dict, defaultdict(str, {1: "a", "1": "b"}), "1"),
]


@pytest.mark.parametrize(("type_", "value", "text"), TWINS)
def test_two_keys_of_one_text_are_refused(type_: Any, value: Any, text: str) -> None:
    serde = of(type_)
    told = (
        f"two keys of a dict in it are both the text {text!r} in JSON, and one would be lost; give all of its keys one"
    )
    for write in (serde.encode, lambda one: serde.encode_all([one]), lambda one: serde.encode_all([one, None, one])):
        with pytest.raises(SerdeError) as refused:
            write(value)
        assert told in str(refused.value)


@pytest.mark.parametrize(
    ("type_", "value", "read"),
    [
        (dict, {1: "a", 2: "b"}, {"1": "a", "2": "b"}),
        (dict[int, str], {1: "a", 2: "b"}, {1: "a", 2: "b"}),
        (dict, {1: "a", "2": "b"}, {"1": "a", "2": "b"}),
        (dict, {"a": {1: {2: []}}, "b": ["[{"]}, {"a": {"1": {"2": []}}, "b": ["[{"]}),
        (dict[date, int], {DAY: 1}, {DAY: 1}),
        (Basket, Basket({1: "a", "b": [1, "1"]}), Basket({"1": "a", "b": [1, "1"]})),
        (dict, {Letter.ONE: "a", Letter.TWO: "b"}, {"1": "a", "2": "b"}),
        (dict[str, float], {"1": math.nan}, {"1": math.nan}),
        (Any, "{[", "{["),
        (list, [1, "1", [1]], [1, "1", [1]]),
    ],
)
def test_other_keys_are_written_as_ever(type_: Any, value: Any, read: Any) -> None:
    serde = of(type_)
    assert repr(serde.decode(serde.encode(value))) == repr(read)
    assert repr(serde.decode_all(serde.encode_all([value, None, value]))) == repr([read, None, read])


def test_only_the_record_whose_keys_are_the_same_text_fails() -> None:
    builder = StreamsBuilder()
    made = builder.stream("in", key=str, value=int).map_values(lambda n: {n: "number", "1": "text"}, value=dict)
    made.to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 2)
    with pytest.raises(ProcessingError, match=r"two keys of a dict in it are both the text '1' in JSON"):
        driver.pipe_input("in", "a", 1)
    assert [record.value for record in driver.read_output("out")] == [{"2": "number", "1": "text"}]


def test_an_aggregate_with_two_keys_of_one_text_fails_at_its_record() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.aggregate(dict, lambda key, value, found: {**found, value: 1}, value=dict).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1)
    with pytest.raises(ProcessingError, match=r"two keys of a dict in it are both the text '1' in JSON"):
        driver.pipe_input("in", "a", 1)

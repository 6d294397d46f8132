"""Fields of JSON that the type of a topic lacks: a program that writes such values again says so, or refuses."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import msgspec
import pytest

from penstock import JsonSchema, StreamsBuilder
from penstock.errors import ConfigError, ProcessingError
from penstock.ops.stateless import left_out
from penstock.serdes import JsonSerde
from penstock.serdes.json_fields import finder_of
from penstock.testing import TopologyTestDriver


@dataclass
class Line:
    item: str


@dataclass
class Order:
    cents: int
    lines: list[Line] = field(default_factory=list)


class Shop(msgspec.Struct, rename="camel"):
    opens_at: int


class Paid(msgspec.Struct, tag="paid"):
    cents: int


class Lent(msgspec.Struct, tag="lent"):
    until: int


class Row(TypedDict):
    n: int


WHOLE = b'{"cents": 5, "lines": [{"item": "tea"}]}'
MORE = b'{"cents": 5, "shop": "a", "lines": [{"item": "tea", "size": 2}]}'
Build = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_out, "_told", {})


def read(build: Build, *values: bytes, value: Any = Order) -> TopologyTestDriver:
    builder = StreamsBuilder()
    build(builder.stream("orders", key=str, value=value))
    driver = TopologyTestDriver(builder.build())
    for number, one in enumerate(values):
        driver.pipe_input("orders", "a", one, number)
    return driver


def dearer(stream: Any) -> Any:
    return stream.map_values(lambda order: replace(order, cents=order.cents + 1)).to("out")


def test_fields_that_are_lost_by_writing_values_again_are_named_once_for_a_topic(caplog: Any):
    with caplog.at_level(logging.WARNING):
        driver = read(dearer, WHOLE, MORE, MORE, b'{"cents": 5, "shop": "b", "at": 1}')
    first, second = (record.getMessage() for record in caplog.records)
    assert re.sub(r"FILE:\d+", "HERE", first.replace(__file__, "FILE")) == (
        "topic 'orders', read at HERE: its records have fields that json[Order] lacks: 'shop', 'lines.size'. These "
        "fields are left out, so the values of that type that this program writes lack them. Add them to the type, or "
        "read the topic as dict. value=JsonSerde(..., unknown_fields='refuse') refuses such records, 'ignore' ends "
        "this warning"
    )
    assert "json[Order] lacks: 'at'. These" in second
    assert [record.value for record in driver.read_output("out")] == [
        Order(6, [Line("tea")]),
        Order(6, [Line("tea")]),
        Order(6, [Line("tea")]),
        Order(6),
    ]


STAY: dict[str, Build] = {
    "nobody looks": lambda stream: stream.to("out"),
    "a filter hands on what came": lambda stream: stream.filter(lambda key, order: order.cents > 0).to("out"),
    "a table keeps what came": lambda stream: stream.to_table().to_stream().to("out"),
    "another type is written": lambda stream: stream.map_values(lambda order: order.cents, value=int).to("out"),
    "they are counted": lambda stream: stream.group_by(lambda key, order: str(order.cents)).count().to_stream(),
}


@pytest.mark.parametrize("name", STAY)
def test_nothing_is_said_where_nothing_is_lost(name: str, caplog: Any):
    with caplog.at_level(logging.WARNING):
        read(STAY[name], MORE)
    assert caplog.records == []


LOSE: dict[str, Build] = {
    "mapped": dearer,
    "reduced": lambda stream: stream.group_by_key().reduce(lambda one, other: other).to_stream().to("out"),
    "joined": lambda stream: stream.join(stream.to_table(), lambda one, other: other, value=Order).to("out"),
    "flat": lambda stream: stream.flat_map_values(lambda order: [order]).to("out"),
}


@pytest.mark.parametrize("name", LOSE)
def test_every_step_that_writes_such_values_again_is_told(name: str, caplog: Any):
    with caplog.at_level(logging.WARNING):
        read(LOSE[name], MORE)
    assert [("'shop', 'lines.size'" in record.getMessage()) for record in caplog.records] == [True]


def test_what_a_user_decides_is_not_warned_of(caplog: Any):
    with caplog.at_level(logging.WARNING):
        driver = read(dearer, MORE, value=JsonSerde(Order, unknown_fields="ignore"))
    assert caplog.records == []
    assert len(driver.read_output("out")) == 1
    refusing = JsonSerde(Order, unknown_fields="refuse")
    read(dearer, WHOLE, value=refusing)
    said = r"json\[Order\] has no fields 'shop', 'lines.size', which the record has, and unknown_fields='refuse'"
    with pytest.raises(ProcessingError, match=said):
        read(dearer, MORE, value=refusing)
    with pytest.raises(ConfigError, match="unknown_fields of JsonSerde takes 'ignore' or 'refuse'; got 'forbid'"):
        JsonSerde(Order, unknown_fields="forbid")  # type: ignore[arg-type]


def test_a_json_schema_with_a_class_says_so_too(caplog: Any):
    serde = JsonSchema("orders", "mock://left-out", {"type": "object"}, type=Order)
    head = serde.encode(Order(5))[:5]
    with caplog.at_level(logging.WARNING):
        read(dearer, head + MORE, value=serde)
    assert [("'shop', 'lines.size'" in record.getMessage()) for record in caplog.records] == [True]


@pytest.mark.parametrize(
    ("type_", "plain", "unknown"),
    [
        (Shop, {"opensAt": 1, "opens_at": 1}, ["opens_at"]),
        (Paid | Lent, {"type": "lent", "until": 1, "cents": 1}, ["cents"]),
        (Paid | Lent | None, None, []),
        (dict[str, Row], {"a": {"n": 1}, "b": {"n": 1, "m": 2}}, ["*.m"]),
        (tuple[int, Row], [1, {"m": 1}], ["m"]),
        (list[list[Row]], [[{"n": 1}], [{"m": 1}]], ["m"]),
    ],
)
def test_fields_are_found_in_types_of_each_kind(type_: Any, plain: Any, unknown: list[str]):
    finder = finder_of(type_)
    assert finder is not None
    assert list(finder.find(plain, "")) == unknown


@pytest.mark.parametrize("type_", [Any, dict, list, int, dict[str, int], list[str]])
def test_types_without_fields_leave_nothing_out(type_: Any):
    assert finder_of(type_) is None

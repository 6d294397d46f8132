"""Aggregates by name: what each of them gives, for streams, windows and sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from penstock import (
    Count,
    EmitStrategy,
    First,
    Last,
    Max,
    Mean,
    Min,
    SessionWindows,
    SlidingWindows,
    Sum,
    TimeWindows,
)
from support.flows import Run, source, windowed


class Order(msgspec.Struct):
    user: str
    amount: int | None
    delay: float | None = None


ROWS = [
    ("a", Order("ann", 5, 1.5), 3),
    ("a", Order("bob", 7), 6),
    ("b", Order("bob", None, 0.5), 7),
    (None, Order("nobody", 1), 7),
    ("a", Order("cid", 2, 9.0), 12),
]
EVERY = {
    "orders": Count(),
    "delayed": Count("delay"),
    "total": Sum("amount"),
    "mean": Mean("delay"),
    "worst": Max("delay"),
    "least": Min("user"),
    "first": First("user"),
    "last": Last("delay"),
}


def plain(rows: list[Any]) -> list[Any]:
    """Rows with the fields of their values in place of these."""
    return [(key, value and tuple(msgspec.structs.astuple(value)), time) for key, value, time in rows]


def test_each_record_gives_the_aggregates_of_all_of_its_key(run: Run):
    builder, stream = source(key=str, value=Order)
    stream.group_by_key().aggregate(**EVERY).to_stream().to("out")
    ran = run(builder, ROWS)
    assert plain(ran.output()) == [
        ("a", (1, 1, 5, 1.5, 1.5, "ann", "ann", 1.5), 3),
        ("a", (2, 1, 12, 1.5, 1.5, "ann", "ann", None), 6),
        ("b", (1, 1, None, 0.5, 0.5, "bob", "bob", 0.5), 7),
        ("a", (3, 2, 14, 5.25, 9.0, "ann", "ann", 9.0), 12),
    ]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000002", "null-key"): 1}


def test_the_results_are_structs_and_json_of_their_fields(run: Run):
    builder, stream = source(key=str, value=Order)
    stream.group_by_key().aggregate(orders=Count(), mean=Mean("amount")).to_stream().to("out")
    ran = run(builder, ROWS[:1])
    ((_, value, _),) = ran.output()
    assert (value.orders, value.mean) == (1, 5.0)
    assert repr(value) == "Aggregates(orders=1, mean=5.0)"


def test_windows_aggregate_what_falls_into_them_and_count_records_without_a_value(run: Run):
    builder, stream = source(key=str, value=Order)
    windows = TimeWindows.of_size_and_grace(10, 20)
    stream.group_by_key().windowed_by(windows).aggregate(
        n=Count(), sum=Sum("amount"), mean=Mean("amount")
    ).to_stream().to("out")
    ran = run(builder, [*ROWS, ("a", None, 13), ("a", Order("dan", 1), 4)])
    assert plain(ran.output()) == [
        (windowed("a", 0, 10), (1, 5, 5.0), 3),
        (windowed("a", 0, 10), (2, 12, 6.0), 6),
        (windowed("b", 0, 10), (1, None, None), 7),
        (windowed("a", 10, 20), (1, 2, 2.0), 12),
        (windowed("a", 10, 20), (2, 2, 2.0), 13),
        (windowed("a", 0, 10), (3, 13, 13 / 3), 6),
    ]


def test_closed_windows_give_one_result(run: Run):
    builder, stream = source(key=str, value=Order)
    closing = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    final = closing.emit_strategy(EmitStrategy.on_window_close())
    final.aggregate(total=Sum("amount"), mean=Mean("delay")).to_stream().to("out")
    ran = run(builder, ROWS)
    assert plain(ran.output()) == [
        (windowed("a", 0, 10), (12, 1.5), 6),
        (windowed("b", 0, 10), (None, 0.5), 7),
    ]


def test_sliding_windows(run: Run):
    builder, stream = source(key=str, value=Order)
    sliding = stream.group_by_key().windowed_by(SlidingWindows.of_time_difference_and_grace(4, 10))
    sliding.aggregate(n=Count(), worst=Max("amount")).to_stream().to("out")
    ran = run(builder, [("a", Order("x", 5), 10), ("a", Order("x", 3), 12)])
    assert plain(ran.output()) == [
        (windowed("a", 6, 10), (1, 5), 10),
        (windowed("a", 11, 15), (1, 3), 12),
        (windowed("a", 8, 12), (2, 5), 12),
    ]


def test_sessions_merge(run: Run):
    builder, stream = source(key=str, value=Order)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(4, 100))
    sessions.aggregate(**EVERY).to_stream().to("out")
    ran = run(builder, [("a", Order("bob", 5, 1.5), 10), ("a", Order("ann", 7), 17), ("a", Order("cid", 1, 0.5), 14)])
    assert plain(ran.output()) == [
        (windowed("a", 10, 10), (1, 1, 5, 1.5, 1.5, "bob", "bob", 1.5), 10),
        (windowed("a", 17, 17), (1, 0, 7, None, None, "ann", "ann", None), 17),
        (windowed("a", 10, 10), None, 10),
        (windowed("a", 17, 17), None, 17),
        (windowed("a", 10, 17), (3, 2, 13, 1.0, 1.5, "ann", "bob", 0.5), 17),
    ]


@dataclass
class Nested:
    order: Order


class Typed(TypedDict):
    amount: int


def of(reading: Any, value_type: Any, values: list[Any], run: Run, kind: Any = Sum) -> list[Any]:
    """What an aggregate of the values gives."""
    builder, stream = source(key=str, value=value_type)
    stream.group_by_key().aggregate(result=kind(reading)).to_stream().to("out")
    return [value.result for _, value, _ in run(builder, [("a", value, 1) for value in values]).output()]


def test_what_is_read_may_be_a_field_of_any_kind_of_value_a_function_or_the_value_itself(run: Run):
    assert of("order.amount", Nested, [Nested(Order("x", 1)), Nested(Order("x", 2))], run) == [1, 3]
    assert of("amount", Typed, [{"amount": 1}, {"amount": 2}], run) == [1, 3]
    assert of("amount", dict, [{"amount": 1}, {}, {"amount": 2.5}], run) == [1, 1, 3.5]
    assert of("a.b", dict, [{"a": {"b": 1}}, {"a.b": 2}], run) == [1, 3]
    assert of(None, int, [1, 2], run) == [1, 3]
    assert of(None, float, [1.5, 2.5], run) == [1.5, 4.0]
    assert of(lambda value: value.amount * 2, Order, [Order("x", 1), Order("x", 2)], run) == [2, 6]
    assert of(lambda key, value: f"{key}{value}", int, [3, 1, 2], run, Min) == ["a3", "a1", "a1"]


def test_last_and_first_take_records_as_they_come_even_without_a_value(run: Run):
    values = [Order("x", None), Order("y", 2), Order("z", None)]
    assert of("amount", Order, values, run, First) == [None, None, None]
    assert of("amount", Order, values, run, Last) == [None, 2, None]


def test_nan_is_the_largest_number_and_makes_sums_of_itself(run: Run):
    values = [Order("x", 1, 2.0), Order("x", 1, float("nan")), Order("x", 1, 1.0)]
    assert [str(one) for one in of("delay", Order, values, run, Max)] == ["2.0", "nan", "nan"]
    assert [str(one) for one in of("delay", Order, values, run, Min)] == ["2.0", "2.0", "1.0"]
    assert [str(one) for one in of("delay", Order, values, run, Mean)] == ["2.0", "nan", "nan"]


def test_a_sum_beyond_64_bits_is_a_failure_of_its_record(run: Run):
    builder, stream = source(key=str, value=Order)
    stream.group_by_key().aggregate(total=Sum("amount")).to_stream().to("out")
    most = 2**63 - 1
    rows = [("a", Order("x", most - 1), 1), ("a", Order("x", 2), 2), ("a", Order("x", 1), 3)]
    ran = run(builder, rows, on_error="skip")
    assert plain(ran.output()) == [("a", (most - 1,), 1), ("a", (most,), 3)]


def test_a_function_that_fails_is_a_failure_of_its_record(run: Run):
    builder, stream = source(key=str, value=Order)
    stream.group_by_key().aggregate(share=Sum(lambda value: 12 // value.amount), n=Count()).to_stream().to("out")
    rows = [("a", Order("x", 4), 1), ("a", Order("x", 0), 2), ("a", Order("x", 3), 3)]
    ran = run(builder, rows, on_error="skip")
    assert plain(ran.output()) == [("a", (3, 1), 1), ("a", (7, 2), 3)]


class Stats(msgspec.Struct, frozen=True):
    mean: float | None
    orders: int


def test_results_may_be_of_a_class_of_ones_own(run: Run):
    builder, stream = source(key=str, value=Order)
    stream.group_by_key().aggregate(value=Stats, orders=Count(), mean=Mean("amount")).to_stream().to("out")
    assert run(builder, ROWS[:2]).output() == [("a", Stats(5.0, 1), 3), ("a", Stats(6.0, 2), 6)]


def test_a_named_store_has_the_results_and_what_else_the_aggregates_need(run: Run):
    builder, stream = source(key=str, value=Order)
    stream.group_by_key().aggregate(store="stats", mean=Mean("amount")).to_stream().to("out")
    ((key, kept, time),) = run(builder, ROWS[:2]).store("stats")
    assert (key, msgspec.json.encode(kept), time) == ("a", b'{"mean":6.0,"mean.sum":12,"mean.count":2}', 6)


@pytest.mark.parametrize("text", ["", "z" * 100])
def test_texts_and_times_have_a_smallest_and_a_largest(run: Run, text: str):
    values = ["b", text, "a", "c"]
    assert of(None, str, values, run, Max) == ["b", max("b", text), max("b", text), max("c", text)]
    assert of(None, str, values, run, Min) == ["b", min("b", text), min("a", text), min("a", text)]


def test_a_text_that_cannot_be_written_is_a_failure_of_its_record(run: Run):
    builder, stream = source(key=str, value=int)
    stream.group_by_key().aggregate(last=Last(lambda value: "\ud800" if value == 2 else "x")).to_stream().to("out")
    ran = run(builder, [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)], on_error="skip")
    assert plain(ran.output()) == [("a", ("x",), 1), ("a", ("x",), 3)]

"""Aggregates by name: what each of them gives, for streams, windows and sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict

import msgspec
import pytest

from penstock import (
    Collect,
    Count,
    EmitStrategy,
    First,
    Last,
    Max,
    Mean,
    Min,
    ProcessingError,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Sum,
    TimeWindows,
    TopN,
)
from penstock.testing import pipe
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


def test_the_top_records_are_those_with_the_largest_values_and_of_equal_ones_the_first(run: Run):
    builder, stream = source(key=str, value=Order)
    top = {"top": TopN(2, by="amount", field="user"), "most": TopN(1, by=lambda order: order.delay)}
    stream.group_by_key().aggregate(**top).to_stream().to("out")
    rows = [("x", 5, 1.0), ("y", None, 2.0), ("z", 7, None), ("u", 7, 2.0)]
    ran = run(builder, [("a", Order(*row), 1) for row in rows])
    assert [value for _, value, _ in plain(ran.output())] == [
        (["x"], [Order("x", 5, 1.0)]),
        (["x"], [Order("y", None, 2.0)]),
        (["z", "x"], [Order("y", None, 2.0)]),
        (["z", "u"], [Order("y", None, 2.0)]),
    ]


def test_top_records_and_collected_values_of_sessions_that_merge(run: Run):
    builder, stream = source(key=str, value=Order)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(4, 100))
    merged = sessions.aggregate(top=TopN(2, by="amount", field="user"), all=Collect("user", limit=2))
    merged.to_stream().to("out")
    ran = run(builder, [("a", Order("x", 5), 10), ("a", Order("y", 7), 17), ("a", Order("z", 6), 14)])
    assert plain(ran.output())[-1:] == [(windowed("a", 10, 17), (["y", "z"], ["x", "y"]), 17)]


def test_collected_values_come_in_order_up_to_the_limit(run: Run):
    assert of("amount", Order, [Order("x", 2), Order("x", None), Order("x", 1)], run, Collect) == [
        [2],
        [2, None],
        [2, None, 1],
    ]


def test_rows_of_tables_are_taken_out_again_when_they_change(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=Order)
    groups = table.group_by(lambda key, order: (order.user, order), key=str)
    groups.aggregate(
        n=Count(), paid=Count("amount"), total=Sum("amount"), mean=Mean("amount"), all=Collect("amount")
    ).to_stream().to("out")
    rows = [
        ("1", Order("ann", 5), 1),
        ("2", Order("ann", None), 2),
        ("3", Order("ann", 2), 3),
        ("1", Order("bob", 4), 4),
        ("3", None, 5),
        ("2", None, 6),
    ]
    assert plain(run(builder, rows).output()) == [
        ("ann", (1, 1, 5, 5.0, [5]), 1),
        ("ann", (2, 1, 5, 5.0, [5, None]), 2),
        ("ann", (3, 2, 7, 3.5, [5, None, 2]), 3),
        ("ann", (2, 1, 2, 2.0, [None, 2]), 4),
        ("bob", (1, 1, 4, 4.0, [4]), 4),
        ("ann", (1, 0, None, None, [None]), 5),
        ("ann", None, 6),
    ]


def test_tables_refuse_floats_that_cannot_be_taken_out_of_a_sum_again(run: Run):
    builder = StreamsBuilder()
    groups = builder.table("in", key=str, value=float).group_by(lambda key, share: ("all", share), key=str)
    groups.aggregate(total=Sum()).to_stream().to("out")
    ran = run(builder, [("1", 0.5, 1), ("2", float("nan"), 2), ("3", 0.25, 3)], on_error="skip")
    assert plain(ran.output()) == [("all", (0.5,), 1), ("all", (0.75,), 3)]


@pytest.mark.parametrize(
    ("aggregate", "kind"),
    [(Max, datetime), (Min, datetime), (lambda field: TopN(1, by=field), datetime), (Sum, Decimal), (Mean, Decimal)],
)
def test_values_that_plain_json_does_not_keep_need_a_type(aggregate: Any, kind: type):
    values = {datetime: [datetime(2026, 11, 27, 10), datetime(2026, 11, 27, 11)], Decimal: [Decimal("1.5"), Decimal(2)]}

    def untyped(value: dict[str, Any]):  # type: ignore[no-untyped-def]
        return values[kind][value["n"]]

    def typed(value: dict[str, Any]) -> Any:
        return values[kind][value["n"]]

    typed.__annotations__["return"] = kind
    rows = [("a", {"n": 0}), ("a", {"n": 1})]
    with pytest.raises(ProcessingError, match="give the type with a class of values, or as the result of the function"):
        pipe(lambda stream: stream.group_by_key().aggregate(best=aggregate(untyped)), rows)
    assert len(pipe(lambda stream: stream.group_by_key().aggregate(best=aggregate(typed)), rows)) == 2

"""Records that are meant to break things: whatever a serde or a function raises or returns is that record's failure,
and the records behind it go on."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from penstock import KTable, Materialized, SlidingWindows, StreamsBuilder, TimeWindows
from penstock.dsl.windows import SessionWindows
from penstock.errors import ProcessingError
from penstock.serdes import Serde
from support.flows import Run, source

SKIPPED = "skipped-records-total"
DEEP = b"[" * 2000 + b"]" * 2000
"""JSON that no parser follows to its end."""


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@dataclass
class Total:
    name: str
    amount: float = 0.0


class Frozen(msgspec.Struct, frozen=True):
    count: int = 0


def dead(ran: Any) -> list[tuple[Any, str]]:
    """The keys of the dead letters, and why."""
    return [(letter.key, dict(letter.headers)["penstock.error"].decode()) for letter in ran.driver.read_output("dead")]


# --- records that cannot be read -----------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [None, list, list[Any]])
def test_json_that_is_nested_2000_deep_is_skipped(run: Run, type_):
    builder, stream = source(value=type_)
    stream.map_values(lambda value: len(value), value=int).to("out")
    ran = run(builder, [("a", [1], 1), ("b", DEEP, 2), ("c", [1, 2], 3)], on_error="skip")
    assert ran.output() == [("a", 1, 1), ("c", 2, 3)]
    assert ran.counted(SKIPPED) == {("KSTREAM-SOURCE-0000000000", "SerdeError"): 1}


def test_a_value_that_is_nested_too_deeply_to_be_written_is_skipped(run: Run):
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    builder, stream = source(value=int)
    stream.map_values(lambda value: deep if value == 2 else [value], value=list).to("out")
    ran = run(builder, [("a", 1, 1), ("b", 2, 2), ("c", 3, 3)], on_error="dead_letter:dead")
    assert ran.output() == [("a", [1], 1), ("c", [3], 3)]
    assert [key for key, _ in dead(ran)] == [b"b"]
    while deep:  # taken apart from the outside: Python itself stops at what is nested so deeply
        deep = deep.pop()


class Fragile(Serde):
    """A user's serde that raises whatever comes."""

    name = "fragile"

    def encode(self, value: Any) -> bytes:
        return value["text"].encode() if value["text"] != "no bytes" else value["text"]

    def decode(self, data: bytes) -> Any:
        if data == b"exit":
            sys.exit(3)
        return {b"key": lambda: {}["missing"], b"wordless": _wordless}.get(data, lambda: {"text": data.decode()})()


def _wordless() -> None:
    raise Wordless


@pytest.mark.parametrize("poison", [b"key", b"exit", b"wordless", b"\xff"])
def test_whatever_a_serde_raises_while_it_reads_is_the_records_failure(run: Run, poison):
    builder, stream = source(value=Fragile())
    stream.filter(lambda key, value: True).to("out")
    ran = run(
        builder, [("a", {"text": "1"}, 1), ("b", poison, 2), ("c", {"text": "3"}, 3)], on_error="dead_letter:dead"
    )
    assert ran.output() == [("a", {"text": "1"}, 1), ("c", {"text": "3"}, 3)]
    assert [key for key, _ in dead(ran)] == [b"b"]


@pytest.mark.parametrize("wrong", [{}, {"text": "no bytes"}, 5])
def test_whatever_a_serde_raises_while_it_writes_is_the_records_failure(run: Run, wrong):
    builder, stream = source(value=int)
    stream.map_values(lambda value: wrong if value == 2 else {"text": str(value)}, value=Fragile()).to("out")
    ran = run(builder, [("a", 1, 1), ("b", 2, 2), ("c", 3, 3)], on_error="skip")
    assert ran.output() == [("a", {"text": "1"}, 1), ("c", {"text": "3"}, 3)]
    assert sum(ran.counted(SKIPPED).values()) == 1


# --- functions that raise ------------------------------------------------------------------------------------------


def exits(value: int) -> int:
    if value == 2:
        sys.exit("bye")
    return value


def has_no_words(value: int) -> int:
    if value == 2:
        raise Wordless
    return value


def has_half_a_character(value: int) -> int:
    if value == 2:
        raise ValueError("\ud83d")
    return value


WAYS_TO_FAIL = {
    exits: "SystemExit: bye",
    has_no_words: "Wordless: (its message cannot be shown: __str__ raises RuntimeError)",
    has_half_a_character: "ValueError: \\ud83d",
}

STEPS = {
    "map_values": lambda stream, fails: stream.map_values(fails, value=int),
    "map": lambda stream, fails: stream.map(lambda key, value: (key, fails(value)), key=str, value=int),
    "filter": lambda stream, fails: stream.filter(lambda key, value: fails(value) > 0),
    "peek": lambda stream, fails: stream.peek(lambda key, value: fails(value)),
    "flat_map_values": lambda stream, fails: stream.flat_map_values(lambda value: (fails(v) for v in [value])),
    "select_key": lambda stream, fails: stream.select_key(lambda key, value: fails(value) and key),
    "table": lambda stream, fails: stream.to_table().map_values(fails, value=int, store="t").to_stream(),
}


@pytest.mark.parametrize("fails", WAYS_TO_FAIL)
@pytest.mark.parametrize("step", STEPS)
def test_whatever_a_function_raises_is_the_records_failure(run: Run, step, fails):
    builder, stream = source(value=int)
    STEPS[step](stream, fails).to("out")
    ran = run(builder, [("a", 1, 1), ("b", 2, 2), ("c", 3, 3)], on_error="dead_letter:dead")
    assert [row[0] for row in ran.output()] == ["a", "c"]
    assert dead(ran) == [(b"b", WAYS_TO_FAIL[fails])]


@pytest.mark.parametrize("fails", WAYS_TO_FAIL)
def test_a_function_that_fails_without_words_stops_the_program_with_words(run: Run, fails):
    builder, stream = source(value=int)
    stream.map_values(fails, value=int).to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, [("b", 2, 2)]).output()
    first = str(failure.value).removeprefix("task 0_0: ").splitlines()[0]
    assert first == (
        f"KSTREAM-MAPVALUES-0000000001 failed on the record at topic 'in', partition 0, offset 0: {WAYS_TO_FAIL[fails]}"
    )


def test_a_merger_that_fails_is_named_and_not_the_aggregator(run: Run):
    def merger(key: str, one: int, other: int) -> int:
        return 1 // (one * 0)

    builder, stream = source(value=int)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(5))
    sessions.aggregate(int, lambda key, value, total: total + value, merger, value=int).to_stream().to("out")
    with pytest.raises(ProcessingError, match=r"the function: .*\.merger at .*test_poison\.py:\d+, given to the step"):
        run(builder, [("a", 1, 1), ("a", 2, 9), ("a", 3, 5)]).output()


def test_a_result_of_a_predicate_that_is_neither_true_nor_false_is_the_records_failure(run: Run):
    class Undecided:
        def __bool__(self) -> bool:
            raise ValueError("who knows")

    builder, stream = source(value=int)
    stream.filter(lambda key, value: Undecided() if value == 2 else True).to("out")
    ran = run(builder, [("a", 1, 1), ("b", 2, 2), ("c", 3, 3)], on_error="skip")
    assert ran.output() == [("a", 1, 1), ("c", 3, 3)]


# --- results that cannot be read again -----------------------------------------------------------------------------


def poisoned(aggregate: Any, wrong: Any) -> Any:
    """An aggregator that gives ``wrong`` for the value 2, and counts up otherwise."""

    def add(key: str, value: int, total: Any) -> Any:
        if value == 2:
            return wrong
        if isinstance(total, dict):
            return {**total, "amount": total["amount"] + value}
        if isinstance(total, Frozen):
            return Frozen(total.count + value)
        return Total(total.name, total.amount + value)

    return add


CASES: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    "NaN in a dict": (dict, lambda: {"amount": 0}, {"amount": math.nan}, {"amount": 1}, {"amount": 4}),
    "infinity in a list in a dict": (dict, lambda: {"amount": 0}, {"a": [math.inf]}, {"amount": 1}, {"amount": 4}),
    "a list for a dict": (dict, lambda: {"amount": 0}, [1], {"amount": 1}, {"amount": 4}),
    "text for a number": (Total, lambda: Total("t"), Total("t", "much"), Total("t", 1), Total("t", 4)),
    "a dict for a dataclass": (Total, lambda: Total("t"), {"amount": 1}, Total("t", 1), Total("t", 4)),
    "a frozen struct of text": (Frozen, Frozen, Frozen("x"), Frozen(1), Frozen(4)),
    "another type": (Frozen, Frozen, 7, Frozen(1), Frozen(4)),
}

GROUPED = {
    "plain": lambda grouped: grouped,
    "windows": lambda grouped: grouped.windowed_by(TimeWindows.of_size_and_grace(100, 100)),
    "sliding windows": lambda grouped: grouped.windowed_by(SlidingWindows.of_time_difference_and_grace(0, 100)),
    "sessions": lambda grouped: grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(50, 100)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["plain", "windows", "sessions"])
def test_an_aggregate_that_could_not_be_read_again_never_enters_the_store(run: Run, kind, case):
    type_, initial, wrong, one, four = CASES[case]
    builder, stream = source(value=int)
    grouped = GROUPED[kind](stream.group_by_key())
    merger = {"merger": lambda key, one, other: other} if kind == "sessions" else {}
    table = grouped.aggregate(initial, poisoned(type_, wrong), value=type_, store="totals", **merger)
    table.to_stream(lambda key, value: "a", key=str).to("out")
    ran = run(builder, [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)], on_error="dead_letter:dead")
    assert [value for _, value, _ in ran.output() if value is not None] == [one, four]
    assert [row[1] for row in ran.store("totals")] == [four]
    assert [key for key, _ in dead(ran)] == [b"a"]


def test_a_sliding_window_whose_aggregate_could_not_be_read_again_is_left_as_it_was(run: Run):
    builder, stream = source(value=int)
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    table = (
        stream.group_by_key()
        .windowed_by(windows)
        .aggregate(lambda: {"amount": 0}, poisoned(dict, {"amount": math.nan}), value=dict, store="totals")
    )
    table.to_stream(lambda key, value: key.key, key=str).to("out")
    ran = run(builder, [("a", 1, 20), ("a", 2, 22), ("a", 3, 24)], on_error="skip")
    assert [value["amount"] for _, value, _ in ran.output()] == [1, 3, 4]
    assert sum(ran.counted(SKIPPED).values()) == 1


def test_a_reducer_that_gives_nan_fails_and_the_next_record_goes_on_from_before(run: Run):
    builder, stream = source(value=dict)
    reduced = stream.group_by_key().reduce(
        lambda one, other: {"n": math.nan} if other["n"] == 2 else {"n": one["n"] + other["n"]}, store="sums"
    )
    reduced.to_stream().to("out")
    ran = run(builder, [("a", {"n": 1}, 1), ("a", {"n": 2}, 2), ("a", {"n": 3}, 3)], on_error="skip")
    assert ran.output() == [("a", {"n": 1}, 1), ("a", {"n": 4}, 3)]


def test_an_aggregate_of_a_grouped_table_that_could_not_be_read_again_never_enters_the_store(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=int)
    add, subtract = poisoned(Total, Total("t", "much")), lambda key, value, total: Total("t", total.amount - value)
    grouped = table.group_by(lambda key, value: ("all", value))
    grouped.aggregate(lambda: Total("t"), add, subtract, value=Total, store="totals").to_stream().to("out")
    ran = run(builder, [("a", 1, 1), ("b", 2, 2), ("c", 3, 3)], on_error="skip")
    assert ran.output() == [("all", Total("t", 1.0), 1), ("all", Total("t", 4.0), 3)]


def test_a_float_may_be_nan_where_the_type_is_float(run: Run):
    builder, stream = source(value=float)
    stream.group_by_key().reduce(lambda one, other: one + other, store="sums").to_stream().to("out")
    ran = run(builder, [("a", math.inf, 1), ("a", -math.inf, 2), ("a", 1.0, 3)])
    assert [(math.isinf(value), math.isnan(value)) for _, value, _ in ran.output()] == [
        (True, False), (False, True), (False, True),
    ]  # fmt: skip


def test_a_null_that_a_function_means_is_written_as_null(run: Run):
    builder, stream = source(value=int)
    stream.map_values(lambda value: {"last": None, "n": value, "text": "null"}, value=dict).to("out")
    assert run(builder, [("a", 1, 1)]).output() == [("a", {"last": None, "n": 1, "text": "null"}, 1)]


def test_nan_in_a_result_is_no_null_without_a_word(run: Run):
    builder, stream = source(value=int)
    stream.map_values(lambda value: {"mean": math.nan if value == 2 else 0.5}, value=dict).to("out")
    ran = run(builder, [("a", 1, 1), ("b", 2, 2)], on_error="dead_letter:dead")
    assert ran.output() == [("a", {"mean": 0.5}, 1)]
    assert dead(ran) == [
        (
            b"b",
            "cannot write {'mean': nan} as JSON: JSON has no number nan; use None or text instead, or the type float",
        )
    ]


def test_a_value_of_another_type_never_enters_a_table(run: Run):
    builder, stream = source(value=int)
    table = stream.map_values(lambda value: {"no": "name"} if value == 2 else Total("t", value), value=Total).to_table(
        store="t"
    )
    table.map_values(lambda total: total.amount, value=float).to_stream().to("out")
    ran = run(builder, [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)], on_error="skip")
    assert ran.output() == [("a", 1.0, 1), ("a", 3.0, 3)]


# --- one failing record, one dead letter ---------------------------------------------------------------------------


def test_a_record_that_fails_in_several_windows_makes_one_dead_letter(run: Run):
    builder, stream = source(value=int)
    windows = TimeWindows.of_size_and_grace(10, 0).advance_by(2)
    table = stream.group_by_key().windowed_by(windows).aggregate(int, lambda key, value, total: total + 12 // value)
    table.to_stream(lambda key, value: key.key, key=str).to("out")
    ran = run(builder, [("a", 0, 20), ("a", 0, 21), ("a", 12, 22)], on_error="dead_letter:dead")
    assert dead(ran) == [(b"a", "ZeroDivisionError: integer division or modulo by zero")] * 2
    assert [value for _, value, _ in ran.output()] == [1] * 5


def test_a_record_whose_results_all_fail_makes_one_dead_letter(run: Run):
    builder, stream = source(value=int)
    stream.flat_map_values(lambda value: ["?"] * value if value == 3 else [value], value=int).to("out")
    stream.map_values(lambda value: 1 // (value - 3), value=int).to("other")
    ran = run(builder, [("a", 3, 1), ("b", 4, 2), ("c", 3, 3)], on_error="dead_letter:dead")
    assert ran.output() == [("b", 4, 2)]
    assert [key for key, _ in dead(ran)] == [b"a", b"c"]
    assert sum(ran.counted("dead-letter-records-total").values()) == 2


def test_a_versioned_aggregate_that_could_not_be_read_again_is_left_as_it_was(run: Run):
    builder, stream = source(value=int)
    kept = Materialized.as_versioned("totals", "1 hour")
    add = poisoned(dict, {"amount": math.nan})
    stream.group_by_key().aggregate(lambda: {"amount": 0}, add, value=dict, materialized=kept).to_stream().to("out")
    ran = run(builder, [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)], on_error="skip")
    assert [value for _, value, _ in ran.output()] == [{"amount": 1}, {"amount": 4}]


def bad_fails(value: str) -> str:
    if value == "bad":
        raise ValueError("bad")
    return value


def by_value(table: KTable[str, str]) -> KTable[str, int]:
    return table.group_by(lambda key, value: (value, value)).count("counts")


@pytest.mark.parametrize(
    "step",
    [
        lambda table, right: by_value(table.map_values(bad_fails)),
        lambda table, right: by_value(table.filter(lambda key, value: bool(bad_fails(value)))),
        lambda table, right: table.group_by(lambda key, value: (bad_fails(value), value)).count("counts"),
        lambda table, right: by_value(table.join(right, lambda one, other: bad_fails(one))),
        lambda table, right: by_value(table.join(right, lambda one, other: bad_fails(one), store="joined")),
    ],
)
def test_a_row_that_failed_in_a_table_is_counted_once_and_in_no_group_until_its_next_change(run: Run, step):
    """It failed again as the old value of its next change, which was left out then, or counted beside its own ghost."""
    builder = StreamsBuilder()
    step(builder.table("in", value=str), builder.table("right", value=str)).to_stream().to("out")
    rows = [("right", "k", "r", 0), *(("in", "k", value, n) for n, value in enumerate(["x", "bad", "x", "y"], 1))]
    ran = run(builder, rows, on_error="skip")
    assert [row[:2] for row in ran.output()] == [("x", 1), ("x", 0), ("x", 1), ("x", 0), ("y", 1)]
    assert list(ran.counted("skipped-records-total").values()) == [1]


@pytest.mark.parametrize("kind", ["join", "left_join"])
def test_a_row_whose_foreign_key_failed_leaves_the_join_until_its_next_change(run: Run, kind):
    """The next change failed as well, and the row went on with the subscription of the change before both."""
    builder = StreamsBuilder()
    left, right = builder.table("in", value=str), builder.table("right", value=str)
    joined = getattr(left, kind)(right, lambda one, other: f"{one}{other}", foreign_key=bad_fails)
    joined.to_stream().to("out")
    rows = [("right", "x", "X", 1), ("right", "y", "Y", 1), ("in", "k", "x", 2), ("in", "k", "bad", 3)]
    rows += [("right", "x", "Z", 4), ("in", "k", "y", 5), ("in", "k", "x", 6), ("right", "y", "W", 7)]
    ran = run(builder, rows, on_error="skip")
    assert [row[:2] for row in ran.output()] == [("k", "xX"), ("k", None), ("k", "yY"), ("k", "xZ")]
    assert list(ran.counted("skipped-records-total").values()) == [1]


def test_a_joined_row_or_a_foreign_key_of_another_type_is_left_out_of_the_table(run: Run):
    builder = StreamsBuilder()
    left, right = builder.table("in", value=int), builder.table("right", value=int)
    left.join(right, lambda one, other: one / other if one == 2 else one, value=int, store="t").to_stream().to("out")
    left.join(
        right, lambda one, other: one + other, foreign_key=lambda value: 5 if value == 3 else "a", value=int, store="f"
    ).to_stream().to("foreign")
    rows = [("right", "a", 10, 1), ("in", "a", 1, 2), ("in", "a", 2, 3), ("in", "a", 3, 4)]
    ran = run(builder, rows, on_error="skip")
    assert ran.output() == [("a", 1, 2), ("a", 3, 4)]
    assert ran.output("foreign") == [("a", 11, 2), ("a", 12, 3), ("a", None, 4)]

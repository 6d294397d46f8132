"""Sliding windows of a whole chunk of records: compared with what the definition of these windows says, and, where late
records leave gaps that the definition does not know, with the records processed one by one."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import EmitStrategy, Materialized, SlidingWindows
from penstock.ops.windows.sliding.processing import process_records
from penstock.testing.cuts import CutDriver
from support.flows import Row, pipe_rows, source, windowed

DIFFERENCE = 3
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(1000, 1025)), max_size=30)


def starts(times: set[int]) -> set[int]:
    """Where the windows of one key begin: one ends at each time, one begins behind it if another falls into that."""
    ends_there = {time - DIFFERENCE for time in times}
    behind = {time + 1 for time in times if any(time < other <= time + 1 + DIFFERENCE for other in times)}
    return ends_there | behind


def updates(rows: list[Row]) -> list[Row]:
    """All updates of the texts in the windows, in the order of Kafka Streams."""
    seen: dict[str, list[tuple[int, str]]] = defaultdict(list)
    found = []
    for key, value, time in rows:
        before = starts({at for at, _ in seen[key]})
        is_new = time not in {at for at, _ in seen[key]}
        earlier = max((at for at, _ in seen[key] if at < time), default=None)
        followed = is_followed(seen[key], earlier)
        seen[key].append((time, value))
        after = starts({at for at, _ in seen[key]})
        changed = [start for start in before if start <= time <= start + DIFFERENCE]
        made = [start for start in after - before if start <= time]
        if is_new and time - DIFFERENCE in made and earlier == time - DIFFERENCE - 1 and followed:
            made.append(time - DIFFERENCE)  # as the one behind the earlier record, and as the one that ends here
        later = [time + 1] if time + 1 in after - before else []
        for start in [*sorted(changed, reverse=True), *sorted(made, reverse=True), *later]:
            inside = [(at, text) for at, text in seen[key] if start <= at <= start + DIFFERENCE]
            text = "".join(text for _, text in inside)
            found.append((windowed(key, start, start + DIFFERENCE), text, max(at for at, _ in inside)))
    return found


def is_followed(seen: list[tuple[int, str]], time: int | None) -> bool:
    """Whether a record shares a window with one before it: Kafka Streams finds it again only then."""
    return time is not None and any(time - DIFFERENCE <= at < time for at, _ in seen)


def run(rows: list[Row], chunk_records: int) -> list[Row]:
    windows = SlidingWindows.of_time_difference_and_grace(DIFFERENCE, 100)
    builder, stream = source(value=str)
    texts = stream.group_by_key().windowed_by(windows).reduce(lambda text, more: text + more)
    texts.to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=chunk_records) as driver:
        pipe_rows(driver, rows)
        return [record[:3] for record in driver.read_output("out")]


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, chunk_records=st.sampled_from([1, 4, 100]))
def test_a_chunk_gives_the_updates_that_its_records_give_one_by_one(rows: list[Row], chunk_records: int):
    assert run(rows, chunk_records) == updates(rows)


@pytest.mark.parametrize("chunk_records", [1, 100])
def test_a_window_behind_a_record_that_ends_at_the_next_one_is_updated_twice(chunk_records: int):
    rows = [
        ("a", "1", 1000),
        ("a", "2", 1001),
        ("a", "3", 1005),  # one more than the difference behind the second
    ]
    assert run(rows, chunk_records) == [
        (windowed("a", 997, 1000), "1", 1000),
        (windowed("a", 1001, 1004), "2", 1001),
        (windowed("a", 998, 1001), "12", 1001),
        (windowed("a", 1002, 1005), "3", 1005),  # the one behind 1001
        (windowed("a", 1002, 1005), "3", 1005),  # the one that ends at 1005
    ]


@pytest.mark.parametrize("chunk_records", [1, 2, 100])
def test_a_record_too_late_for_a_part_of_its_windows_leaves_gaps_that_later_ones_find(chunk_records: int):
    windows = SlidingWindows.of_time_difference_and_grace(10, 5)
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(windows).count("counts").to_stream().to("out")
    rows = [
        ("a", "x", 1000),
        ("b", "x", 1012),
        ("a", "x", 1003),  # the window that would end there closed at 1007
        ("a", "x", 1008),
        ("a", "x", 1016),
    ]
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=chunk_records) as driver:
        pipe_rows(driver, rows)
        assert [record[:3] for record in driver.read_output("out")] == [
            (windowed("a", 990, 1000), 1, 1000),
            (windowed("b", 1002, 1012), 1, 1012),
            (windowed("a", 1001, 1011), 1, 1003),
            (windowed("a", 1001, 1011), 2, 1008),
            (windowed("a", 998, 1008), 2, 1008),  # without the one at 1003, as in Kafka Streams
            (windowed("a", 1009, 1019), 1, 1016),
            (windowed("a", 1006, 1016), 3, 1016),  # with it
        ]


def test_records_in_very_many_windows_go_down_in_pieces(monkeypatch: pytest.MonkeyPatch):
    done: list[int] = []

    def process_some(*arguments: Any) -> Any:
        outcome, failed = process_records(*arguments)
        done.append(outcome.records)
        return outcome, failed

    monkeypatch.setattr("penstock.ops.windows.sliding.operator.process_records", process_some)
    monkeypatch.setattr("penstock.ops.windows.sliding.operator._MOST_PUTS", 40)
    chosen = random.Random(1)
    rows = [(chosen.choice("ab"), chosen.choice("xyz"), 1000 + chosen.randrange(25)) for _ in range(50)]
    assert run(rows, 100) == updates(rows)
    assert sum(done) == 50
    assert 4 < len(done) < 20


GAPS = st.fixed_dictionaries(
    {
        "rows": st.lists(
            st.tuples(st.sampled_from("aab"), st.sampled_from("xyz"), st.integers(0, 12), st.integers(0, 4)),
            max_size=40,
        ),
        "begin": st.sampled_from([0, 3, 1000]),
        "difference": st.sampled_from([0, 1, 3, 5, 10]),
        "grace": st.sampled_from([0, 0, 1, 5]),
        "extra_retention": st.sampled_from([0, 1, 5]),
        "in_memory": st.booleans(),
        "final": st.booleans(),
    }
)


@settings(max_examples=150, deadline=None)
@given(shape=GAPS)
def test_late_records_leave_the_gaps_that_they_leave_one_by_one(shape: dict[str, Any]):
    rows, now = [], shape["begin"]
    for key, value, back, on in shape["rows"]:
        now += on
        rows.append((key, value, max(0, now - back)))
    at_once, one_by_one = ([*rows, ("end", value, now)] for value in (".", NONE))
    assert with_gaps(at_once, shape) == with_gaps(one_by_one, shape)


NONE = "none"
"""A value with which an aggregate is gone: the function is called between records then."""


def with_gaps(rows: list[Row], shape: dict[str, Any]) -> Any:
    """All results, drops and stored rows of keys of one letter."""
    difference, grace = shape["difference"], shape["grace"]
    materialized = Materialized.as_("kept").with_retention(2 * difference + grace + shape["extra_retention"])
    windows = SlidingWindows.of_time_difference_and_grace(difference, grace)
    builder, stream = source(value=str)
    grouped = stream.group_by_key().windowed_by(windows)
    if shape["final"]:
        grouped = grouped.emit_strategy(EmitStrategy.on_window_close())
    texts = grouped.aggregate(
        lambda: "",
        lambda key, value, text: None if value == NONE else text + value,
        value=str,
        materialized=materialized.in_memory() if shape["in_memory"] else materialized,
    )
    texts.to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=1000) as driver:
        pipe_rows(driver, rows)
        output = [record[:3] for record in driver.read_output("out") if record.key.key != "end"]
        stored = sorted(str(row) for row in driver.store("kept").all() if row[0].key != "end")
        return output, driver.dropped_inputs(), stored


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[CutDriver]:
    """Counts of sliding windows without grace, where nothing can be called between records."""
    monkeypatch.delattr("penstock.ops.windows.sliding.processing._one_by_one")
    builder, stream = source(value=str)
    counts = stream.group_by_key().windowed_by(SlidingWindows.of_time_difference_with_no_grace(5)).count("counts")
    counts.to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=50) as driver:
        yield driver


@pytest.mark.kip("328-01")
def test_counts_are_never_processed_record_by_record(counted: CutDriver):
    chosen = random.Random(1)
    rows = [(chosen.choice("abc"), "x", time - chosen.choice([0, 0, 3, 8])) for time in range(1000, 1200)]
    pipe_rows(counted, rows)
    assert sum(1 for _ in counted.read_output("out")) > len(rows)
    assert counted.dropped_records_total() > 0


@pytest.mark.kip("328-01")
def test_nor_are_counts_of_times_that_lie_too_far_apart_for_one_line_of_numbers(counted: CutDriver):
    far = 2**60
    pipe_rows(counted, [("a", "x", 1000), ("a", "y", 1003), ("a", "z", far), ("a", "z", 1001), ("a", "z", far + 5)])
    assert [record[:3] for record in counted.read_output("out")] == [
        (windowed("a", 995, 1000), 1, 1000),
        (windowed("a", 1001, 1006), 1, 1003),
        (windowed("a", 998, 1003), 2, 1003),
        (windowed("a", far - 5, far), 1, far),
        (windowed("a", far + 1, far + 6), 1, far + 5),
        (windowed("a", far, far + 5), 2, far + 5),
    ]
    assert counted.dropped_records_total() == 1


def test_counts_are_the_same_where_there_is_too_little_room_for_them_at_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.ops.windows.sliding.processing._USUAL_PUTS", 0)
    monkeypatch.setattr("penstock.ops.windows.sliding.processing._BLOCK", 8)
    builder, stream = source()
    windows = SlidingWindows.of_time_difference_and_grace(DIFFERENCE, 1000)
    stream.group_by_key().windowed_by(windows).count("counts").to_stream().to("out")
    chosen = random.Random(2)
    rows = [(chosen.choice("ab"), chosen.choice("xyz"), 1000 + chosen.randrange(25)) for _ in range(50)]
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=100) as driver:
        pipe_rows(driver, rows)
        found = [record[:3] for record in driver.read_output("out")]
    assert found == [(window, len(text), time) for window, text, time in updates(rows)]

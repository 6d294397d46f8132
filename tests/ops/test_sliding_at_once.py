"""Sliding windows of a whole chunk of records, compared with what the definition of these windows says."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import SlidingWindows
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

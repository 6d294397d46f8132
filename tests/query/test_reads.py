"""All ways to read stores, against plain dicts: bounds, order and direction, in the test driver and as committed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import (
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Windowed,
    open_store,
    produce,
)
from penstock.engine.local import LocalApplication
from penstock.errors import ConfigError
from penstock.log.file.log import FileLog
from penstock.plan.topology import Topology
from penstock.record import SessionKey
from penstock.serdes import BYTES, STR
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.testing import TopologyTestDriver
from support.folders import MEMORY

pytestmark = pytest.mark.slow

FEW = settings(max_examples=max(3, settings.default.max_examples // 12), deadline=None)
KEYS = st.sampled_from(["a", "aa", "a\x01", "ab", "b", "\x00\x00", "zz"])
BOUNDS = st.none() | KEYS | st.sampled_from(["", "ac", "\x7f"])
TIMES = st.integers(0, 60) | st.sampled_from([59_990, 60_010, 100_000])
ROWS = st.lists(st.tuples(KEYS, st.integers(0, 9), TIMES), max_size=30)
Given = list[tuple[str, Any, int]]


@contextmanager
def in_driver(topology: Topology, rows: Given) -> Iterator[Any]:
    with TopologyTestDriver(topology, statestore_cache_max_bytes=0) as driver:
        driver.pipe_record_list("in", rows)
        yield driver.store("store")


@contextmanager
def as_committed(topology: Topology, rows: Given) -> Iterator[Any]:
    """Half of the rows in a snapshot, and the other half in a delta file."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        log, storage = FileLog(Path(name) / "log"), LocalStorage(Path(name) / "checkpoint")
        limits = Settings.load(environment={}, flush_commits=1, snapshot_commits=1, statestore_cache_max_bytes=0)
        produce([], "in", str, int, log)
        program = LocalApplication(topology, "app", limits, log, storage, Path(name) / "state")
        for some in (rows[: len(rows) // 2], rows[len(rows) // 2 :], []):
            produce(some, "in", str, int, log)
            program.run_until()
        with open_store(Path(name), "store") as store:
            yield store
        program.close()


WAYS = pytest.mark.parametrize("reading", [in_driver, as_committed])
Reading = Callable[[Topology, Given], Any]


def inside(key: str, low: str | None, high: str | None) -> bool:
    data = key.encode()
    return (low is None or low.encode() <= data) and (high is None or data <= high.encode())


def both_ways(forwards: Callable[..., Any], backwards: Callable[..., Any], *bounds: Any) -> list[Any]:
    """What one finds, if the other one finds the same the other way round."""
    found = list(forwards(*bounds))
    assert list(backwards(*bounds)) == found[::-1]
    return found


# --- by key --------------------------------------------------------------------------------------------------------


def table() -> Topology:
    builder = StreamsBuilder()
    builder.table("in", key=str, value=int, store="store")
    return builder.build()


@pytest.mark.kip("KS-14")
@WAYS
@FEW
@given(rows=ROWS, low=BOUNDS, high=BOUNDS)
def test_a_key_value_store_reads_as_a_sorted_dict(reading: Reading, rows: Given, low: str | None, high: str | None):
    deleting = [(key, None if value == 0 else value, time) for key, value, time in rows]
    expected: dict[str, tuple[int, int]] = {}
    for key, value, time in deleting:
        expected.pop(key, None)
        if value is not None:
            expected[key] = (value, time)
    every = [(key, *expected[key]) for key in sorted(expected, key=str.encode)]
    with reading(table(), deleting) as store:
        names = ["a", "aa", "b", "none"]
        assert store.multi_get(names) == [store.get(name) for name in names]
        assert store.multi_get(names) == [expected.get(name, (None,))[0] for name in names]
        assert both_ways(store.all, store.reverse_all) == every
        found = both_ways(store.range, store.reverse_range, low, high)
        assert found == [row for row in every if inside(row[0], low, high)]
        for prefix in ("", "a", "\x00"):
            some = [row for row in every if row[0].startswith(prefix)]
            assert list(store.prefix_scan(prefix)) == list(store.prefix_scan(prefix.encode(), serde=BYTES)) == some
            assert list(store.prefix_scan(prefix.encode(), reverse=True)) == some[::-1]
        assert store.approximate_num_entries() == len(every)


# --- in windows ----------------------------------------------------------------------------------------------------


def windows(kind: str, in_memory: bool) -> Topology:
    builder = StreamsBuilder()
    kept = Materialized.as_("store").with_retention("2 minutes")
    kept = kept.in_memory() if in_memory else kept
    made = {
        "tumbling": TimeWindows.of_size_and_grace(10, 100_000),
        "sliding": SlidingWindows.of_time_difference_and_grace(10, 100_000),
    }
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.windowed_by(made[kind]).aggregate(
        lambda: 0, lambda key, value, sum_: sum_ + value, value=int, materialized=kept
    )
    return builder.build()


def starts(rows: Given) -> set[tuple[str, int]]:
    """The windows of 10 ms that rows fall into."""
    return {(key, time // 10 * 10) for key, _, time in rows}


def by_segment(in_memory: bool) -> Callable[[tuple[str, int]], Any]:
    """The order in which windows come: by segment, key and start; from memory by start and key."""

    def order(window: tuple[str, int]) -> Any:
        key, start = window
        return (start, key.encode()) if in_memory else (start // 60_000, key.encode() + start.to_bytes(8, "big"))

    return order


@pytest.mark.kip("KS-14")
@WAYS
@pytest.mark.parametrize("in_memory", [False, True])
@FEW
@given(rows=ROWS, low=BOUNDS, high=BOUNDS, times=st.tuples(TIMES, TIMES))
def test_a_window_store_reads_as_a_sorted_dict_by_key_and_start(
    reading: Reading, in_memory: bool, rows: Given, low: str | None, high: str | None, times: tuple[int, int]
):
    first, last = times
    order = by_segment(in_memory)
    every = sorted(starts(rows), key=order)
    with reading(windows("tumbling", in_memory), rows) as store:

        def keys_of(found: list[Any]) -> list[tuple[str, int]]:
            assert all(row[0].end == row[0].start + 10 for row in found)
            return [(window.key, window.start) for window, _, _ in found]

        assert keys_of(both_ways(store.all, store.backward_all)) == every
        some = [window for window in every if first <= window[1] <= last]
        assert keys_of(both_ways(store.fetch_all, store.backward_fetch_all, first, last)) == some
        some = [window for window in some if inside(window[0], low, high)]
        assert keys_of(both_ways(store.fetch, store.backward_fetch, low, high, first, last)) == some
        values = {(window.key, window.start): value for window, value, _ in store.all()}
        for key in ("a", "aa", "none"):
            of_key = [
                start for start in sorted(start for other, start in every if other == key) if first <= start <= last
            ]
            found = both_ways(store.fetch, store.backward_fetch, key, first, last)
            assert [(start, value) for start, value, _ in found] == [(at, values[key, at]) for at in of_key]
            assert [store.fetch(key, at) for at in (0, 10, 11)] == [values.get((key, at)) for at in (0, 10, 11)]


@WAYS
@FEW
@given(rows=ROWS, low=BOUNDS, high=BOUNDS, times=st.tuples(TIMES, TIMES))
def test_sliding_windows_are_found_by_keys_and_times_as_among_all_of_them(
    reading: Reading, rows: Given, low: str | None, high: str | None, times: tuple[int, int]
):
    with reading(windows("sliding", False), rows) as store:
        every = both_ways(store.all, store.backward_all)
        some = [row for row in every if times[0] <= row[0].start <= times[1] and inside(row[0].key, low, high)]
        assert both_ways(store.fetch, store.backward_fetch, low, high, *times) == some
        for key in ("a", "aa"):
            of_key = [(row[0].start, *row[1:]) for row in every if row[0].key == key]
            assert both_ways(store.fetch, store.backward_fetch, key) == of_key
            assert all(store.fetch(key, start) == value for start, value, _ in of_key)


def test_fetch_says_which_bounds_it_takes():
    with in_driver(windows("tumbling", False), [("a", 1, 5)]) as store:
        with pytest.raises(ConfigError, match=r"fetch takes \(key\), \(key, time\), .*; got 5 values"):
            store.fetch("a", "b", 1, 2, 3)
        with pytest.raises(ConfigError, match=r"but not \(key, time\), which is one window"):
            store.backward_fetch("a", 1)
        assert list(store.fetch_all()) == [(Windowed("a", 0, 10), 1, 5)]


# --- sessions ------------------------------------------------------------------------------------------------------


def sessions(in_memory: bool) -> Topology:
    builder = StreamsBuilder()
    kept = Materialized.as_("store").with_retention("2 minutes")
    gap = SessionWindows.of_inactivity_gap_and_grace(3, 100_000)
    grouped = builder.stream("in", key=str, value=int).group_by_key().windowed_by(gap)
    grouped.count(materialized=kept.in_memory() if in_memory else kept)
    return builder.build()


def sessions_of(rows: Given) -> dict[SessionKey, int]:
    """The sessions that rows make, and how many rows each has."""
    found: dict[SessionKey, int] = {}
    for key in {key for key, _, _ in rows}:
        times = sorted(time for other, _, time in rows if other == key)
        start = 0
        for at in range(1, len(times) + 1):
            if at == len(times) or times[at] - times[at - 1] > 3:
                found[SessionKey(key, times[start], times[at - 1])] = at - start
                start = at
    return found


@pytest.mark.kip("KS-14")
@pytest.mark.kip("94-10")
@pytest.mark.kip("94-06")
@WAYS
@pytest.mark.parametrize("in_memory", [False, True])
@FEW
@given(rows=ROWS, low=BOUNDS, high=BOUNDS, times=st.tuples(TIMES, TIMES))
def test_a_session_store_reads_as_a_sorted_dict_of_sessions(
    reading: Reading, in_memory: bool, rows: Given, low: str | None, high: str | None, times: tuple[int, int]
):
    def order(session: SessionKey) -> Any:
        key = session.key.encode()
        tail = session.end.to_bytes(8, "big") + session.start.to_bytes(8, "big")
        return (session.end, key, session.start) if in_memory else (session.end // 60_000, key + tail)

    counts = sessions_of(rows)
    every = [(session, counts[session]) for session in sorted(counts, key=order)]
    earliest_end, latest_start = times
    with reading(sessions(in_memory), rows) as store:
        assert [(SessionKey(*window), count) for window, count in store.all()] == every
        some = [row for row in every if inside(row[0].key, low, high)]
        assert both_ways(store.fetch, store.backward_fetch, low, high) == some
        reached = [row for row in some if row[0].end >= earliest_end and row[0].start <= latest_start]
        ways = store.find_sessions_in_range, store.backward_find_sessions_in_range
        assert both_ways(*ways, low, high, *times) == reached
        for key in ("a", "aa", "none"):
            own = sorted((row for row in every if row[0].key == key), key=lambda row: row[0].end)
            assert both_ways(store.fetch, store.backward_fetch, key) == own
            reached = [row for row in own if row[0].end >= earliest_end and row[0].start <= latest_start]
            assert both_ways(store.find_sessions, store.backward_find_sessions, key, *times) == reached
            assert all(store.fetch_session(*session) == count for session, count in own)
            assert store.fetch_session(key, 1, 59) is None


# --- versions ------------------------------------------------------------------------------------------------------


def versions() -> Topology:
    builder = StreamsBuilder()
    builder.table("in", key=str, value=int, materialized=Materialized.as_versioned("store", "10 minutes"))
    return builder.build()


@pytest.mark.kip("914-13")
@WAYS
@FEW
@given(rows=ROWS, as_of=TIMES, times=st.tuples(TIMES, TIMES))
def test_a_versioned_store_reads_as_the_history_of_each_key(
    reading: Reading, rows: Given, as_of: int, times: tuple[int, int]
):
    history: dict[str, dict[int, int]] = {}
    for key, value, time in rows:
        history.setdefault(key, {})[time] = value
    with reading(versions(), rows) as store:
        for key in ("a", "aa", "none"):
            own = sorted(history.get(key, {}).items())
            ends = [time for time, _ in own[1:]] + [None]
            every = [(value, time, end) for (time, value), end in zip(own, ends, strict=True)] if own else []
            assert store.get(key) == (every[-1][0] if every else None)
            valid = [one for one in every if one[1] <= as_of and (one[2] is None or as_of < one[2])]
            assert [store.get_version(key, as_of)] == (valid or [None])
            assert store.get(key, as_of) == (valid[0][0] if valid else None)
            assert both_ways(store.history, store.backward_history, key) == every
            first, last = times
            last_searched = (
                last // 60_000 * 60_000 + 60_000
            )  # older ones in later segments are not, as in Kafka Streams
            some = [
                one
                for one in every
                if one[1] <= last and (one[2] is None or (one[2] > first and one[2] < last_searched))
            ]
            assert both_ways(store.history, store.backward_history, key, *times) == some


def test_a_prefix_of_another_type_is_encoded_by_its_serde():
    with in_driver(table(), [("ab", 1, 5), ("b", 2, 5)]) as store:
        assert list(store.prefix_scan("a", serde=STR)) == [("ab", 1, 5)]

"""The deduplication store: entries by id, their index by time, on disk and in memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from penstock.settings import StateSettings
from penstock.state.kinds.deduplication import DeduplicationStore
from penstock.state.task_state import TaskState
from support.checkpoint import Checkpoint
from support.rows import keys_of

SMALL = StateSettings(hot_max_bytes=1, flush_rows=0, flush_commits=1, snapshot_commits=5)
"""Every commit goes to disk, and nothing stays in memory."""


def write(store: DeduplicationStore, *entries: tuple[bytes, int, int]) -> None:
    ids, timestamps, offsets = zip(*entries, strict=True)
    store.write(keys_of(ids), np.array(timestamps), np.array(offsets))


def find(store: DeduplicationStore, *ids: bytes) -> list[tuple[int, int]]:
    """Timestamp and offset of the entries of ids, -1 for none."""
    timestamps, offsets = store.find(keys_of(ids))
    return list(zip(timestamps.tolist(), offsets.tolist(), strict=True))


def rows(store: DeduplicationStore) -> list[tuple[bytes, int]]:
    return [(id_, timestamp) for id_, _, timestamp in store.rows()]


@pytest.mark.kip("655-11")
def test_an_entry_is_a_timestamp_and_an_offset():
    store = DeduplicationStore("ids", 100)
    write(store, (b"a", 10, 7), (b"b", 20, -1))
    assert find(store, b"b", b"c", b"a") == [(20, -1), (-1, -1), (10, 7)]


@pytest.mark.kip("655-10")
def test_an_entry_is_purged_when_it_is_older_than_the_interval_and_no_sooner():
    store = DeduplicationStore("ids", 100)
    write(store, (b"a", 10, 0), (b"b", 11, 1), (b"c", 110, 2))
    store.advance(110)
    assert rows(store) == [(b"a", 10), (b"b", 11), (b"c", 110)]
    assert [store.count(0, limit) for limit in (10, 11, 12, 111)] == [0, 1, 2, 3]
    store.advance(111)
    assert rows(store) == [(b"b", 11), (b"c", 110)]
    assert store.get(keys_of([b"a", b"b"])).timestamps.tolist() == [-1, 11]


@pytest.mark.kip("655-10")
def test_a_rollback_takes_entries_and_their_index_back_together():
    store = DeduplicationStore("ids", 100)
    write(store, (b"a", 10, 0))
    store.advance(10)
    store.commit()
    write(store, (b"b", 60, 1), (b"c", 300, 2))
    store.advance(300)  # a is gone
    store.rollback()
    assert rows(store) == [(b"a", 10)]
    assert (store.count(0, 1000), store.observed_stream_time) == (1, 10)


@pytest.mark.parametrize("settings", [StateSettings(), SMALL])
def test_entries_come_back_after_a_crash_from_disk_and_delta_files(tmp_path: Path, settings: StateSettings):
    checkpoint = Checkpoint(tmp_path, settings)
    state = checkpoint.open([DeduplicationStore("ids", 100)])
    store = state.stores["ids"]
    for offset in range(12):
        write(store, (b"id-%d" % offset, 20 * offset, offset), (b"other-%d" % offset, 20 * offset + 5, offset))
        store.advance(20 * offset + 5)
        checkpoint.commit(state)
    state.abandon()
    store = checkpoint.open([DeduplicationStore("ids", 100)]).stores["ids"]
    ids = [(b"id-%d" % n, 20 * n) for n in range(7, 12)]  # stream time is 225: all from 125 on are there
    others = [(b"other-%d" % n, 20 * n + 5) for n in range(6, 12)]
    assert sorted(rows(store)) == sorted([*ids, *others])
    assert find(store, b"id-8", b"id-12", b"other-6") == [(160, 8), (-1, -1), (125, 6)]
    assert store.count(125, 165) == 4


def test_what_is_only_on_disk_is_found_and_what_is_new_is_known_to_be_new(tmp_path: Path):
    checkpoint = Checkpoint(tmp_path, SMALL)
    state = checkpoint.open([DeduplicationStore("ids", 1000)])
    store = state.stores["ids"]
    write(store, *((b"id-%d" % n, n, n) for n in range(500)))
    checkpoint.commit(state)
    assert find(store, b"id-3", b"new", b"id-499") == [(3, 3), (-1, -1), (499, 499)]
    write(store, (b"new", 600, 600))
    checkpoint.commit(state)
    assert find(store, b"new", b"id-3", b"newer") == [(600, 600), (3, 3), (-1, -1)]
    assert store.count(0, 1000) == 501


writes = st.lists(st.tuples(st.integers(0, 60), st.integers(-40, 40)), min_size=1, max_size=40)
steps = st.lists(writes | st.sampled_from(["commit", "commit", "roll back", "crash"]), max_size=12)


@given(steps, st.sampled_from([SMALL, StateSettings(), StateSettings(hot_max_bytes=30_000, flush_rows=0)]))
def test_any_sequence_of_writes_commits_rollbacks_and_crashes_leaves_what_a_dict_would_hold(steps, settings):
    with TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder), settings)
        state = checkpoint.open([DeduplicationStore("ids", 100)])
        committed, here, now = {}, {}, 1000
        for step in steps:
            store = state.stores["ids"]
            if step == "commit":
                checkpoint.commit(state)
                committed = dict(here)
            elif step == "roll back":
                state.rollback()
                here = dict(committed)
            elif step == "crash":
                state.abandon()
                state = checkpoint.open([DeduplicationStore("ids", 100)])
                here = dict(committed)
            else:
                now += 25
                entries = {b"id-%d" % number: now + lag for number, lag in step if b"id-%d" % number not in here}
                if entries:
                    write(store, *((id_, timestamp, timestamp + 1) for id_, timestamp in entries.items()))
                store.advance(now)
                here = {id_: time for id_, time in (here | entries).items() if time >= now - 100}
            names = [b"id-%d" % number for number in range(62)]
            assert store_times(state, names) == [here.get(name, -1) for name in names]
        state.close()


def store_times(state: TaskState, names: list[bytes]) -> list[int]:
    timestamps: list[int] = state.stores["ids"].get(keys_of(names)).timestamps.tolist()
    return timestamps


def test_the_size_follows_the_interval_not_the_history():
    store = DeduplicationStore("ids", 1000)
    for begin in range(0, 20_000, 100):
        times = np.arange(begin, begin + 100)
        store.write(keys_of(b"id-%d" % time for time in times), times, times)
        store.advance(begin + 99)
        store.commit()
    assert sum(1 for _ in store.rows()) == 1001
    assert sum(1 for piece in store.pieces() for _ in piece.scan()) <= 1.3 * 1001

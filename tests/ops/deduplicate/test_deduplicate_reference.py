"""Deduplication against a slow reference that follows the text of KIP-655 sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock import Deduplicated, StreamsBuilder
from penstock.arrays import partitions
from penstock.engine.local import LocalApplication
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.ops.core.groups import Groups
from penstock.ops.deduplicate.rules import Records, find_duplicates
from penstock.serdes import INT, STR
from penstock.settings import Settings
from penstock.state.kinds.deduplication import NEVER, NewestEntries
from penstock.storage.base import LocalStorage
from penstock.testing.cuts import CutDriver
from support.flows import pipe_rows


class Reference:
    """One task of the deduplication processor, one record at a time."""

    def __init__(self, interval: int):
        self.interval = interval
        self.stream_time = -1
        self.store: dict[Any, tuple[int, int]] = {}
        self.offset = -1

    def forwards(self, id_: Any, timestamp: int) -> bool:
        self.offset += 1
        self.stream_time = max(self.stream_time, timestamp)
        for expired in [one for one, (time, _) in self.store.items() if time < self.stream_time - self.interval]:
            del self.store[expired]
        if id_ is None:
            return True
        if id_ in self.store:
            return abs(timestamp - self.store[id_][0]) > self.interval
        if timestamp >= self.stream_time - self.interval:
            self.store[id_] = (timestamp, self.offset)
        return True


IDS = st.sampled_from(["a", "b", "c", None])
TIMES = st.integers(0, 40) | st.sampled_from([0, 10, 20, 100, 10_000])
INTERVALS = st.sampled_from([0, 1, 7, 10, 30, 1000])


@given(
    rows=st.lists(st.tuples(IDS, st.integers(0, 9), TIMES), max_size=60),
    interval=INTERVALS,
    cuts=st.randoms(use_true_random=False),
)
def test_however_the_input_is_cut_the_operator_does_what_the_text_says(rows: Any, interval: int, cuts: Any):
    builder = StreamsBuilder()
    kept = Deduplicated.with_("keys", str, int)
    builder.stream("in", value=int).deduplicate_by_key(interval, kept).to("out")
    reference = Reference(interval)
    expected = [row for row in rows if reference.forwards(row[0], row[2])]
    with CutDriver(builder.build(), cuts) as driver:
        pipe_rows(driver, rows)
        assert [record[:3] for record in driver.read_output("out")] == expected
        assert {id_: (time, offset) for id_, offset, time in driver.store("keys").all()} == reference.store


@settings(max_examples=10 * settings.default.max_examples)
@given(
    known=st.lists(st.integers(0, 20) | st.just(NEVER), min_size=3, max_size=3),
    records=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 100)), max_size=80),
    interval=INTERVALS,
)
def test_a_chunk_of_records_from_any_store(known: list[int], records: list[tuple[int, int]], interval: int):
    reference = Reference(interval)
    reference.stream_time = max(known)
    reference.store = {id_: (time, NEVER) for id_, time in enumerate(known) if time != NEVER}
    expected = [not reference.forwards(id_, time) for id_, time in records]

    ids, times = np.array(records, np.int64).reshape(-1, 2).T
    limits = np.maximum(np.maximum.accumulate(times), max(known)) - interval
    here = np.unique(ids)
    entries = NewestEntries(np.array(known)[here], np.full(len(here), NEVER))
    found = find_duplicates(Groups.by_number(ids), entries, Records(times, limits, np.arange(len(ids))), interval)
    assert found.duplicate.tolist() == expected


@pytest.mark.parametrize("interval", [0, 1, 3, 1000])
@pytest.mark.parametrize("ids", [1, 7, 100, 5000])
def test_large_chunks_with_few_ids_and_many(interval: int, ids: int):
    rng = np.random.default_rng(ids + interval)
    id_ = rng.integers(0, ids, 5000)
    times = np.maximum(np.arange(5000) // 3 - rng.integers(0, 4, 5000) ** 3, 0)
    reference = Reference(interval)
    expected = [not reference.forwards(one, time) for one, time in zip(id_.tolist(), times.tolist(), strict=True)]
    limits = np.maximum.accumulate(times) - interval
    groups = Groups.by_number(id_)
    none = np.full(len(groups), NEVER)
    found = find_duplicates(groups, NewestEntries(none, none), Records(times, limits, np.arange(5000)), interval)
    assert found.duplicate.tolist() == expected
    last = dict(zip(id_[found.entries].tolist(), times[found.entries].tolist(), strict=True))
    assert {one: time for one, time in last.items() if time >= limits[-1]} == {
        one: time for one, (time, _) in reference.store.items()
    }


# --- over partitions -------------------------------------------------------------------------------------------------

PARTITIONS = 3
RECORD = st.tuples(st.integers(0, PARTITIONS - 1), st.sampled_from(["a", "b", "c", "d", None]), st.integers(0, 40))


def expected_of(commits: Iterable[list[tuple[int, Any, int]]], interval: int) -> set[int]:
    """The numbers of the records that the global form forwards: in each commit, every task takes what the source
    tasks send it in the order of time, a late record directly behind what was before it, in an earlier commit as well;
    of equal times it takes source task by source task, each in its order. An id decides the task, and no id stays in
    the partition."""
    tasks = [Reference(interval) for _ in range(PARTITIONS)]
    kept, number = set(), 0
    highest = [0] * PARTITIONS
    for records in commits:
        clocks = []
        for partition, _, timestamp in records:
            highest[partition] = max(highest[partition], timestamp)
            clocks.append(highest[partition])
        order = sorted(range(len(records)), key=lambda n: (clocks[n], records[n][0]))
        arrived = [(number + n, records[n]) for n in order]
        number += len(records)
        for n, (partition, id_, timestamp) in arrived:
            if id_ is not None:
                partition = int(partitions(STR.encode_all([id_]), PARTITIONS, 0)[0])
            if tasks[partition].forwards(id_, timestamp):
                kept.add(n)
    return kept


@given(
    commits=st.lists(st.lists(RECORD, max_size=20), max_size=4), interval=INTERVALS, chunk=st.sampled_from([1, 3, 100])
)
@example(commits=[[(1, "a", 1)], [(0, "b", 1), (1, "b", 0)]], interval=1, chunk=100)
@pytest.mark.kip("655-12")
def test_over_all_partitions_the_first_in_order_of_time_source_task_and_offset_wins(
    tmp_path_factory: pytest.TempPathFactory, commits: Any, interval: int, chunk: int
):
    builder = StreamsBuilder()
    stream = builder.stream("in", key=int, value=str)
    stream.deduplicate(lambda key, value: value, interval, Deduplicated.key_serde(str)).to("out")
    folder: Path = tmp_path_factory.mktemp("partitions")
    log = MemoryLog()
    log.create_topic(TopicInfo("in", PARTITIONS))
    settings = Settings.load(environment={}, chunk_records=chunk)
    app = LocalApplication(builder.build(), "app", settings, log, LocalStorage(folder))
    numbers = count()
    for commit, records in enumerate(commits):
        with log.writer("in", f"commit-{commit}") as writer:
            for partition, id_, timestamp in records:
                columns = INT.encode_all([next(numbers)]), STR.encode_all([id_])
                writer.write(partition, *columns, np.array([timestamp], np.int64), None)
        log.append("in", writer.segments())
        app.run_until()
    app.close()
    found = set()
    for partition, end in enumerate(log.end_offsets("out")):
        for piece in log.read("out", partition, 0, end):
            found.update(INT.decode_all(piece.key))
    assert found == expected_of(commits, interval)

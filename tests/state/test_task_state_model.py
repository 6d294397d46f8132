"""A task's state against plain dictionaries, under any sequence of writes, commits, crashes and lost disks.

Four stores get the same writes: key-value and window, each persistent and in memory. After every crash the database on
disk has to be exactly the state at some commit that is in the manifests, never anything else (KIP-892).
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.settings import StateSettings
from penstock.state.database import Database
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.window import WindowStore
from penstock.state.transactional import unpack
from support.checkpoint import Checkpoint
from support.rows import as_tuples, keys_of, values_of

RETENTION, INTERVAL = 150_000, 75_000

names = st.sampled_from([b"", b"a", b"ab", b"b", b"\xff", b"a" + bytes(8)])
starts = st.integers(0, 20).map(lambda n: n * 25_000)
rows = st.tuples(st.none() | st.binary(max_size=3), st.integers(0, 10**6))
limits = st.builds(
    lambda flush, more, hot, rows: StateSettings(hot, rows, flush, flush + more),
    st.integers(1, 4),
    st.integers(0, 4),
    st.sampled_from([1, 4_000, 1 << 26]),
    st.sampled_from([1, 5, 1_000]),
)


@dataclass
class Model:
    """What the state ought to be."""

    pairs: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    windows: dict[tuple[bytes, int], tuple[bytes, int]] = field(default_factory=dict)
    window_time: int = -1
    clock: int = -1

    def oldest_segment(self) -> int:
        return (self.window_time - RETENTION + 1) // INTERVAL

    def live(self) -> dict[tuple[bytes, int], tuple[bytes, int]]:
        """The windows in segments that are still there."""
        return {key: row for key, row in self.windows.items() if key[1] // INTERVAL >= self.oldest_segment()}

    def visible(self) -> list[tuple[bytes, int, bytes, int]]:
        """The windows that can be seen, by segment, key and start."""
        seen = [(key, start, *row) for (key, start), row in self.live().items() if start > self.window_time - RETENTION]
        return sorted(seen, key=lambda row: (row[1] // INTERVAL, row[0] + row[1].to_bytes(8, "big")))


def assign(target: dict, key, row) -> None:
    if row[0] is None:
        target.pop(key, None)
    else:
        target[key] = row


class TaskStateMachine(RuleBasedStateMachine):
    @initialize(limits=limits)
    def begin(self, limits) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.checkpoint = Checkpoint(self.folder, limits)
        self.now = Model()
        self.history = {-1: Model()}
        self.open()

    def open(self) -> None:
        kinds = (("", False), ("-in-memory", True))
        self.pairs = [KeyValueStore(f"pairs{suffix}", in_memory) for suffix, in_memory in kinds]
        self.windows = [WindowStore(f"windows{suffix}", RETENTION, in_memory) for suffix, in_memory in kinds]
        self.state = self.checkpoint.open([*self.pairs, *self.windows])
        self.now = copy.deepcopy(self.history[self.checkpoint.newest])
        assert self.state.at == self.checkpoint.newest

    def teardown(self) -> None:
        self.state.abandon()
        shutil.rmtree(self.folder)

    # --- writing ---

    @rule(given=st.dictionaries(names, rows, min_size=1))
    def put(self, given) -> None:
        for store in self.pairs:
            store.put(store.locate(keys_of(given)), values_of(given.values()))
        for key, row in given.items():
            assign(self.now.pairs, key, row)

    @rule(given=st.dictionaries(st.tuples(names, starts), rows, min_size=1))
    def put_windows(self, given) -> None:
        for store in self.windows:
            keys = keys_of((key for key, _ in given), (start for _, start in given))
            store.put(store.locate(keys), values_of(given.values()))
        self.now.windows = self.now.live()
        for (key, start), row in given.items():
            if start // INTERVAL >= self.now.oldest_segment():
                assign(self.now.windows, (key, start), row)
        self.now.window_time = max(self.now.window_time, *(start for _, start in given))

    @rule(times=st.lists(st.integers(0, 1_000), min_size=1))
    def advance_clock(self, times) -> None:
        self.state.clock("operator").advance(np.array(times))
        self.now.clock = max(self.now.clock, *times)

    # --- the end of a transaction ---

    def make_manifest(self) -> None:
        self.checkpoint.make_manifest(self.state)
        self.history[self.checkpoint.newest] = copy.deepcopy(self.now)

    @rule()
    def commit(self) -> None:
        self.make_manifest()
        self.state.commit(self.checkpoint.newest)

    @rule()
    def roll_back(self) -> None:
        self.state.rollback()
        self.now = copy.deepcopy(self.history[self.checkpoint.newest])

    @rule()
    def close_and_reopen(self) -> None:
        self.state.close()
        self.check_disk()
        self.open()

    @rule(manifest=st.booleans(), disk_lost=st.booleans())
    def crash_and_reopen(self, manifest, disk_lost) -> None:
        """Before or after the manifest was made, but always before the task's own commit."""
        if manifest:
            self.make_manifest()
        self.state.abandon()
        self.check_disk()
        if disk_lost:
            shutil.rmtree(self.checkpoint.folder)
        self.open()

    # --- reading ---

    @rule(wanted=st.lists(names, unique=True), windows=st.lists(st.tuples(names, starts), unique=True))
    def get(self, wanted, windows) -> None:
        for store in self.pairs:
            assert as_tuples(store.get(keys_of(wanted))) == [self.now.pairs.get(key) for key in wanted]
        keys = keys_of((key for key, _ in windows), (start for _, start in windows))
        for store in self.windows:
            assert as_tuples(store.locate(keys).get()) == [self.now.live().get(key) for key in windows]

    @rule(key=names, ends=st.tuples(starts, starts))
    def fetch(self, key, ends) -> None:
        first, last = ends
        expected = [(row[1], row[2], row[3]) for row in self.now.visible() if row[0] == key and first <= row[1] <= last]
        for store in self.windows:
            assert list(store.fetch(key, first, last)) == sorted(expected)

    @invariant()
    def all_rows_are_there(self) -> None:
        pairs = [(key, *self.now.pairs[key]) for key in sorted(self.now.pairs)]
        assert [list(store.rows()) for store in self.pairs] == [pairs, pairs]
        assert list(self.pairs[0].range(b"a", b"b", reverse=True)) == [r for r in pairs[::-1] if b"a" <= r[0] < b"b"]
        persistent, in_memory = (list(store.rows()) for store in self.windows)
        assert persistent == self.now.visible()
        assert in_memory == sorted(self.now.visible(), key=lambda row: (row[1], row[0]))
        assert [store.observed_stream_time for store in self.windows] == [self.now.window_time] * 2
        assert self.state.clock("operator").now == self.now.clock

    def check_disk(self) -> None:
        """The database holds the rows of the commit that it says it is at, and no others."""
        database = Database(self.checkpoint.folder)
        at = self.history[database.meta().get("commit", -1)]
        found = {name: dict(database.family(name).scan(None, None)) for name in database.families()}
        database.close()
        for store in self.pairs:
            assert {key: unpack(row) for key, row in found.pop(store.name, {}).items()} == at.pairs
        for store in self.windows:
            there = {}
            for name in [name for name in found if name.startswith(f"{store.name}/")]:
                if int(name.split("/")[1]) >= at.oldest_segment():
                    there |= found[name]
            expected = {key + start.to_bytes(8, "big"): row for (key, start), row in at.live().items()}
            assert {key: unpack(row) for key, row in there.items()} == expected


TaskStateMachine.TestCase.settings = settings(max_examples=settings.default.max_examples // 4)
TestTaskState = pytest.mark.kip("892-08")(TaskStateMachine.TestCase)

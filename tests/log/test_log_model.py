"""Any sequence of appends, reads and trims, by several programs, gives what plain lists would, whatever is merged."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from penstock.errors import OffsetOutOfRangeError
from penstock.log.base import Log, TopicInfo
from penstock.log.contract.topics import NO_LIMIT
from penstock.log.file.log import FileLog
from penstock.log.memory import MemoryLog
from penstock.log.records import Records
from support.folders import MEMORY
from support.logs import rows, rows_of, write

data = st.none() | st.binary(max_size=4)
times = st.integers(0, 2**62)
headers = st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2)
pieces = st.lists(st.tuples(data, data, times), min_size=1, max_size=4) | st.lists(
    st.tuples(data, data, times, headers), min_size=1, max_size=3
)
partitions = st.integers(0, 1)
programs = st.integers(0, 2)


class LogMachine(RuleBasedStateMachine):
    """Three programs on one log, and beside them a list for each partition."""

    kind: type[Log] = FileLog

    @initialize()
    def make(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        memory = MemoryLog()
        self.logs: list[Any] = [FileLog(self.folder) if self.kind is FileLog else memory for _ in range(3)]
        self.logs[0].create_topic(TopicInfo("t", partitions=2))
        self.lists: list[list[Any]] = [[], []]
        self.starts = [0, 0]
        self.numbers: dict[str, int] = {}
        self.readers: list[tuple[int, Iterator[Records], list[Any]]] = []

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(program=programs, written=st.lists(st.tuples(partitions, pieces), max_size=3))
    def append(self, program: int, written: list[Any]) -> None:
        assert self.logs[program].append("t", write(self.logs[program], "t", *written))
        self._extend(written)

    @rule(
        program=programs,
        written=st.lists(st.tuples(partitions, pieces), min_size=1, max_size=2),
        producer=st.sampled_from(["a", "b"]),
        number=st.integers(0, 5),
    )
    def append_numbered(self, program: int, written: list[Any], producer: str, number: int) -> None:
        is_new = number > self.numbers.get(producer, -1)
        segments = write(self.logs[program], "t", *written)
        assert self.logs[program].append("t", segments, producer, number) is is_new
        if is_new:
            self.numbers[producer] = number
            self._extend(written)

    @rule(program=programs, partition=partitions, one=st.integers(0, 40), other=st.integers(0, 40))
    def read(self, program: int, partition: int, one: int, other: int) -> None:
        log, start, end = self.logs[program], min(one, other), max(one, other)
        expected = list(enumerate(self.lists[partition]))[start:end]
        try:
            found = rows(log, "t", partition, start, end)
        except OffsetOutOfRangeError:
            assert start < self.starts[partition]
        else:  # also of trimmed records, by a program that has their file open: all of them, or it must say so
            assert found == [(offset, *row) for offset, row in expected]

    @rule(program=programs)
    def look_at_the_ends(self, program: int) -> None:
        log = self.logs[program]
        assert (log.start_offsets("t"), log.end_offsets("t")) == (self.starts, [len(part) for part in self.lists])

    @rule(program=programs, partition=partitions, share=st.floats(0, 1))
    def trim(self, program: int, partition: int, share: float) -> None:
        start = round(share * len(self.lists[partition]))
        self.logs[program].trim("t", {partition: start})
        self.starts[partition] = max(self.starts[partition], start)

    @rule(program=programs)
    def tidy(self, program: int) -> None:
        if self.kind is FileLog:
            self.logs[program].tidy("t")
            self._retained(self.logs[program])

    @rule(program=programs, partition=partitions)
    def begin_to_read(self, program: int, partition: int) -> None:
        """Read some, and the rest after whatever comes next."""
        start, end = self.starts[partition], len(self.lists[partition])
        pieces = self.logs[program].read("t", partition, start, end)
        expected = [(offset, *row) for offset, row in enumerate(self.lists[partition])][start:]
        self.readers.append((partition, pieces, expected))
        self._read_on(len(self.readers) - 1, 1)

    @precondition(lambda self: self.readers)
    @rule(share=st.floats(0, 1), count=st.integers(1, 3))
    def read_on(self, share: float, count: int) -> None:
        self._read_on(round(share * (len(self.readers) - 1)), count)

    def _read_on(self, number: int, count: int) -> None:
        partition, pieces, expected = self.readers.pop(number)
        found: list[Any] = []
        try:
            for records in islice(pieces, count):
                found += rows_of(records)
        except OffsetOutOfRangeError:
            assert expected[len(found)][0] < self.starts[partition]
        else:
            assert found == expected[: len(found)]
            assert found or not expected
            self.readers.append((partition, pieces, expected[len(found) :]))

    @rule(program=programs, kept=st.none() | st.integers(0, 2000))
    def retain_bytes(self, program: int, kept: int | None) -> None:
        """What a topic keeps of each partition; how it goes depends on what is merged, so the log is asked."""
        if self.kind is FileLog:
            log = self.logs[program]
            log.set_retention("t", retention_bytes=NO_LIMIT if kept is None else kept)
            log.apply_retention("t")
            self._retained(log)

    def _retained(self, log: FileLog) -> None:
        starts = log.start_offsets("t")
        assert all(new >= old for new, old in zip(starts, self.starts, strict=True))
        self.starts = starts

    @rule(program=programs)
    def look_at_what_it_holds(self, program: int) -> None:
        if self.kind is FileLog:
            stats = self.logs[program].stats("t")
            assert stats == FileLog(self.folder).stats("t")
            assert stats.records == sum(map(len, self.lists)) - sum(self.starts)
            assert (stats.nbytes > 0, stats.newest is not None) == (stats.records > 0,) * 2

    @rule(program=programs)
    def start_anew(self, program: int) -> None:
        if self.kind is FileLog:
            self.logs[program] = FileLog(self.folder)

    def _extend(self, written: list[Any]) -> None:
        for partition, some in written:
            self.lists[partition] += some


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens after so many appends happens after a few; merging only when the test says so."""
    monkeypatch.setattr("penstock.log.file.entries.STATE_EVERY", 3)
    monkeypatch.setattr("penstock.log.file.entries.GRACE_MS", 0)
    monkeypatch.setattr("penstock.log.file.merge.FAN_IN", 2)
    monkeypatch.setattr("penstock.log.file.merge.TARGET_BYTES", 400)
    monkeypatch.setattr("penstock.log.file.upkeep.MOST_UNITS", 2)
    monkeypatch.setattr("penstock.log.file.upkeep.NODE_UNITS", 2)
    monkeypatch.setattr("penstock.log.file.upkeep.NODE_NODES", 2)
    monkeypatch.setattr("penstock.log.file.upkeep.Upkeep.appended", lambda *_: None)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("kind", [FileLog, MemoryLog])
def test_a_log_is_a_list_for_each_partition(kind: type[Log]):
    machine = type("Machine", (LogMachine,), {"kind": kind})
    profile = settings.default
    run_state_machine_as_test(machine, settings=settings(profile, max_examples=profile.max_examples // 2))

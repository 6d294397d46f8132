"""The tasks of a cycle in a batch: they wait for each other lap by lap, so one Spark task runs all of them.

Their rows are first written to the machine's own disk, because the tasks read them at different speeds. Then rounds run
as in a live program (``engine/commit/rounds.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn
from penstock.engine.batch.feed import Feed, Taken
from penstock.engine.batch.outbox import Outbox
from penstock.engine.batch.program import CyclicStage, Program
from penstock.engine.batch.stage_log import StageLog, TopicsLog
from penstock.engine.batch.task import BatchTask
from penstock.engine.commit.rounds import Rounds
from penstock.engine.shared.cycles import Cycle
from penstock.engine.shared.exchange import ExchangeRef, ExchangeWriter, read_exchange
from penstock.engine.shared.layout import TaskId, global_place
from penstock.engine.shared.manifest import TaskEntry
from penstock.engine.shared.work import TaskDone, TaskWork
from penstock.log.base import Log
from penstock.log.open import open_log
from penstock.log.records import Records, offsets_from
from penstock.plan.physical import SubTopology
from penstock.serdes import BYTES
from penstock.storage.base import LocalStorage
from penstock.storage.opening import open_storage
from penstock.storage.syncing import passing

Waiting = dict[str, dict[str, list[ExchangeRef]]]

_FOREVER = 2**62


class Spool:
    """Rows on disk, for each task and topic in order."""

    def __init__(self, cyclic: CyclicStage, storage: LocalStorage):
        self._cyclic, self._storage = cyclic, storage
        self._refs: dict[tuple[int, int], list[ExchangeRef]] = {}
        """By input and partition."""

    def fill(self, feed: Feed) -> None:
        """Write all rows of a feed, which come sorted by topic and partition."""
        with ExitStack() as stack:
            stack.enter_context(passing())
            writers = {
                one.number: stack.enter_context(ExchangeWriter(self._storage, f"rows-{one.number}.arrow"))
                for one in self._cyclic.inputs
            }
            while not feed.is_done:
                for taken in feed.take()[0]:
                    self._write(writers[taken.of.number], taken)
        for number, writer in writers.items():
            for ref in writer.refs():
                self._refs.setdefault((number, ref.partition), []).append(ref)

    @staticmethod
    def _write(writer: ExchangeWriter, taken: Taken) -> None:
        records = taken.records
        assert taken.partition is not None
        assert records.clock is not None
        ends = np.flatnonzero(np.diff(taken.partition)) + 1
        for begin, end in itertools.pairwise([0, *ends.tolist(), len(records)]):
            some = records.slice(begin, end)
            key, value = BytesColumn(some.key, BYTES), BytesColumn(some.value, BYTES)
            given = key, value, some.timestamp, (np.arange(len(some)),), some.headers
            old = None if some.old is None else BytesColumn(some.old, BYTES)
            assert some.clock is not None
            writer.write(int(taken.partition[begin]), Batch(*given), some.clock, old, some.cause)

    def refs(self, number: int, partition: int) -> list[ExchangeRef]:
        """Return the rows of an input for the tasks of a partition."""
        return self._refs.get((number, partition), [])

    def read(self, number: int, partition: int, start: int) -> Iterator[Records]:
        """Yield the records of an input from an offset on."""
        offset = 0
        for records in read_exchange(self._storage, self.refs(number, partition)):
            begin, offset = offset, offset + len(records)
            if offset > start:
                yield records.with_columns(offsets=offsets_from(begin, len(records)), placed=False).between(
                    start, offset
                )


class _Spooled(StageLog):
    """A log whose topics are the rows on disk."""

    spool: Spool
    inputs: dict[str, int]
    """The input numbers of the topics."""
    firsts: dict[str, int]
    """By topic, the offset of its first record on disk."""

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        if topic not in self.inputs:
            return
        first = self.firsts.get(topic, 0)
        for records in self.spool.read(self.inputs[topic], partition, start - first):
            yield records.with_columns(offsets=records.offsets + first)


class SpooledLog(_Spooled):
    """A spooled log whose output is returned as results."""


class SpooledTopicsLog(_Spooled, TopicsLog):
    """A spooled log whose output goes into topics."""


class CycleRun:
    """All tasks of a cycle."""

    def __init__(self, program: Program, cyclic: CyclicStage, folder: Path, stack: ExitStack):
        self._program, self._cyclic, self._folder, self._stack = program, cyclic, folder, stack
        found = program.layout.cycle_of(cyclic.stages[0].sub)
        assert found is not None
        self._cycle: Cycle = found
        (folder / "files").mkdir()
        self.storage = LocalStorage(folder / "files")
        self.settings = program.settings
        self.commit = 0
        self.tasks: dict[str, BatchTask] = {}
        self.entries: dict[str, TaskEntry] = {}
        self._began: dict[str, TaskEntry] = {}
        """The previous position of each task."""
        self._real: Log | None = None
        self.waiting: Waiting = {}
        self._spool = Spool(cyclic, self.storage)
        self._outboxes: dict[str, Outbox] = {}
        self._last: dict[str, tuple[TaskDone, int]] = {}
        """By task, the last result, and the number of commits it took part in."""

    def over(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Run over rows of all tasks, sorted by input and partition."""
        feed = Feed(batches, self._cyclic.inputs, self.settings.chunk_records, self.settings.chunk_bytes)
        if feed.is_done:
            return
        self._spool.fill(feed)
        for sub in self._cycle.subs:
            self._open(sub)
        while done := self._committed():
            for name, one in done.items():
                yield from self._outboxes[name].results(one, self._cycle.topics)
                self.tasks[name].state.commit(self.turn[0])
                self.tasks[name].keeps_changes = False
                self._last[name] = one, self._last[name][1] + 1 if name in self._last else 1
                self.entries[name] = TaskEntry(offsets=one.offsets, clock=one.clock, numbers=one.numbers)
                self._deliver(name, one)
            self.commit += 1
        for name, task in self.tasks.items():
            yield from self._outboxes[name].stores(task)
            yield self._outboxes[name].figures()
            if self._program.continuation is not None and name in self._last:
                last, commits = self._last[name]
                offsets = last.offsets | self._offsets_of_sent(TaskId.parse(name))
                yield self._outboxes[name].ended(task, last, offsets, commits)

    def _offsets_of_sent(self, id_: TaskId) -> dict[str, int]:
        """Return the offsets up to which a task has read topics that other stages send to."""
        began, found = self._began[str(id_)], {}
        for one in next(stage for stage in self._cyclic.stages if stage.sub == id_.sub).inputs:
            if one.topic in self._program.topology.internal_topics - self._cycle.topics:
                records = sum(ref.records for ref in self._spool.refs(one.number, id_.partition))
                found[one.topic] = began.offsets.get(one.topic, 0) + records
        return found

    def _committed(self) -> dict[str, TaskDone]:
        """Run the next commit. Return the tasks' results; empty when everything is read."""
        attempt = _Attempt(self, self._cycle)
        Rounds(attempt, self._cycle, "").run()
        return attempt.done

    def _open(self, sub: SubTopology) -> None:
        stage = next(one for one in self._cyclic.stages if one.sub == sub.id)
        of = {one.topic: one for one in stage.inputs}
        for task in self._program.layout.tasks_of(sub):
            began = self._began[task.name] = self.entries[task.name] = self._entry(task.name)
            log = self._log()
            log.spool, log.firsts = self._spool, {topic: began.offsets.get(topic, 0) for topic in of}
            log.inputs = {topic: one.number for topic, one in of.items()}
            given = self._program, task.id, log, self.storage, self._folder / task.name, self._stack
            opened = self.tasks[task.name] = BatchTask.opened(*given)
            opened.held_records = -1  # waiting tasks are determined for each commit
            opened.keeps_changes = self._program.continuation is not None
            self._outboxes[task.name] = Outbox(self._program, stage, task.id, log, self.storage)
            for topic in self._cycle.topics.intersection(of):
                if refs := self._spool.refs(of[topic].number, task.id.partition):
                    self.waiting.setdefault(task.name, {})[topic] = refs

    def _entry(self, task: str) -> TaskEntry:
        """Return the first position of a task."""
        continuation = self._program.continuation
        return TaskEntry() if continuation is None else continuation.entry(TaskId.parse(task))

    def _log(self) -> SpooledLog | SpooledTopicsLog:
        continuation = self._program.continuation
        if continuation is None or not continuation.to_topics:
            return SpooledLog(self._program.topics)
        if self._real is None:
            opened = open_log(self._program.place)
            self._stack.callback(opened.close)
            outbox = open_storage(continuation.storage)
            self._real = opened.with_outbox(outbox, self._program.layout.application_id)
        return SpooledTopicsLog(self._real, ())

    @property
    def turn(self) -> tuple[int, str]:
        """The running local commit, and the attempt at it."""
        return self._program.turn(self.commit)

    def ends_of(self, task: str) -> dict[str, int]:
        """Return the end offsets of the rows that a task still has to read."""
        id_ = TaskId.parse(task)
        stage = next(one for one in self._cyclic.stages if one.sub == id_.sub)
        ends: dict[str, int] = {}
        for one in stage.inputs:
            place = global_place(one.topic, 0) if one.is_global else one.topic
            if one.topic not in self._cycle.topics and self.entries[task].offsets.get(place, 0) < _FOREVER:
                refs = self._spool.refs(one.number, 0 if one.is_global else id_.partition)
                ends |= {place: _FOREVER} if refs else {}
        return ends

    def _deliver(self, name: str, done: TaskDone) -> None:
        """Queue records that go around the cycle, or were not taken, for the next commit."""
        if done.left:
            for topic, refs in done.left.items():
                self.waiting.setdefault(name, {}).setdefault(topic, [])[:0] = refs
        readers = {topic: sub.id for sub in self._cycle.subs for topic in sub.source_topics}
        for topic in self._cycle.topics.intersection(done.exchange):
            for ref in done.exchange[topic]:
                task = str(TaskId(readers[topic], ref.partition))
                self.waiting.setdefault(task, {}).setdefault(topic, []).append(ref)


class _Attempt:
    """The interface that ``Rounds`` needs, with all input available."""

    def __init__(self, run: CycleRun, cycle: Cycle):
        self._run, self._cycle = run, cycle
        self.settings = run.settings
        self.most: dict[str, int] = {}
        self.done: dict[str, TaskDone] = {}

    def take_waiting(self, subs: Iterable[SubTopology], topics: frozenset[str]) -> Waiting:
        found, self._run.waiting = self._run.waiting, {}
        return found

    def works(self, sub: SubTopology) -> list[TaskWork]:
        names = [name for name in self._run.tasks if TaskId.parse(name).sub == sub.id]
        ends = {name: self._run.ends_of(name) for name in names}
        return [TaskWork(name, self._run.entries[name], ends[name]) for name in names if ends[name]]

    def work_of(self, task: str) -> TaskWork:
        return TaskWork(task, self._run.entries[task])

    def may_come(self, cycle: Cycle, begun: Container[str]) -> list[tuple[int, TaskId]]:
        return []

    def forget(self, files: Iterable[str]) -> None:
        for name in files:
            if not name.startswith("rows-"):
                self._run.storage.delete(name)

    def order(self, works: list[TaskWork], label: str) -> dict[str, TaskDone]:
        commit, attempt = self._run.turn
        return {work.task: self._run.tasks[work.task].run(work, commit, attempt) for work in works}

    def take(self, works: list[TaskWork], by_task: dict[str, TaskDone]) -> None:
        self.done = by_task

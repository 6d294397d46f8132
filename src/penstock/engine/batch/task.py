"""A task in a batch: nothing reads its checkpoint, and its local commits form one commit."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

import msgspec

from penstock.engine.batch.feed import RowReader
from penstock.engine.batch.program import Program
from penstock.engine.batch.stage_log import StageLog
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifests
from penstock.engine.shared.stores import has_own_stores
from penstock.engine.shared.work import TaskDone, TaskWork
from penstock.engine.task.outlets import Outlets
from penstock.engine.task.reader import Reader
from penstock.engine.task.task import Left, Task
from penstock.state.kinds.key_value import KeyValueStore
from penstock.storage.base import FileRef, Storage
from penstock.storage.opening import open_storage
from penstock.storage.syncing import SyncTogether, passing

HELD_RECORDS = 1 << 20
"""Most updates that the caches of a task's tables hold across its local commits."""


RELEASED_RECORDS = 1 << 16
"""From how many held updates on those of closed windows are sent."""


class BatchTask(Task):
    """A task that does the work of a commit's end only at the end of its input."""

    has_ended = False
    """Whether it has read all input, and done that work."""
    held_records = HELD_RECORDS
    """Most updates of tables that wait for that end; beyond it they are sent before."""
    released_records = RELEASED_RECORDS
    """From how many of them on those of closed windows are sent."""
    keeps_changes = False
    """Whether its changes are kept in a file, if one local commit does everything."""
    is_at_once = False
    """Whether it does everything in one local commit."""
    internal: frozenset[str] = frozenset()
    """The repartition topics."""
    is_repeatable = False  # its commits are local, and its input is read once
    _released_from = 0
    together: SyncTogether | None = None
    """Makes files durable that outlive this batch."""

    @classmethod
    def opened(
        cls,
        program: Program,
        id_: TaskId,
        log: StageLog,
        storage: Storage,
        folder: Path,
        stack: ExitStack,
        reader: type[Reader] = Reader,
    ) -> Self:
        """Return a task at the continued application's position, or one without state. The stack closes it.

        Args:
            storage: where it writes the records for other tasks.
            folder: where it keeps its state meanwhile.
        """
        layout = replace(program.layout, partitions=dict(program.layout.partitions))  # a task adds chosen topics
        continuation = program.continuation
        checkpoint = None if continuation is None else open_storage(continuation.storage)
        topology, settings = program.topology, program.settings
        task = cls(id_, topology, layout, settings, log, storage, folder, reader, checkpoint=checkpoint)
        stack.callback(task.abandon)
        task.internal = topology.internal_topics
        if continuation is None:
            task.gathering = passing
            task.state.open(program.layout.application_id, -1, -1, lambda since: [])
            return task
        task.together = SyncTogether()
        stack.callback(task.together.close)
        task.gathering = task.together.gathering
        entry = continuation.entry(id_)
        Manifests(task.checkpoint).open(task.state, entry, continuation.identity)
        task.state.set_clocks(entry.numbers)
        task.is_at_once = has_own_stores(task.sub, topology.facts)
        return task

    def is_full(self, nbytes: int) -> bool:
        return not self.is_at_once and super().is_full(nbytes)

    def finish(self, work: TaskWork, outlets: Outlets, left: Left) -> None:
        self.has_ended = self._is_at_end()
        if not self.has_ended and self.context.held_records > max(self._released_from, self.released_records):
            with self._room.sending():
                self.flow.release(outlets.write)
            self._released_from = self.released_records + 2 * self.context.held_records
        if self.has_ended or self.context.held_records > self.held_records or self._shows_commits:
            super().finish(work, outlets, left)
        else:
            outlets.dead_letters(self._take_dead_letters())

    def _is_at_end(self) -> bool:
        if isinstance(self.reader, RowReader):
            return self.reader.is_at_end
        for one in self.reader.inputs:
            one.fill(1)
        return not any(one.waiting for one in self.reader.inputs)

    @property
    def _shows_commits(self) -> bool:
        """Whether joins see tables as of the last commit, as with Kafka's caches."""
        return any(isinstance(one, KeyValueStore) and one.shows_committed for one in self.state.stores.values())

    def _write_delta(self, commit: int, attempt: str) -> FileRef | None:
        is_all = self.has_ended or bool(self._cycle.topics)  # a cycle is at its end when nothing more comes
        return super()._write_delta(commit, attempt) if self.keeps_changes and is_all else None

    def done(self, work: TaskWork, commit: int, attempt: str, outlets: Outlets, left: Left, records: int) -> TaskDone:
        done = super().done(work, commit, attempt, outlets, left, records)
        inputs = (one for one in self.reader.inputs if one.end is not None and one.topic not in self.internal)
        return msgspec.structs.replace(done, read=sum(one.taken for one in inputs))

    def ended(self, done: TaskDone, local_commits: int) -> TaskDone:
        """Return the result of all of its local commits, durably.

        Args:
            done: the result of the last one, with the output of all of them.
            local_commits: how many there were.
        """
        base = None
        if local_commits > 1 and self.state.stores:
            base = self.state.publish_base(f"{self.state.at:016d}-{os.urandom(4).hex()}")
        assert self.together is not None
        self.together.sync()
        return done if base is None else msgspec.structs.replace(done, delta=None, base=base)

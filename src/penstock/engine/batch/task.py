"""A task in a batch: nobody reads a checkpoint of it, and its commits are all one but for its memory."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from penstock.engine.batch.feed import RowReader
from penstock.engine.batch.program import Program
from penstock.engine.batch.stage_log import StageLog
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.work import TaskWork
from penstock.engine.task.outlets import Outlets
from penstock.engine.task.reader import Reader
from penstock.engine.task.task import Left, Task
from penstock.state.kinds.key_value import KeyValueStore
from penstock.storage import FileRef, Storage
from penstock.syncing import passing

HELD_RECORDS = 1 << 20
"""How many updates the caches of a task's tables hold over its local commits."""


class BatchTask(Task):
    """A task that does at the end of its input what a task does at the end of a commit."""

    has_ended = False
    """Whether it has read all there is, and done that."""
    held_records = HELD_RECORDS
    """How many updates of tables wait for that end, at most; with more of them they go out before."""

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
        """A task without state, which is let go of with the stack."""
        layout = replace(program.layout, partitions=dict(program.layout.partitions))  # a task adds what it chooses
        task = cls(id_, program.topology, layout, program.settings, log, storage, folder, reader)
        stack.callback(task.abandon)
        task.gathering = passing
        task.state.open(program.layout.application_id, -1, -1, lambda since: [])
        return task

    def finish(self, work: TaskWork, outlets: Outlets, left: Left) -> None:
        self.has_ended = self._is_at_end()
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
        """Whether joins find what tables had at the last commit, as Kafka's caches have it."""
        return any(isinstance(one, KeyValueStore) and one.shows_committed for one in self.state.stores.values())

    def _write_delta(self, commit: int, attempt: str) -> FileRef | None:
        return None

"""What a task of a circle does in an attempt at a commit, lap by lap.

Between its laps it waits for the others, with its files open and, in the middle of a round, with a chunk on its way
through the steps. Only the last lap of the attempt says what a commit is to say of the task.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.engine.shared.circles import Circle
from penstock.engine.shared.exchange import ExchangeRef
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.work import Lap, LapDone, TaskDone, TaskWork
from penstock.engine.task.merged import MergedExchange
from penstock.engine.task.reader import Chunk, Input

if TYPE_CHECKING:
    from penstock.engine.task.task import Task


class Laps:
    """One task's part of one attempt."""

    def __init__(self, task: Task, circle: Circle, work: TaskWork, commit: int, attempt: str):
        self.attempt = attempt
        self._task = task
        self._work = work
        self._commit = commit
        self._exchanges = task.begin(work)
        self._reader = task.reader
        self._outlets = task.outlets(attempt)
        self._records = self._nbytes = 0
        self._looked = 1
        """How many records it takes in the next round, at most."""
        inputs = self._reader.inputs
        self._around = {one.topic: one for one in inputs if one.topic in circle.topics}
        self._into = [one for one in inputs if one.topic not in circle.topics and not one.goes_first]
        self._read_all([one for one in inputs if one.goes_first])

    def go(self, lap: Lap) -> TaskDone:
        """Do what there is to do until the next lap."""
        if lap.number is not None:
            self._go_around(lap, lap.number)
        else:
            self._read_all(self._come_back(lap.comes_back))
            if lap.takes:
                self._reader.turn_to(self._into, self._looked, self._task.settings.chunk_bytes)
                self._work_on(self._reader.next_chunk() or Chunk())
        return self._end() if lap.ends else self._answer(lap)

    def _go_around(self, lap: Lap, number: int) -> None:
        """Have a chunk begin, or go on."""
        assert lap.stretch is not None
        self._reader.begin_round(lap.stretch, self._work.task)
        if lap.takes:
            until = lap.stretch.until - (TaskId.parse(self._work.task) > TaskId.parse(lap.stretch.last))
            self._reader.turn_to(self._into, self._looked, self._task.settings.chunk_bytes, until)
        else:
            self._reader.turn_to(self._come_back(lap.comes_back, chunked=False), comes_back=True)
        self._work_on(self._reader.next_chunk() or Chunk(), number)

    def _come_back(self, refs: dict[str, list[ExchangeRef]], chunked: bool = True) -> list[Input]:
        """The inputs that have what came around the circle."""
        settings = self._task.settings
        limits = (settings.chunk_records, settings.chunk_bytes) if chunked else (sys.maxsize, sys.maxsize)
        for topic, some in refs.items():
            one = self._around[topic]
            start = self._work.entry.offsets.get(topic, 0) + one.taken
            one.come_back(iter(MergedExchange(self._task.storage, some, start, None, *limits)))
        return [one for topic, one in self._around.items() if topic in refs]

    def _read_all(self, inputs: list[Input]) -> None:
        """Take all that there is of some inputs through the steps, chunk by chunk."""
        if not inputs:
            return
        self._reader.turn_to(inputs, self._task.settings.chunk_records, self._task.settings.chunk_bytes)
        while (chunk := self._reader.next_chunk()) is not None:
            self._work_on(chunk)

    def _work_on(self, chunk: Chunk, lap: int | None = None) -> None:
        self._task.work_on(chunk, self._outlets, lap)
        self._records += chunk.records
        self._nbytes += chunk.nbytes

    def _answer(self, lap: Lap) -> TaskDone:
        head = until = None
        if not self._task.flow.is_on_its_way:
            self._looked = min(lap.looks, self._task.settings.chunk_records)
            self._reader.turn_to(self._into, self._looked, self._task.settings.chunk_bytes)
            head, until = self._reader.ahead()
        done = LapDone(head, until, self._task.is_full(self._nbytes))
        return TaskDone(self._work.task, exchange=self._outlets.end_lap(), lap=done)

    def _end(self) -> TaskDone:
        """Do what is done at the end of a commit."""
        task, work = self._task, self._work
        with self._outlets as outlets:
            left = task.left(self._exchanges)
            task.finish(work, outlets, left)
        return task.done(work, self._commit, self.attempt, outlets, left, self._records)

    def give_up(self) -> None:
        """Let go of the files that were being written."""
        error = RuntimeError("the attempt was given up")
        self._outlets.__exit__(RuntimeError, error, None)

"""The work of a cycle's task in an attempt at a commit, lap by lap.

Between its laps the task waits for the others, with its files open and, in the middle of a round, with a chunk on its
way through the steps. Only the last lap of the attempt returns the task's part of the commit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from penstock.engine.shared.cycles import Cycle
from penstock.engine.shared.exchange import LATEST, ExchangeRef
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.work import Lap, LapDone, TaskDone, TaskWork
from penstock.engine.task.merged import MergedExchange
from penstock.engine.task.outlets import Outlets
from penstock.engine.task.reader import Chunk, Input, Reader
from penstock.settings import Settings
from penstock.storage.base import Storage


class Laps:
    """One task's part of one attempt.

    Args:
        exchanges: the records that wait in repartition topics when it begins.
        outlets: where results go.
        storage: where records that come around the cycle are.
    """

    def __init__(
        self,
        attempt: str,
        work: TaskWork,
        cycle: Cycle,
        exchanges: dict[str, MergedExchange],
        outlets: Outlets,
        reader: Reader,
        settings: Settings,
        storage: Storage,
    ):
        self.attempt, self.work = attempt, work
        self.exchanges, self.outlets = exchanges, outlets
        self._reader = reader
        self._limits = settings.chunk_records, settings.chunk_bytes
        self._storage = storage
        self.records = self.nbytes = 0
        """Counts of the records that the task has processed."""
        self._looked = 1
        """How many records it takes in the next round, at most."""
        self._taken = 0
        """How many records it took from outside the cycle in this round."""
        inputs = reader.inputs
        self._around = {one.topic: one for one in inputs if one.topic in cycle.topics}
        self._into = [one for one in inputs if one.topic not in cycle.topics and not one.goes_first]
        self._first = [one for one in inputs if one.goes_first]

    def chunks(self, lap: Lap) -> Iterator[tuple[Chunk, int | None]]:
        """Yield the chunks to process until the next lap, each with the lap at whose end it stops, if any."""
        for chunk, number in self._chunks(lap):
            yield chunk, number
            self.records += chunk.records
            self.nbytes += chunk.nbytes

    def _chunks(self, lap: Lap) -> Iterator[tuple[Chunk, int | None]]:
        yield from self._all_of(self._first)
        self._first = []
        if lap.number is not None:
            self._turn_around(lap)
            chunk = self._reader.next_chunk() or Chunk()
            self._taken = chunk.records if lap.takes else 0
            yield chunk, lap.number
            return
        yield from self._all_of(self._come_back(lap.comes_back))
        if lap.takes:
            self._turn_to(self._into, self._looked)
            yield self._reader.next_chunk() or Chunk(), None

    def _turn_to(self, inputs: list[Input], records: int, until: int = LATEST) -> None:
        self._reader.turn_to(inputs, records, self._limits[1], until)

    def _turn_around(self, lap: Lap) -> None:
        """Read the records that start to go around, or that continue."""
        assert lap.stretch is not None
        self._reader.begin_round(lap.stretch, self.work.task)
        if lap.takes:
            until = lap.stretch.until - (TaskId.parse(self.work.task) > TaskId.parse(lap.stretch.last))
            self._turn_to(self._into, self._looked, until)
        else:
            self._reader.turn_to(self._come_back(lap.comes_back, chunked=False), comes_back=True)

    def _come_back(self, refs: dict[str, list[ExchangeRef]], chunked: bool = True) -> list[Input]:
        """Return inputs with the records that came around the cycle."""
        limits = self._limits if chunked else (sys.maxsize, sys.maxsize)
        for topic, some in refs.items():
            one = self._around[topic]
            start = self.work.entry.offsets.get(topic, 0) + one.taken
            one.come_back(iter(MergedExchange(self._storage, some, start, None, *limits)))
        return [one for topic, one in self._around.items() if topic in refs]

    def _all_of(self, inputs: list[Input]) -> Iterator[tuple[Chunk, None]]:
        """Yield all records of some inputs, chunk by chunk."""
        if not inputs:
            return
        self._turn_to(inputs, self._limits[0])
        while (chunk := self._reader.next_chunk()) is not None:
            yield chunk, None

    def answer(self, lap: Lap, is_on_its_way: bool, is_full: bool, room: int) -> TaskDone:
        """Return the task's answer between two laps.

        Args:
            is_on_its_way: whether a chunk goes around and has not passed all steps yet.
            is_full: whether the task wants the commit soon.
            room: how many records may enter the cycle in the next round.
        """
        head = until = None
        if not is_on_its_way:
            self._looked = min(lap.looks, self._limits[0], room)
            self._turn_to(self._into, self._looked)
            head, until = self._reader.ahead()
        return TaskDone(
            self.work.task, exchange=self.outlets.end_lap(), lap=LapDone(head, until, is_full, self._taken, room)
        )

    def give_up(self) -> None:
        """Abandon the files that were being written."""
        error = RuntimeError("the attempt was given up")
        self.outlets.__exit__(RuntimeError, error, None)

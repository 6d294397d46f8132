"""The engine's reader in tests: it takes records in the test driver's order, however the input is cut."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import NO_RECORD
from penstock.engine.shared.exchange import EARLIEST, LATEST
from penstock.engine.task.pieces import Piece
from penstock.engine.task.reader import Chunk, Input, Reader
from penstock.log.records import Records
from penstock.plan.physical import Part, SubTopology
from penstock.plan.topology import Topology
from penstock.record import Record
from penstock.testing.queues import TopicQueues


def arrival_reader(topology: Topology) -> type[Reader]:
    """The reader of one topology's tasks."""
    announced = {part.name for sub in topology.sub_topologies for part in sub.parts if _is_announcement(part)}
    return type("ArrivalReader", (ArrivalReader,), {"written": _written(topology), "announced": frozenset(announced)})


def _is_announcement(part: Part) -> bool:
    return part.kind == "source" and not all(parent.is_in_kafka_streams for parent in part.node.parents)


def _written(topology: Topology) -> dict[str, int]:
    """Return the topics of all sinks, numbered in the order in which a record of any source reaches them, depth
    first.
    """
    before: dict[str, set[str]] = {}
    for sub in topology.sub_topologies:
        for source in sub.parts:
            if source.kind == "source":
                reached = list(dict.fromkeys(_sinks(source, sub)))
                for place, topic in enumerate(reached):
                    before.setdefault(topic, set()).update(reached[:place])
    topics: list[str] = []
    while left := [topic for topic in before if topic not in topics]:
        ready = [topic for topic in left if before[topic].issubset(topics)]
        topics.append((ready or left)[0])  # none is, where records of two sources reach topics the other way round
    return {topic: number for number, topic in enumerate(topics)}


def _sinks(part: Part, sub: SubTopology) -> Iterator[str]:
    """The topics that what comes out of a part reaches, in order."""
    if part.kind == "sink":
        yield from part.topics
    for below in sub.parts:
        if part.name in below.predecessors:
            yield from _sinks(below, sub)


_ROOM_BITS = 16
_ROOM = 1 << _ROOM_BITS
"""So many positions belong to what one input record caused: time may go on between any two of these."""


def arrivals_of(positions: IntArray) -> IntArray:
    """The arrivals of the input records that caused what is at some positions; those of none stay what they are.

    >>> arrivals_of(np.array([3 * _ROOM, 3 * _ROOM + 2, NO_RECORD])).tolist() == [3, 3, NO_RECORD]
    True
    """
    return np.where((positions >= 0) & (positions < NO_RECORD), positions >> _ROOM_BITS, positions)


class ArrivalReader(Reader):
    """Takes all that one input record caused before what the next one caused, from a log that knows which is which.

    Several records that one caused, in several topics, go through queues such as the test driver has, in the order in
    which a record reaches these topics.
    """

    written: dict[str, int] = {}
    """The numbers of the topics that tasks write, in the order in which a record reaches them."""
    announced: frozenset[str] = frozenset()
    """Sources that exist only in Penstock (announcements); their records never count as a cause."""

    def __init__(
        self, inputs: Sequence[Input], chunk_records: int, chunk_bytes: int = sys.maxsize, clock: int = EARLIEST
    ):
        super().__init__(inputs, chunk_records, chunk_bytes, clock)
        self._numbers: Counter[int] = Counter()
        """How many records of each arrival have been read."""
        self._sequence: tuple[IntArray, IntArray] | None = None
        self._taken = 0
        """How many records had been taken when the sequence was planned."""

    def hold(self, bounds: Mapping[str, int], until: int = LATEST) -> None:
        """Take no results of a record that may still cause more; times do not matter."""
        self._bounds = bounds
        for one in self.inputs:
            one.until = min(bounds.values(), default=LATEST + 1) - 1

    def clocks(self, positions: IntArray) -> IntArray:
        return arrivals_of(positions)

    def _add(self, chunk: Chunk, one: Input, pieces: list[Records], order: tuple[IntArray, ...]) -> None:
        super()._add(chunk, one, pieces, order)
        if one.source in self.announced:
            del self._origins[-len(pieces) :]

    def _times(self, one: Input, records: int) -> IntArray:
        return one.arrivals(records)

    def turn_to(self, *args: Any, **limits: Any) -> None:
        super().turn_to(*args, **limits)
        self._sequence = None

    def roots(self, positions: IntArray) -> IntArray:
        return arrivals_of(positions)

    def _pieces(self, positions: IntArray) -> list[Piece]:
        return self._origins

    def causes(self, positions: IntArray) -> IntArray:
        return np.zeros(len(positions), np.int64)  # that is what arrivals are for

    def _ahead(self, ready: list[Input]) -> tuple[IntArray, IntArray]:
        if self._sequence is None:
            self._sequence, self._taken = self._planned(), self._position
        begin = self._position - self._taken
        end = self._end_of_chunk(begin)
        inputs, arrivals = (column[begin:end] for column in self._sequence)
        place = np.full(len(self._active), -1, np.int64)
        place[[self._active.index(one) for one in ready]] = np.arange(len(ready))
        return place[inputs], arrivals

    def _end_of_chunk(self, begin: int) -> int:
        """Return the end of the part of the sequence to take. The results of one record in several topics stay
        together: from their middle, the order of the queues for the rest would be unknown."""
        assert self._sequence is not None
        inputs, arrivals = self._sequence
        end = min(begin + self.chunk_records, len(arrivals))
        first, last = (
            np.searchsorted(arrivals, arrivals[end - 1]),
            np.searchsorted(arrivals, arrivals[end - 1], "right"),
        )
        return int(last) if (inputs[first:last] != inputs[first]).any() else end

    def _places(self, times: IntArray) -> tuple[IntArray, ...]:
        self.clock = max(self.clock, int(times.max()))
        positions = [self._position_of(arrival) for arrival in times.tolist()]
        return np.array(positions, np.int64), np.arange(self._position, self._position + len(times))

    def _position_of(self, arrival: int) -> int:
        """The next of the positions that belong to an arrival."""
        if not 0 <= arrival < NO_RECORD:
            return arrival
        number = min(self._numbers[arrival], _ROOM - 1)
        self._numbers[arrival] += 1
        return (arrival << _ROOM_BITS) + number

    def _planned(self) -> tuple[IntArray, IntArray]:
        """Of which inputs all records are, one after the other, and what they count as caused by.

        Updates that tables held back until a commit were caused earlier than the records before them in the input.
        """
        for one in self._active:
            one.fill(sys.maxsize)
        waiting: dict[int, list[tuple[int, int]]] = {}
        numbered = sorted(enumerate(self._active), key=lambda numbered: self.written.get(numbered[1].topic, -1))
        for number, one in numbered:
            arrivals = self._upcoming(one, one.waiting).tolist()
            for arrival, timestamp in zip(arrivals, one.timestamps(len(arrivals)).tolist(), strict=True):
                waiting.setdefault(arrival, []).append((number, timestamp))
        sequence: list[tuple[int, int]] = []
        for arrival in sorted(waiting):
            queues = TopicQueues[int]()
            for number, timestamp in waiting[arrival]:
                queues.add(number, Record(None, None, timestamp))
            sequence += [(number, arrival) for number, _ in iter(queues.next, None)]
        inputs, arrivals = zip(*sequence, strict=True) if sequence else ((), ())
        return np.array(inputs, np.int64), np.array(arrivals, np.int64)

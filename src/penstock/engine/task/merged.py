"""Merges what several tasks send through a repartition topic, in time order.

In Kafka Streams the tasks before a repartition topic take turns, and while they keep up with their input, their output
is nearly in time order. Here a task may process hours of input in one commit before the next task does. So each record
carries its *clock*: the highest time of the records that its sending task had read. After the topic the record with the
lowest clock goes first, as if all had been sent live. If a sending task has more to read, no record is taken that comes
after what that task may still send.

    task 0_0 sent   10  20        40          and has read up to 40; it may still send 41, 50, ...
    task 0_1 sent      15     30        60    and has read all there is
    taken           10 15 20  30  40          60 waits for task 0_0
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.rows import joined
from penstock.engine.shared.exchange import EARLIEST, ExchangeRef, left_over, read_exchange
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.meetings import in_order
from penstock.log.records import Records, offsets_from
from penstock.storage.base import Storage


class Bound(NamedTuple):
    """The place in a repartition topic before which nothing more will come: a clock; equal clocks are ordered by
    task.
    """

    clock: int
    task: TaskId

    @classmethod
    def of(cls, clock: int, task: str) -> Bound:
        return cls(clock, TaskId.parse(task))


class MergedExchange:
    """The records of one partition of a repartition topic, by clock, then by task, then in the order of sending.

    Args:
        refs: the waiting records, in the order of sending.
        start: the offset of the first record.
        bound: nothing after this place is returned.
        records: how many records are returned at once, at most.
        nbytes: how many bytes they have, at most, or one record's.
        by_cause: whether equal clocks are ordered by cause instead of by task (``meetings.py``).
    """

    def __init__(
        self,
        storage: Storage,
        refs: list[ExchangeRef],
        start: int = 0,
        bound: Bound | None = None,
        records: int = sys.maxsize,
        nbytes: int = sys.maxsize,
        by_cause: bool = False,
    ):
        by_task: dict[str, list[ExchangeRef]] = {}
        for ref in refs:
            by_task.setdefault(ref.task, []).append(ref)
        channels = [_Channel(storage, task, mine, by_cause) for task, mine in by_task.items()]
        self._channels = sorted(channels, key=lambda channel: channel.task)
        self._start = start
        self._bound = bound
        self._records = records
        self._nbytes = nbytes
        self._by_cause = by_cause
        self._given: list[IntArray] = []
        """The channel of each record returned so far."""

    def __iter__(self) -> Iterator[Records]:
        offset = self._start
        while True:
            for channel in self._channels:
                channel.fill(self._records, self._nbytes)
            counts = self._counts()
            if not sum(counts):
                return
            for records in self._take(counts, offset):
                yield records
                offset += len(records)

    def _counts(self) -> list[int]:
        """Return how many records of each channel may be taken now: none after what another channel may still
        receive.
        """
        unread = [one for one in self._channels if one.may_have_more]
        bounds = [] if self._by_cause else [Bound(int(one.clock[-1]), one.task) for one in unread]
        bound = min(bounds if self._bound is None else [*bounds, self._bound], default=None)
        counts = [len(one.clock) if bound is None else one.up_to(bound) for one in self._channels]
        if self._by_cause and unread:
            last = min((int(one.clock[-1]), int(one.cause[-1]), one.task) for one in unread)
            counts = [min(count, one.up_to_cause(*last)) for one, count in zip(self._channels, counts, strict=True)]
        return counts if sum(map(bool, counts)) <= 1 else self._within_limits(counts)

    def _within_limits(self, counts: list[int]) -> list[int]:
        """Return how many of each channel form the longest prefix within the limits."""
        _, order, which = self._next(counts)
        first = order[: self._records]
        sizes = np.concatenate([one.sizes(count) for one, count in zip(self._channels, counts, strict=True)])
        count = max(int(np.searchsorted(np.cumsum(sizes[first]), self._nbytes, "right")), 1)
        return [int(number) for number in np.bincount(which[first[:count]], minlength=len(counts))]

    def _next(self, counts: list[int]) -> tuple[IntArray, IntArray, IntArray]:
        """Return the clocks of the next records, channel after channel, their order, and the channel of each."""
        clock = np.concatenate([one.clock[:count] for one, count in zip(self._channels, counts, strict=True)])
        if self._by_cause:
            cause = np.concatenate([one.cause[:count] for one, count in zip(self._channels, counts, strict=True)])
            order = np.lexsort((cause, clock))
        else:
            order = np.argsort(clock, kind="stable")
        return clock, order, np.repeat(np.arange(len(counts)), counts)

    def _take(self, counts: list[int], offset: int) -> Iterator[Records]:
        clock, order, which = self._next(counts)
        pieces = [piece for one, count in zip(self._channels, counts, strict=True) for piece in one.take(count)]
        if (order[1:] < order[:-1]).any():
            clock, which = clock[order], which[order]
            pieces = [joined(Records, pieces).take(order)]
        self._given.append(which)
        begin = 0
        for piece in pieces:
            end = begin + len(piece)
            # in tests the sender's clock tells where records come from, see ``ArrivalReader``
            places = {"offsets": offsets_from(offset + begin, len(piece)), "clock": clock[begin:end]}
            yield piece.with_columns(arrival=piece.clock, **places)
            begin = end

    def left(self, taken: int) -> list[ExchangeRef]:
        """Return references to the records left when so many of those returned were taken."""
        given = np.concatenate([np.zeros(0, np.int64), *self._given])
        counts = np.bincount(given[:taken], minlength=len(self._channels)).tolist()
        return [
            ref
            for channel, count in zip(self._channels, counts, strict=True)
            for ref in left_over(channel.refs, count, channel.clock_at(count))
        ]


class _Channel:
    """The records that one task sent, in its order."""

    def __init__(self, storage: Storage, task: str, refs: list[ExchangeRef], by_cause: bool):
        self.task = TaskId.parse(task) if task else TaskId(-1, -1)
        self.refs = refs
        self.may_have_more = True
        self.clock: IntArray = np.zeros(0, np.int64)
        """The highest clock up to each waiting record: a late record goes directly after its predecessor."""
        self._pieces = read_exchange(storage, refs)
        self._waiting: list[Records] = []
        self._nbytes = 0
        self._by_cause = by_cause
        self.cause: IntArray = np.zeros(0, np.int64)
        """The cause of each of them, if causes decide."""
        self._taken: list[IntArray] = []
        self._highest = refs[0].clock
        """The clock of the last record that was taken."""

    def fill(self, records: int, nbytes: int) -> None:
        """Load so many waiting records or bytes, if there are so many."""
        found = []
        waiting = len(self.clock)
        while self.may_have_more and waiting < records and self._nbytes < nbytes:
            piece = next(self._pieces, None)
            if piece is None:
                self.may_have_more = False
            else:
                found.append(piece)
                waiting += len(piece)
                self._nbytes += piece.nbytes
        if found:
            self._waiting += found
            highest = self.clock[-1] if len(self.clock) else self._highest
            clock = np.concatenate([_clock_of(piece) for piece in found])
            clock = np.maximum.accumulate(np.maximum(clock, highest))
            self.clock = np.concatenate([self.clock, clock])
            if self._by_cause:
                self.cause = in_order(self.clock, np.concatenate([self.cause, _causes_of(found)]))

    def sizes(self, count: int) -> IntArray:
        """Return the sizes of the next records in bytes."""
        found = [np.zeros(0, np.int64)]
        for piece in self._waiting:
            if count <= 0:
                break
            found.append(piece.slice(0, count).sizes())
            count -= len(found[-1])
        return np.concatenate(found)

    def up_to(self, bound: Bound) -> int:
        """Return how many waiting records come before a place, or are at it."""
        return int(np.searchsorted(self.clock, bound.clock, "right" if self.task <= bound.task else "left"))

    def up_to_cause(self, clock: int, cause: int, task: TaskId) -> int:
        """Return how many waiting records come before a place, or are at it."""
        first, end = (int(np.searchsorted(self.clock, clock, side)) for side in ("left", "right"))
        return first + int(np.searchsorted(self.cause[first:end], cause, "right" if self.task <= task else "left"))

    def take(self, count: int) -> list[Records]:
        """Remove and return the next records."""
        self.cause = self.cause[count:]
        self._taken.append(self.clock[:count])
        self._highest = int(self.clock[count - 1]) if count else self._highest
        self.clock = self.clock[count:]
        taken: list[Records] = []
        while count:
            piece = self._waiting.pop(0)
            if len(piece) > count:
                self._waiting.insert(0, piece.slice(count, len(piece)))
                piece = piece.slice(0, count)
            taken.append(piece)
            count -= len(piece)
            self._nbytes -= piece.nbytes
        return taken

    def clock_at(self, number: int) -> int:
        """Return the clock of the record with this number; ``EARLIEST`` if it does not exist."""
        clock = np.concatenate([*self._taken, self.clock])
        if number == len(clock):
            self.fill(1, sys.maxsize)
            clock = np.concatenate([clock, self.clock])
        return int(clock[number]) if number < len(clock) else EARLIEST


def _clock_of(piece: Records) -> IntArray:
    assert piece.clock is not None
    return piece.clock


def _cause_of(piece: Records) -> IntArray:
    return np.zeros(len(piece), np.int64) if piece.cause is None else piece.cause


def _causes_of(pieces: list[Records]) -> IntArray:
    return np.concatenate([_cause_of(piece) for piece in pieces])

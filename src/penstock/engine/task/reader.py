"""A task's input: the records of its partitions, merged into chunks in processing order.

Each record has a *clock*: the highest timestamp up to it in its partition, in this commit. The lowest clock goes first:
the input with the earliest next record is read first, and a late record goes directly after its predecessor. Records
sent through repartition topics carry the clock of their cause (``merged.py``).
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray, concat
from penstock.columns.batch import Batch, Changes, Origins, Placement, merge
from penstock.columns.column import BytesColumn
from penstock.columns.rows import joined_column
from penstock.engine.shared.exchange import EARLIEST, LATEST
from penstock.engine.shared.last_read import LastRead, last_read
from penstock.engine.shared.meetings import in_order
from penstock.engine.shared.stretch import Stretch, places_behind, roots_of
from penstock.engine.task.pieces import Piece, causes_of
from penstock.log.records import Records
from penstock.ops.core.failures import Origin
from penstock.serdes import Serde


@dataclass
class Input:
    """One partition of one topic, as a task reads it."""

    source: str
    """The name of the source that reads it."""
    topic: str
    partition: int
    partitions: int
    key: Serde
    value: Serde
    pieces: Iterator[Records]
    changes: bool = False
    """Whether it carries changes of a table."""
    goes_first: bool = False
    """Whether it is read completely before other inputs, like global tables."""
    first_cause: int = 0
    """In a topic of the log, the cause number of the record at offset 0, see ``Meetings``."""
    end: int | None = None
    """In a topic of the log, the offset at which reading stops; None where records are counted instead."""
    taken: int = 0
    """How many records were taken so far."""
    taken_bytes: int = 0
    may_have_more: bool = True
    """Whether more records may follow those waiting."""
    until: int = LATEST
    """Records of later clocks are left for another commit."""
    _highest: int = EARLIEST
    last: LastRead | None = None
    """In a topic of the log, the last record that was taken."""
    _waiting: list[Records] = field(default_factory=list)
    _waiting_records: int = 0
    _waiting_bytes: int = 0

    def come_back(self, pieces: Iterator[Records]) -> None:
        """Continue with the records that have come around a cycle."""
        self.pieces, self.may_have_more, self.until, self._highest = pieces, True, LATEST, EARLIEST

    def fill(self, records: int, nbytes: int = sys.maxsize) -> None:
        """Load that many waiting records or bytes, if there are so many."""
        while self.may_have_more and self._waiting_records < records and self._waiting_bytes < nbytes:
            piece = next(self.pieces, None)
            if piece is None:
                self.may_have_more = False
            elif len(piece):
                self._waiting.append(piece)
                self._waiting_records += len(piece)
                self._waiting_bytes += piece.nbytes

    @property
    def waiting(self) -> int:
        return self._waiting_records

    def goes_on_at(self, start: int) -> int:
        """Return the offset where the next commit reads on if this one began at `start`. Offsets may have gaps, also at
        the end.
        """
        if self.end is None:
            return start + self.taken
        if self._waiting:
            return int(self._waiting[0].offsets[0])
        if not self.may_have_more:
            return max(self.end, start)
        return start if self.last is None else self.last.offset + 1

    def clocks(self, records: int) -> IntArray:
        """Return the clocks of the next waiting records."""
        if self.goes_first:
            return np.full(min(records, self.waiting), EARLIEST)
        times = self._of_next(records, lambda piece: piece.timestamp if piece.clock is None else piece.clock)
        return np.maximum.accumulate(np.maximum(times, self._highest))

    def causes(self, records: int) -> IntArray:
        """Return the causes of the next waiting records."""
        return self._of_next(records, lambda piece: causes_of(piece, np.arange(len(piece)), self.first_cause))

    def timestamps(self, records: int) -> IntArray:
        """Return the timestamps of the next waiting records."""
        return self._of_next(records, lambda piece: piece.timestamp)

    def arrivals(self, records: int) -> IntArray:
        """Return when the next waiting records, or their causes, arrived; empty if the log does not know."""
        return self._of_next(records, lambda piece: piece.arrival)

    def _of_next(self, records: int, column: Callable[[Records], IntArray | None]) -> IntArray:
        parts = [np.zeros(0, np.int64)]
        for piece in self._waiting:
            if records <= 0:
                break
            values = column(piece)
            if values is not None:
                parts.append(values[:records])
            records -= len(piece)
        return np.concatenate(parts)

    def sizes(self, records: int) -> IntArray:
        """Return the sizes of the next waiting records in bytes."""
        return self._of_next(records, lambda piece: piece.slice(0, records).sizes())

    def take(self, records: int) -> list[Records]:
        """Remove and return the next waiting records."""
        taken: list[Records] = []
        left = records
        if records and not self.goes_first:
            self._highest = int(self.clocks(records)[-1])
        while left and self._waiting:
            piece = self._waiting[0]
            if len(piece) <= left:
                taken.append(self._waiting.pop(0))
            else:
                taken.append(piece.slice(0, left))
                self._waiting[0] = piece.slice(left, len(piece))
            left -= len(taken[-1])
            self._waiting_bytes -= taken[-1].nbytes
            self.taken_bytes += taken[-1].nbytes
        if taken and self.end is not None:
            self.last = last_read(taken[-1])
        self._waiting_records -= records - left
        self.taken += records - left
        return taken


class Chunk:
    """Records of some inputs, with their positions."""

    def __init__(self) -> None:
        self.batches: dict[str, Batch] = {}
        self.records = 0
        self.nbytes = 0


class Ahead(NamedTuple):
    """The records that a task of a cycle has ready."""

    head: int | None
    """The clock of the next record that it may take; None if it has none."""
    until: int | None
    """The clock up to which the ready records reach, if more may follow them. Without a ready record, the clock from
    which one may come. None if none can.
    """


class Reader:
    """Gives a task its input, chunk by chunk.

    If a task reads several partitions, the one whose next record has the lowest timestamp goes first, as in Kafka
    Streams.

    Args:
        chunk_records: how many records a chunk has at most.
        chunk_bytes: how many bytes a chunk has at most, or one record's.
        clock: the clock that earlier commits have reached.

    >>> Reader([], 100).next_chunk() is None
    True
    """

    def __init__(
        self, inputs: Sequence[Input], chunk_records: int, chunk_bytes: int = sys.maxsize, clock: int = EARLIEST
    ):
        self.inputs = list(inputs)
        self.clock = clock
        """The clock of the last record that was taken."""
        self._begun_at = clock
        self.awaited: frozenset[str] = frozenset()
        """Topics that may still receive earlier records: at the end of one, nothing more is taken."""
        self.is_meeting = False
        """Whether results of one record come through several topics; then equal times are ordered by cause."""
        self._active = self.inputs
        """The inputs that are currently read."""
        self.chunk_records = chunk_records
        """How many records the next chunk has at most."""
        self.chunk_bytes = chunk_bytes
        """How many bytes it has at most, or one record's."""
        self._bounds: Mapping[str, int] = {}
        self._held_at = LATEST
        """The lowest clock of a record that may be left for later."""
        self._until = LATEST
        self._comes_back = False
        self._task = ""
        self._position = 0
        self._begins: list[int] = []
        """Positions that separate earlier reads from later ones, and how many pieces had been read at each."""
        self._read_by: list[int] = []
        self._stretches: list[Stretch] = []
        """The stretches of a cycle that were read."""
        self._of_round: IntArray = np.zeros(0, np.int64)
        """The positions of the records of the last stretch, ascending."""
        self._clocks: list[IntArray] = []
        self._origins: list[Piece] = []

    def hold(self, bounds: Mapping[str, int], until: int = LATEST) -> None:
        """Take no record that comes after records still to come.

        Args:
            bounds: a clock for some topics: all records with earlier clocks have come. At equal clocks topics go in
                order.
            until: no record with a later clock is taken from any topic.
        """
        self._bounds = bounds
        self._held_at = min([*bounds.values(), *([] if until == LATEST else [until + 1])], default=LATEST)
        for number, one in enumerate(self.inputs):
            if not one.goes_first:
                others = enumerate(self.inputs)
                earlier = [bounds[o.topic] - (at < number or self.is_meeting) for at, o in others if o.topic in bounds]
                one.until = min([*earlier, until])

    def turn_to(
        self,
        inputs: list[Input],
        records: int = sys.maxsize,
        nbytes: int = sys.maxsize,
        until: int = LATEST,
        comes_back: bool = False,
    ) -> None:
        """Read only some of the inputs from now on.

        Args:
            records: how many records a chunk has at most.
            nbytes: how many bytes it has at most, or one record's.
            until: no record with a later clock is taken.
            comes_back: whether these inputs have come around a cycle.
        """
        self._active, self.chunk_records, self.chunk_bytes, self._until = inputs, records, nbytes, until
        self._comes_back = comes_back

    def begin_round(self, stretch: Stretch, task: str) -> None:
        """Number the next records as the stretch says for this task, and the records that come back because of them."""
        self._task = task
        if not self._stretches or self._stretches[-1] != stretch:
            self._stretches.append(stretch)
            self._mark(stretch.first)
            self._of_round = np.zeros(0, np.int64)

    def ahead(self) -> Ahead:
        """Return what the next chunk would take."""
        ready = self._ready()
        times = self._ahead(ready)[1] if ready else np.zeros(0, np.int64)
        is_open = any(one.may_have_more or one.until != LATEST for one in self._active)
        if not len(times):
            return Ahead(None, None if self._held_at == LATEST or not self._active else self._held_at)
        is_open = is_open or len(times) < sum(one.waiting for one in self._active)
        return Ahead(int(times[0]), int(times[-1]) if is_open else None)

    def next_chunk(self) -> Chunk | None:
        """Return the next records, or None if no more may be taken."""
        ready = self._ready()
        if not ready:
            return None
        if not self._stretches:
            self._mark(self._position)
        chunk = Chunk()
        counts, orders = self._next(ready)
        for one, count, order in zip(ready, counts, orders, strict=True):
            if count:
                self._add(chunk, one, one.take(count), order)
        self._position += sum(counts)
        return chunk

    def _ready(self) -> list[Input]:
        """Return the inputs from which records may be taken now."""
        for one in self._active:
            one.fill(self.chunk_records, self.chunk_bytes)
        if any(one.topic in self.awaited and not one.waiting for one in self._active):
            return []
        return [one for one in self._active if len(self._upcoming(one, 1))]

    def reached(self) -> int:
        """Return the lowest clock among unread and still expected records; anything earlier that arrives is late.

        A late record does not lower it in later commits: its results would overtake those of earlier records that take
        a longer way.
        """
        for one in self.inputs:
            one.fill(1)
        waiting = [one for one in self.inputs if one.waiting and not one.goes_first]
        heads = [int(self._times(one, 1)[0]) for one in waiting]
        return max(min([*heads, *self._bounds.values()], default=self.clock), self._begun_at)

    def clocks(self, positions: IntArray) -> IntArray:
        """Return the clocks of the records at some positions. Results without a cause have the clock of the last
        record.

        No clock is below the clock that earlier commits have reached, because tasks downstream may have read their
        output.
        """
        return np.maximum(self._clocks_of(positions), self._begun_at)

    def _clocks_of(self, positions: IntArray) -> IntArray:
        found = np.full(len(positions), self.clock)
        for stretch in reversed(self._stretches):
            is_record = (positions >= stretch.first) & (positions < stretch.end)
            found[is_record] = stretch.clocks(positions[is_record])
            if not len(positions) or positions[0] >= stretch.first:
                return found
        is_record = positions < self._position
        if is_record.any():
            places = positions[is_record]
            last = self._clocks[-1]
            before = self._position - len(last)
            if places[0] < before and places.min() < before:  # held back from earlier chunks
                last, before = np.concatenate(self._clocks), 0
            found[is_record] = last[places - before]
        return found

    def roots(self, positions: IntArray) -> IntArray:
        """Return the numbers that records at some positions pass around a cycle: their roots, or outside of rounds
        their clocks.
        """
        if not self._stretches:
            return self.clocks(positions)
        last = int(self._of_round[-1]) if len(self._of_round) else self._stretches[-1].first
        return roots_of(np.minimum(positions, last))

    def _times(self, one: Input, records: int) -> IntArray:
        """Return the times that order the next records of an input among those of others."""
        return one.clocks(records)

    def _upcoming(self, one: Input, records: int) -> IntArray:
        """Return the times of the next records of an input that may be taken."""
        times = self._times(one, records)
        until = min(one.until, self._until)
        if until == LATEST:
            return times
        beyond = np.flatnonzero(times > until)
        return times[: beyond[0]] if len(beyond) else times

    def _next(self, ready: list[Input]) -> tuple[list[int], list[tuple[IntArray, ...]]]:
        """Return how many records of each input come next, and the places of each in processing order."""
        which, times = self._ahead(ready)
        order = self._places(times)
        if len(ready) == 1:
            return [len(times)], [order]
        rows = [np.flatnonzero(which == i) for i in range(len(ready))]
        return [len(mine) for mine in rows], [tuple(column[mine] for column in order) for mine in rows]

    def _ahead(self, ready: list[Input]) -> tuple[IntArray, IntArray]:
        """Return the input number of each of the next records, and their times."""
        if len(ready) == 1:
            times = self._upcoming(ready[0], self.chunk_records)
            times = times[: self._within_bytes(ready[0].sizes(len(times)))]
            return np.zeros(len(times), np.int64), times
        return self._interleaved(ready)

    def _interleaved(self, ready: list[Input]) -> tuple[IntArray, IntArray]:
        """Like ``_ahead``, for several inputs. Stops at the end of the waiting records of an input that may have
        more.
        """
        every = [self._upcoming(one, self.chunk_records) for one in ready]
        times = np.concatenate(every)
        which = np.repeat(np.arange(len(ready)), [len(t) for t in every])
        order = np.argsort(times, kind="stable") if not self.is_meeting else self._by_causes(ready, every)
        cut = min(len(order), self.chunk_records)
        for i, one in enumerate(ready):
            is_open = one.may_have_more or one.topic in self.awaited
            if is_open and len(every[i]) == min(one.waiting, self.chunk_records):
                cut = min(cut, int(np.flatnonzero(which[order] == i)[-1]) + 1)
        sizes = np.concatenate([one.sizes(len(t)) for one, t in zip(ready, every, strict=True)])
        order = order[: self._within_bytes(sizes[order[:cut]])]
        return which[order], times[order]

    def _by_causes(self, ready: list[Input], every: list[IntArray]) -> IntArray:
        """Return the order of the next records by time; equal times are ordered by cause."""
        causes = [in_order(times, one.causes(len(times))) for one, times in zip(ready, every, strict=True)]
        return np.lexsort((np.concatenate(causes), np.concatenate(every)))

    def _places(self, times: IntArray) -> tuple[IntArray, ...]:
        """Return the places of the next records in processing order, by their times."""
        number = np.arange(self._position, self._position + len(times))
        if not self._stretches:
            self._clocks.append(times)
            self.clock = max(self.clock, int(times[-1]))
            return (number,)
        stretch = self._stretches[-1]
        is_new = not self._comes_back
        positions = stretch.roots(times, self._task) if is_new else places_behind(times, self._of_round)
        self._of_round = np.sort(np.concatenate([self._of_round, positions]))
        self.clock = max(self.clock, int(stretch.clocks(positions[-1:])[0]))
        return positions, number

    def _within_bytes(self, sizes: IntArray) -> int:
        """Return how many of the next records, which have these sizes, fit into a chunk; at least one."""
        return max(int(np.searchsorted(np.cumsum(sizes), self.chunk_bytes, "right")), 1)

    def _add(self, chunk: Chunk, one: Input, pieces: list[Records], order: tuple[IntArray, ...]) -> None:
        batch, position = _batch(one, pieces, order), order[0]
        before = chunk.batches.get(one.source)
        if before is not None:
            batch = merge([before, batch])
        chunk.batches[one.source] = batch
        chunk.records += len(position)
        chunk.nbytes += sum(piece.nbytes for piece in pieces)
        offset = 0
        for piece in pieces:
            here = position[offset : offset + len(piece)]
            self._origins.append(Piece(one.topic, one.partition, here, piece, one.first_cause))
            offset += len(piece)

    def _mark(self, position: int) -> None:
        self._begins.append(position)
        self._read_by.append(len(self._origins))

    def _found(self, positions: IntArray) -> Iterator[tuple[Piece, IntArray, IntArray]]:
        """Yield what was read at some positions, which must not decrease.

        Each item is a piece, the rows in it, and a mask of the positions that these rows have.
        """
        mark = bisect_right(self._begins, int(positions[0])) - 1 if len(positions) else -1
        for piece in self._origins[self._read_by[mark] if mark >= 0 else 0 :]:
            first, end = np.searchsorted(positions, [piece.first, piece.last + 1])
            if first < end:
                rows, found = piece.rows(positions[first:end])
                yield piece, rows, first + np.flatnonzero(found)

    def origin(self, position: int) -> Origin:
        """Return where the record at a position came from."""
        for piece in reversed(self._origins):
            if piece.first <= position <= piece.last:
                row = piece.row(position)
                if row is not None:
                    return piece.origin(row)
        return Origin("unknown", -1, -1, None, None, -1)

    def offsets(self, positions: IntArray) -> IntArray:
        """Return the offsets of the records at some positions, -1 if none. Positions must not decrease."""
        offsets = np.full(len(positions), -1, np.int64)
        for piece, rows, here in self._found(positions):
            offsets[here] = piece.records.offsets[rows]
        return offsets

    def causes(self, positions: IntArray) -> IntArray:
        """Return the causes of the records at some positions, -1 if none. Positions must not decrease."""
        causes = np.full(len(positions), -1, np.int64)
        for piece, rows, here in self._found(positions):
            causes[here] = causes_of(piece.records, rows, piece.first_cause)
        return causes

    def origins(self, positions: IntArray, names: Mapping[str, str]) -> Origins:
        """Return where the records at some positions came from; results without a cause have no origin.

        The positions must not decrease.

        Args:
            names: the topics' names in Kafka.
        """
        topics: dict[str, int] = {}
        number, partition, offset = np.full((3, len(positions)), -1, np.int64)
        for piece, rows, here in self._found(positions):
            number[here] = topics.setdefault(names.get(piece.topic, piece.topic), len(topics))
            partition[here] = piece.partition
            offset[here] = piece.records.offsets[rows]
        topic = pa.array(list(topics), pa.string()).take(pa.array(number, mask=number < 0))
        return Origins(topic, partition, offset)


def _batch(one: Input, pieces: list[Records], order: tuple[IntArray, ...]) -> Batch:
    key = BytesColumn(concat([piece.key for piece in pieces]), one.key)
    value = BytesColumn(concat([piece.value for piece in pieces]), one.value)
    timestamp = pieces[0].timestamp if len(pieces) == 1 else np.concatenate([piece.timestamp for piece in pieces])
    headers = joined_column("headers", pieces)
    placed = Placement(one.partition, one.partitions) if all(piece.placed for piece in pieces) else None
    if not one.changes:
        return Batch(key, value, timestamp, order, headers, placed)
    old = BytesColumn(concat([piece.old for piece in pieces]), one.value)
    return Changes(key, value, timestamp, order, headers, placed, old)

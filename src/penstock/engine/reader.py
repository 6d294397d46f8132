"""A task's input: the records of its partitions, merged into chunks in the order in which they are processed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import BoolArray, IntArray, concat
from penstock.batch import Batch, Changes, Placement, merge
from penstock.columns import BytesColumn
from penstock.log.base import Records, join_headers
from penstock.ops.failures import Origin
from penstock.serdes import Serde


@dataclass
class Input:
    """One partition of one topic, as a task reads it."""

    source: str
    """The name of the source that takes it up."""
    topic: str
    partition: int
    partitions: int
    key: Serde
    value: Serde
    pieces: Iterator[Records]
    changes: bool = False
    """Whether it carries changes of a table."""
    goes_first: bool = False
    """Whether all of it comes before other inputs, as global tables do."""
    taken: int = 0
    """How many records were taken so far."""
    may_have_more: bool = True
    """Whether more may come behind those that wait."""
    _waiting: list[Records] = field(default_factory=list)
    _waiting_records: int = 0
    _waiting_bytes: int = 0

    def fill(self, records: int, nbytes: int = sys.maxsize) -> None:
        """Have that many records or bytes waiting, if there are so many."""
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

    def timestamps(self, records: int) -> IntArray:
        """Of the next waiting records."""
        parts = [piece.timestamp for piece in self._waiting] or [np.zeros(0, np.int64)]
        return np.concatenate(parts)[:records]

    def sizes(self, records: int) -> IntArray:
        """How many bytes each of the next waiting records has."""
        parts = [np.zeros(0, np.int64)]
        for piece in self._waiting:
            if records <= 0:
                break
            parts.append(piece.slice(0, records).sizes())
            records -= len(piece)
        return np.concatenate(parts)

    def arrivals(self, records: int) -> IntArray:
        """When the next waiting records, or those that caused them, arrived; empty where the log does not know it."""
        parts = [piece.arrival for piece in self._waiting if piece.arrival is not None] or [np.zeros(0, np.int64)]
        return np.concatenate(parts)[:records]

    def take(self, records: int) -> list[Records]:
        """The next waiting records."""
        taken: list[Records] = []
        left = records
        while left and self._waiting:
            piece = self._waiting[0]
            if len(piece) <= left:
                taken.append(self._waiting.pop(0))
            else:
                taken.append(piece.slice(0, left))
                self._waiting[0] = piece.slice(left, len(piece))
            left -= len(taken[-1])
            self._waiting_bytes -= taken[-1].nbytes
        self._waiting_records -= records - left
        self.taken += records - left
        return taken


class Chunk:
    """Records of some inputs, with their positions."""

    def __init__(self) -> None:
        self.batches: dict[str, Batch] = {}
        self.records = 0
        self.nbytes = 0


class Reader:
    """Gives a task its input, chunk by chunk.

    Where a task reads several partitions, the one whose next record has the lowest timestamp goes first, as in Kafka
    Streams.

    Args:
        chunk_records: how many records a chunk has at most.
        chunk_bytes: how many bytes a chunk has at most, or one record's.

    >>> Reader([], 100).next_chunk() is None
    True
    """

    def __init__(self, inputs: Sequence[Input], chunk_records: int, chunk_bytes: int = sys.maxsize):
        self.inputs = list(inputs)
        self._chunk_records = chunk_records
        self._chunk_bytes = chunk_bytes
        self._position = 0
        self._origins: list[_Piece] = []

    def next_chunk(self) -> Chunk | None:
        """The next records, or None at the end of what there is to read."""
        for one in self.inputs:
            one.fill(self._chunk_records, self._chunk_bytes)
        ready = [one for one in self.inputs if one.waiting]
        if not ready:
            return None
        chunk = Chunk()
        counts, orders = self._next(ready)
        for one, count, order in zip(ready, counts, orders, strict=True):
            if count:
                self._add(chunk, one, one.take(count), order)
        self._position += sum(counts)
        return chunk

    def _next(self, ready: list[Input]) -> tuple[list[int], list[tuple[IntArray, ...]]]:
        """How many records of each input come next, and the places of each in the processing order."""
        if len(ready) == 1:
            count = self._within_bytes(ready[0].sizes(self._chunk_records))
            return [count], [(np.arange(self._position, self._position + count),)]
        taken = self._interleaved(ready)
        positions = [np.flatnonzero(taken == i) + self._position for i in range(len(ready))]
        return [len(p) for p in positions], [(p,) for p in positions]

    def _interleaved(self, ready: list[Input]) -> IntArray:
        """Of which inputs the next records are, one after the other.

        The input whose head is lowest goes first, so a record goes with the highest timestamp before it in its input.
        Nothing is taken beyond the end of what waits of an input that may have more.
        """
        times = [_times_of(one, self._chunk_records) for one in ready]
        which = np.repeat(np.arange(len(ready)), [len(t) for t in times])
        order = np.argsort(np.concatenate(times), kind="stable")
        cut = min(len(order), self._chunk_records)
        for i, one in enumerate(ready):
            if one.may_have_more:
                cut = min(cut, int(np.flatnonzero(which[order] == i)[-1]) + 1)
        sizes = np.concatenate([one.sizes(self._chunk_records) for one in ready])
        return which[order[: self._within_bytes(sizes[order[:cut]])]]

    def _within_bytes(self, sizes: IntArray) -> int:
        """How many of the next records, which have these sizes, a chunk may have: one at least."""
        return max(int(np.searchsorted(np.cumsum(sizes), self._chunk_bytes, "right")), 1)

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
            self._origins.append(_Piece(one.topic, one.partition, position[offset : offset + len(piece)], piece))
            offset += len(piece)

    def by_topic(self, positions: IntArray, numbers: dict[str, int]) -> IntArray:
        """For records at these positions, ascending, the number of each one's topic."""
        found = np.zeros(len(positions), np.int64)
        for piece in self._origins:
            if piece.last >= positions[0] and piece.first <= positions[-1]:
                found[piece.holds(positions)] = numbers[piece.topic]
        return found

    def origin(self, position: int) -> Origin:
        """Where the record at a position came from."""
        for piece in reversed(self._origins):
            if piece.first <= position <= piece.last:
                row = piece.row(position)
                if row is not None:
                    return piece.origin(row)
        return Origin("unknown", -1, -1, None, None, -1)

    def offsets(self, positions: IntArray) -> IntArray:
        """The offsets of the records at some positions, -1 where there is none; the positions never decrease."""
        offsets = np.full(len(positions), -1, np.int64)
        for piece in self._origins:
            first, end = np.searchsorted(positions, [piece.first, piece.last + 1])
            if first < end:
                rows, found = piece.rows(positions[first:end])
                offsets[first:end][found] = piece.records.offset + rows
        return offsets


def _times_of(one: Input, records: int) -> IntArray:
    """By what the next records of an input stand among those of others."""
    times = one.timestamps(records)
    return np.full(len(times), -1, np.int64) if one.goes_first else np.maximum.accumulate(times)


class _Piece:
    """Records that were read, by their positions; a run of positions is kept as its ends."""

    def __init__(self, topic: str, partition: int, positions: IntArray, records: Records):
        self.topic = topic
        self.partition = partition
        self.first = int(positions[0])
        self.last = int(positions[-1])
        self.records = records
        self._positions = None if (np.diff(positions) == 1).all() else positions

    def holds(self, positions: IntArray) -> BoolArray:
        """Which of these positions are in this piece."""
        if self._positions is None:
            return (positions >= self.first) & (positions <= self.last)
        return np.isin(positions, self._positions)

    def row(self, position: int) -> int | None:
        if self._positions is None:
            return position - self.first
        row = int(np.searchsorted(self._positions, position))
        return row if row < len(self._positions) and self._positions[row] == position else None

    def rows(self, positions: IntArray) -> tuple[IntArray, BoolArray]:
        """The rows of those positions that are of this piece, and which these are."""
        if self._positions is None:
            return positions - self.first, np.ones(len(positions), np.bool_)
        rows = np.minimum(np.searchsorted(self._positions, positions), len(self._positions) - 1)
        found = self._positions[rows] == positions
        return rows[found], found

    def origin(self, row: int) -> Origin:
        key, value = self.records.key[row].as_py(), self.records.value[row].as_py()
        timestamp = int(self.records.timestamp[row])
        return Origin(self.topic, self.partition, self.records.offset + row, key, value, timestamp)


def _batch(one: Input, pieces: list[Records], order: tuple[IntArray, ...]) -> Batch:
    key = BytesColumn(concat([piece.key for piece in pieces]), one.key)
    value = BytesColumn(concat([piece.value for piece in pieces]), one.value)
    timestamp = pieces[0].timestamp if len(pieces) == 1 else np.concatenate([piece.timestamp for piece in pieces])
    headers = join_headers(pieces)
    placed = Placement(one.partition, one.partitions) if all(piece.placed for piece in pieces) else None
    if not one.changes:
        return Batch(key, value, timestamp, order, headers, placed)
    old = BytesColumn(concat([piece.old for piece in pieces]), one.value)
    return Changes(key, value, timestamp, order, headers, placed, old)

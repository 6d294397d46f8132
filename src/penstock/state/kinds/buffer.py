"""The time-ordered buffer: at most one entry for each key; entries leave in the order of their times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import (
    Binary,
    IntArray,
    binary,
    first_numbers,
    fixed_binary,
    is_missing,
    is_present,
    nulls,
    without_first,
)
from penstock.columns.rows import Rows
from penstock.state.columns.rows import Keys, Values
from penstock.state.database import BLOCK_BYTES, Database
from penstock.state.interface import ChangelogOffsets
from penstock.state.kinds.segments import SegmentRows, segment_interval_of
from penstock.state.kinds.window import WindowRow, WindowStore
from penstock.state.store import NO_OFFSETS, Located
from penstock.state.transactional import READ_AT_ONCE, ChangeSet, TransactionalRows, unpack_all
from penstock.values.durations import MAX_MS

_ABSENT = -1
_SEGMENTS = 17
"""The number of segments over which the waiting time is spread: due entries are only in the first of them."""


@dataclass(frozen=True, slots=True)
class Entries(Rows):
    """Entries of a buffer."""

    keys: Binary
    times: IntArray
    values: Values


class Room(NamedTuple):
    """The part of a buffer that may be in memory; None for no limit."""

    records: int | None = None
    nbytes: int | None = None


class BufferSegment(SegmentRows):
    """Entries of one stretch of time. On disk they are sorted by time, so that only due entries are read."""

    def _layout(self, keys: Keys) -> Binary:
        if not len(keys):
            return keys.data
        assert keys.times is not None
        return pc.binary_join_element_wise(fixed_binary(keys.times.astype(">i8")), keys.data, b"")

    def _key_of(self, row: int) -> bytes:
        return self._physical(np.array([row]))[0]

    def logical(self, keys: Binary) -> Keys:
        return Keys(without_first(keys, 8), first_numbers(keys))

    def row_count(self) -> int:
        """The number of rows in memory."""
        return len(self._table)

    def on_disk(self, earliest: int, latest: int) -> tuple[Entries, int | None]:
        """The entries in a time range, both ends included, that are only on disk, and the time of the next one."""
        found = [entries for entries, _ in self._blocks(earliest, latest, READ_AT_ONCE)]
        after = None
        if self.base is not None and not self.is_all_here:
            following = next(self.base.scan(_bound(latest + 1), None), None)
            after = None if following is None else int.from_bytes(following[0][:8], "big")
        return join_entries(found), after

    def _blocks(self, earliest: int, latest: int, count: int) -> Iterator[tuple[Entries, bytes]]:
        """Yield the entries in a time range that are only on disk, in order, block by block; with each block the key on
        disk at which it ends."""
        if self.base is None or self.is_all_here:
            return
        for keys, packed in self.base.blocks(_bound(earliest), _bound(latest + 1), count):
            found = self.logical(binary(keys))
            assert found.times is not None
            unknown = np.flatnonzero(self._table.find(found) < 0)
            values = unpack_all(binary(packed))
            yield Entries(found.data, found.times, values).take(unknown), keys[-1]

    def has_more(self, earliest: int, latest: int, count: int) -> bool:
        """True if a time range has more than ``count`` entries or ``BLOCK_BYTES``, some of them only on disk."""
        if self.base is None or self.is_all_here:
            return False
        rows = self._rows(earliest, latest)
        left, room = count - len(rows), BLOCK_BYTES - int(self._table.sizes(rows).sum())
        for entries, _ in self._blocks(earliest, latest, max(left, 1)):
            left -= len(entries.times)
            room -= entries.values.data.nbytes
            if left < 0 or room < 0:
                return True
        return left < 0

    def in_order(self, earliest: int, latest: int, count: int) -> Iterator[Entries]:
        """Yield the entries in a time range in order, at most twice ``count`` at a time."""
        rows = self._rows(earliest, latest)
        rows = rows[in_order(self.times()[rows], self.keys(rows).data)]
        here, at = self._physical(rows), 0
        for entries, end in self._blocks(earliest, latest, count):
            stop = bisect_right(here, end, lo=at)
            while stop - at > count:
                yield self._entries(rows[at : at + count])
                at += count
            piece = join_entries([entries, self._entries(rows[at:stop])])
            at = stop
            yield piece.take(in_order(piece.times, piece.keys))
        for first in range(at, len(rows), count):
            yield self._entries(rows[first : min(first + count, len(rows))])

    def _rows(self, earliest: int, latest: int) -> IntArray:
        """The rows in memory within a time range."""
        times = self.times()
        return np.flatnonzero(self.present() & (times >= earliest) & (times <= latest))

    def _entries(self, rows: IntArray) -> Entries:
        return Entries(self.keys(rows).data, self.times()[rows], self.get(rows))


def _bound(time: int) -> bytes:
    """The first key on disk for a time."""
    return max(time, 0).to_bytes(8, "big")


class TimeOrderedBuffer(WindowStore):
    """Entries by key and time. Entries that are due, at or before ``stream time - wait``, are handed out once and then
    removed by dropping their segment.

    Args:
        wait: how long entries stay, in milliseconds.
        times_follow: True if the key determines its time, as a window determines its end; otherwise the buffer
            remembers it.
        room: how much may be in memory between commits; the other entries are on disk.
    """

    content = "updates that are held back"
    segment_type = BufferSegment
    _segments: dict[int, BufferSegment]  # type: ignore[assignment]

    def __init__(self, name: str, wait: int, times_follow: bool, room: Room = Room()):  # noqa: B008 - it is a tuple
        super().__init__(name, wait, segment_interval=segment_interval_of(wait, _SEGMENTS))
        self.wait = wait
        self.times_follow = times_follow
        self.room = room
        self.numbers: dict[str, int] = {}
        """The operator's counters, which are part of every commit."""
        self._committed_numbers: dict[str, int] = {}
        self._earliest: dict[int, int] = {}
        """For each segment, a time before which it has no entry; the segment's start if none is known."""
        self._time_of = None if times_follow else TransactionalRows()

    def pieces(self) -> list[TransactionalRows]:
        return [*super().pieces(), *([] if self._time_of is None else [self._time_of])]

    def approximate_rows(self) -> int:
        held = self.numbers.get("records")
        return super().approximate_rows() if held is None else held

    def open(self, database: Database | None) -> None:
        super().open(database)
        if database is not None and self._time_of is not None:
            self._time_of = TransactionalRows(database.family(self._times_family))

    # --- reading and writing -------------------------------------------------------------------------------------

    def held(self, keys: Keys, times: IntArray) -> tuple[IntArray, Values]:
        """The time and the value of each key's entry, or -1 and null.

        Args:
            times: the time of each key, if keys determine times.
        """
        if self._time_of is not None:
            times = self._time_of.look_up(keys).timestamps
        values = self.look_up(keys.at(np.arange(len(keys)), times))
        is_held = is_present(values.data) & self.visible(times)
        data = values.data
        if not is_held.all():
            data = pc.if_else(pa.array(is_held), data, pa.scalar(None, pa.binary()))
        return np.where(is_held, times, _ABSENT), Values(data, values.timestamps)

    def put(self, located: Located, values: Values) -> None:
        """Write entries, one for each key; null removes an entry."""
        located.put(values)
        self._note_earliest(located)
        times = located.keys.times
        if self._time_of is not None and times is not None:
            gone = is_missing(values.data)
            self._set_times(*_newest(located.keys.data, np.where(gone, _ABSENT, times)))

    def _note_earliest(self, located: Located) -> None:
        times = located.keys.times
        assert times is not None
        for part in located.parts:
            time = int(times[part.places].min())
            id_ = time // self.segment_interval
            if time < self._earliest_in(id_):
                self._earliest[id_] = time

    def _set_times(self, keys: Keys, times: IntArray) -> None:
        assert self._time_of is not None
        empty = pc.if_else(pa.array(times >= 0), pa.scalar(b"", pa.binary()), pa.scalar(None, pa.binary()))
        self._time_of.put(self._time_of.find(keys), Values(empty, times))

    def due(self, stream_time: int) -> Entries:
        """The entries that are due at a stream time, in no particular order."""
        return self.entries_until(stream_time - self.retention)

    def advance(self, stream_time: int) -> None:
        if stream_time > self.observed_stream_time:
            if self._time_of is not None:
                self._forget_times(self.due(stream_time))
            super().advance(stream_time)

    def _forget_times(self, due: Entries) -> None:
        """Forget the times of keys whose entries are removed, except those that a later entry has set."""
        assert self._time_of is not None
        keys, times = _newest(due.keys, due.times)
        rows = self._time_of.find(keys)
        rows = rows[self._time_of.get(rows).timestamps == times]
        if rows.size:
            self._time_of.put(rows, Values(nulls(len(rows)), np.full(len(rows), _ABSENT)))

    def delete(self, keys: Keys) -> None:
        """Remove entries before their time."""
        self.put(self.locate(keys), Values(nulls(len(keys)), np.full(len(keys), -1, np.int64)))

    def entries_until(self, time: int) -> Entries:
        """The entries up to this time."""
        found = [self._entries(id_, time) for id_ in list(self._segments) if self._earliest_in(id_) <= time]
        return join_entries(found)

    def is_due_more_than(self, stream_time: int, count: int) -> bool:
        """True if a segment that is not in memory has more than ``count`` entries due at a stream time."""
        until = stream_time - self.retention
        due = [segment for id_, segment in self._segments.items() if self._earliest_in(id_) <= until]
        return any(segment.has_more(self.earliest_visible, until, count) for segment in due)

    def let_go(self, stream_time: int, count: int) -> Iterator[Entries]:
        """Yield the entries that are due at a stream time in order, in pieces. After the last piece they are removed,
        and this is the store's stream time."""
        until = stream_time - self.retention
        for id_ in sorted(self._segments):
            if self._earliest_in(id_) <= until:
                for entries in self._segments[id_].in_order(self.earliest_visible, until, count):
                    if self._time_of is not None:
                        self._forget_times(entries)
                    yield entries
        super().advance(stream_time)

    def _earliest_in(self, id_: int) -> int:
        return self._earliest.get(id_, id_ * self.segment_interval)

    def _entries(self, id_: int, until: int) -> Entries:
        segment = self._segments[id_]
        times = segment.times()
        held = segment.present() & self.visible(times)
        due = times <= until
        theirs, after = segment.on_disk(self.earliest_visible, until)
        later = times[held & ~due]
        next_times = [] if after is None else [after]
        next_times += [int(later.min())] if later.size else []
        self._earliest[id_] = min(next_times, default=(id_ + 1) * self.segment_interval)
        rows = np.flatnonzero(held & due)
        return join_entries([Entries(segment.keys(rows).data, times[rows], segment.get(rows)), theirs])

    def oldest_first(self, at_least: int) -> Iterator[Entries]:
        """Yield all entries in order, in pieces; the first piece has about as many as are asked for."""
        everything = self.entries_until(MAX_MS)
        self._earliest.clear()  # nothing was removed
        left, count = np.arange(len(everything.times)), max(at_least, 1)
        while left.size:
            times = everything.times[left]
            chosen = np.ones(left.size, np.bool_)
            if left.size > count:
                chosen = times <= np.partition(times, count)[count]
            rows = left[chosen]
            rows = rows[in_order(everything.times[rows], everything.keys.take(pa.array(rows)))]
            yield everything.take(rows)
            left, count = left[~chosen], count * 4

    def rows(self, reverse: bool = False) -> Iterator[WindowRow]:
        """Key, time, held value and its timestamp, in the order in which entries leave, or backwards."""
        everything = self.entries_until(MAX_MS)
        self._earliest.clear()  # nothing was removed
        order = in_order(everything.times, everything.keys)
        every = everything.take(order[::-1] if reverse else order)
        held = every.values.data.to_pylist(), every.values.timestamps.tolist()
        return zip(every.keys.to_pylist(), every.times.tolist(), *held, strict=True)

    # --- transactions and the disk -------------------------------------------------------------------------------

    def is_crowded(self) -> bool:
        records, nbytes = self.room
        if nbytes is not None and self.nbytes > nbytes:
            return True
        return records is not None and sum(segment.row_count() for segment in self._segments.values()) > records

    def is_crowded_by_uncommitted(self) -> bool:
        records, nbytes = self.room
        if nbytes is not None and self.approximate_num_uncommitted_bytes > nbytes:
            return True
        return records is not None and self.approximate_num_uncommitted_entries > records

    def changes(self) -> ChangeSet | None:
        time_of, self._time_of = self._time_of, None  # the entries determine the times of keys
        try:
            return super().changes()
        finally:
            self._time_of = time_of

    def commit(self, changelog_offsets: ChangelogOffsets = NO_OFFSETS) -> None:
        super().commit(changelog_offsets)
        self._committed_numbers = dict(self.numbers)

    def rollback(self) -> None:
        super().rollback()
        self._earliest.clear()
        self.numbers = dict(self._committed_numbers)

    def families(self) -> dict[str, TransactionalRows]:
        times = {} if self._time_of is None else {self._times_family: self._time_of}
        return super().families() | times

    def state(self) -> dict[str, int]:
        return super().state() | self.numbers

    def restore_state(self, numbers: dict[str, int]) -> None:
        super().restore_state(numbers)
        self.numbers = {name: number for name, number in numbers.items() if name != "observed_stream_time"}
        self._committed_numbers = dict(self.numbers)

    @property
    def _times_family(self) -> str:
        return f"{self.name}:times"


def _newest(keys: Binary, times: IntArray) -> tuple[Keys, IntArray]:
    """Each key once, with its latest time; a commit may have changed several entries of a key in turn."""
    encoded = keys.dictionary_encode()
    if len(encoded.dictionary) == len(keys):
        return Keys(keys), times
    latest = np.full(len(encoded.dictionary), _ABSENT)
    np.maximum.at(latest, encoded.indices.to_numpy(), times)
    return Keys(encoded.dictionary), latest


def join_entries(parts: list[Entries]) -> Entries:
    """Concatenate entries."""
    parts = [entries for entries in parts if len(entries.times)]
    if not parts:
        return Entries(nulls(0), np.zeros(0, np.int64), Values(nulls(0), np.zeros(0, np.int64)))
    return parts[0].join(*parts[1:])


def in_order(times: IntArray, keys: Binary) -> IntArray:
    """The rows sorted by time, and by the bytes of their keys for equal times."""
    rank = np.empty(len(times), np.int64)
    rank[pc.array_sort_indices(keys).to_numpy()] = np.arange(len(times))
    return np.lexsort((rank, times))

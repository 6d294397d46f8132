"""The deduplication store: for each id, when it was forwarded and from which offset (KIP-655)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from penstock.arrays import Binary, BoolArray, HashArray, IntArray, distinct, fixed_binary, is_present, last_numbers
from penstock.state.columns.hash_filter import HashFilter
from penstock.state.columns.index import HashIndex
from penstock.state.columns.rows import Keys, Values
from penstock.state.database import Database
from penstock.state.kinds.segments import SegmentedStore, SegmentRows
from penstock.state.store import Located, Part
from penstock.state.transactional import Base, ChangeSet, Row

SEGMENTS = 4
"""The number of segments of an interval; at most one segment beyond the interval is kept."""

NEVER = -1
"""The timestamp, and the offset, of an id that has no entry."""


class NewestEntries(NamedTuple):
    """The newest entry of each id that was looked up: its timestamp and its offset."""

    timestamps: IntArray
    offsets: IntArray


class DeduplicationSegment(SegmentRows):
    """The entries of one stretch of time, by id alone.

    The times of all entries are in memory. The hashes of ids that are only on disk are in memory, too, so a new id is
    recognised without reading the disk. Most ids are new in most segments, and a filter alone recognises most of these.
    """

    def __init__(self, base: Base | None = None):
        super().__init__(base)
        is_new = self.is_all_here
        self._on_disk: HashIndex | None = HashIndex() if is_new else None
        self._filter: HashFilter | None = HashFilter(np.zeros(0, np.uint64)) if is_new else None
        self._times: list[IntArray] | None = [] if is_new else None

    @property
    def nbytes(self) -> int:
        known = sum(part.nbytes for part in (self._on_disk, self._filter) if part is not None)
        return super().nbytes + known + sum(times.nbytes for times in self._times or ())

    def logical(self, keys: Binary) -> Keys:
        return Keys(keys)

    def seek(self, keys: Keys) -> IntArray:
        """The rows of ids, -1 for ids without one; creates none."""
        if self._filter is None:
            return super().seek(keys)
        rows = np.full(len(keys), -1, np.int64)
        asked = self._maybe_here(self._filter, keys.hashes)
        if asked.size:
            rows[asked] = super().seek(keys.take(asked))
        return rows

    def _maybe_here(self, known: HashFilter, hashes: HashArray) -> IntArray:
        """The indexes of hashes that ids in memory or on disk have."""
        asked = np.flatnonzero(known.may_have(hashes))
        hashes = hashes[asked]
        return asked[self._table.may_have(hashes) | _are_in(self._on_disk, hashes)]

    def find(self, keys: Keys) -> IntArray:
        rows = self.seek(keys)
        new = np.flatnonzero(rows < 0)
        if new.size:
            rows[new] = self._add(keys.take(new) if new.size < len(keys) else keys)
            self._touched[rows[new]] = True
        return rows

    def _add(self, keys: Keys) -> IntArray:
        rows = super()._add(keys)
        if self._filter is not None and self._on_disk is not None:
            self._filter.add(keys.hashes)
            if self._filter.is_full:
                self._filter = HashFilter(np.concatenate([self._table.hashes(), self._on_disk.hashes()]))
        return rows

    def put(self, rows: IntArray, values: Values) -> None:
        super().put(rows, values)
        if self._times is not None:
            self._times.append(values.timestamps)

    def count(self, low: int, high: int) -> int:
        """The number of entries with ``low <= timestamp < high``."""
        if self._times is None:  # of a segment from before this process
            self._times = [np.array([timestamp for _, _, timestamp in self.scan()], np.int64)]
        if len(self._times) > 1:
            self._times = [np.concatenate(self._times)]
        return sum(int(np.count_nonzero((times >= low) & (times < high))) for times in self._times)

    def rollback(self) -> None:
        super().rollback()
        self._times = None

    def evict(self, everything: bool = False) -> None:
        if self._on_disk is not None:
            leaves = self._table.present() & (everything | ~self._touched[: len(self._table)])
            hashes = self._table.hashes()[leaves]
            self._on_disk.add(hashes[~_are_in(self._on_disk, hashes)])
        super().evict(everything)


def _are_in(index: HashIndex | None, hashes: HashArray) -> BoolArray:
    if index is None or not index.size:
        return np.zeros(len(hashes), np.bool_)
    return index.find(hashes, index.home(hashes))[0] >= 0


class DeduplicationStore(SegmentedStore):
    """Ids with the timestamp and the offset of their forwarded record.

    The entries are indexed by time: they are in segments by their timestamps. An entry older than the interval, by the
    store's stream time, counts as purged and is no longer visible. Its bytes go with its segment, in the transaction
    that moves stream time beyond the segment's end. Entry and index are one row, so they cannot diverge.

    >>> import pyarrow as pa
    >>> store = DeduplicationStore("ids", interval=10)
    >>> store.write(Keys(pa.array([b"a", b"b"], pa.binary())), np.array([5, 7]), np.array([0, 1]))
    >>> store.advance(16)
    >>> store.find(Keys(pa.array([b"b", b"c"], pa.binary()))).timestamps.tolist()
    [7, -1]
    >>> [(id, timestamp) for id, offset, timestamp in store.rows()]
    [(b'b', 7)]

    Args:
        name: the store's name.
        interval: milliseconds for which an entry is kept; an entry of exactly that age is kept.
    """

    content = "ids"

    def __init__(self, name: str, interval: int):
        self.interval = interval
        retention = interval + 1
        super().__init__(name, retention, segment_interval=max(retention // SEGMENTS, 1))

    def open(self, database: Database | None) -> None:
        if database is not None:
            prefix = f"{self.name}/"
            for family in database.families():
                if family.startswith(prefix):
                    self._segments[int(family[len(prefix) :])] = DeduplicationSegment(database.family(family))

    # --- reading and writing -------------------------------------------------------------------------------------

    def find(self, ids: Keys) -> NewestEntries:
        """The newest entries of distinct ids, including purged ones."""
        timestamps, offsets = np.full(len(ids), NEVER, np.int64), np.full(len(ids), NEVER, np.int64)
        for id_ in sorted(self._segments):
            segment = self._at(id_)
            rows = segment.seek(ids)
            found = np.flatnonzero(rows >= 0)
            values = segment.get(rows[found])
            if values.data.null_count:
                there = is_present(values.data)
                found, values = found[there], Values(values.data.drop_null(), values.timestamps[there])
            timestamps[found] = values.timestamps
            offsets[found] = last_numbers(values.data)
        return NewestEntries(timestamps, offsets)

    def write(self, ids: Keys, timestamps: IntArray, offsets: IntArray) -> None:
        """Store the entries that are not older than the interval; the ids are distinct, or their timestamps far
        apart."""
        self.put(self.locate(Keys(ids.data, timestamps, ids.hashes)), _values(timestamps, offsets))

    def locate(self, keys: Keys, all_are_put: bool = False) -> Located:
        """Find where the entries of ids belong; the keys' times are the entries' timestamps."""
        assert keys.times is not None
        numbers = keys.times // self.segment_interval
        parts = []
        for id_ in distinct(numbers).tolist():
            if id_ >= self.oldest_live_segment():
                places = np.flatnonzero(numbers == id_)
                part = keys.take(places)
                segment = self._at(id_)
                ids = Keys(part.data, None, part.hashes)
                parts.append(Part(segment, segment.place(ids) if all_are_put else segment.find(ids), places))
        return Located(keys, parts)

    def apply(self, changes: ChangeSet) -> None:
        ids, values = changes
        self.put(self.locate(Keys(ids.data, values.timestamps), all_are_put=True), values)
        self.commit()

    def approximate_rows(self) -> int:
        earliest, segments = self.earliest_visible, self._segments.items()
        return sum(segment.approximate_since(earliest, self.visible_share(id_)) for id_, segment in segments)

    def count(self, low: int, high: int) -> int:
        """The number of entries with ``low <= timestamp < high``."""
        ids = [
            id_
            for id_ in self._segments
            if low < (id_ + 1) * self.segment_interval and id_ * self.segment_interval < high
        ]
        return sum(self._at(id_).count(low, high) for id_ in ids)

    def get(self, ids: Keys) -> Values:
        """The offsets of distinct ids as 8 bytes, and their timestamps; null for ids without an entry."""
        timestamps, offsets = self.find(ids)
        gone = ~self.visible(timestamps) | (timestamps == NEVER)
        return Values(fixed_binary(offsets.astype(">i8"), ~gone), np.where(gone, NEVER, timestamps))

    def get_one(self, id_: bytes) -> tuple[bytes, int] | None:
        """The offset as 8 bytes and the timestamp of an id's newest entry; None if it has none."""
        found = (self._segments[segment].get_one(id_) for segment in sorted(self._segments, reverse=True))
        newest = next((row for row in found if row is not None), None)
        return None if newest is None or newest[1] < self.earliest_visible else newest

    def range(self, low: bytes | None = None, high: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        """The entries of ids with ``low <= id < high``, in the byte order of the ids."""
        rows = (row for segment in self.pieces() for row in segment.scan(low, high) if row[2] >= self.earliest_visible)
        return iter(sorted(rows, reverse=reverse))

    def rows(self) -> Iterator[Row]:
        return self.range()

    def _at(self, id_: int) -> DeduplicationSegment:
        """The segment with this number; created if missing."""
        segment = self._segments.setdefault(id_, DeduplicationSegment())
        assert isinstance(segment, DeduplicationSegment)
        return segment


def _values(timestamps: IntArray, offsets: IntArray) -> Values:
    return Values(fixed_binary(offsets.astype(">i8")), timestamps)

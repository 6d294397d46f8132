"""The versioned store: every version of a key's value, found by time (KIP-889, KIP-914).

The latest value of each key is stored separately. An older version is in the segment of the time at which it ends,
under its key and that end, together with the time at which it begins. So history expires by dropping segments, and a
put writes at most two rows, whatever the number of versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, binary, concat, is_missing
from penstock.state.columns.rows import Keys, Values
from penstock.state.columns.sorted_index import FOREVER, SortedIndex
from penstock.state.database import Database
from penstock.state.kinds.segments import SegmentedStore, SegmentRows
from penstock.state.kinds.versioned.sorting import by_key
from penstock.state.kinds.versioned.timeline import NOT_PUT, VALID_TO_UNDEFINED, Timeline, Version
from penstock.state.rows_below import above
from penstock.state.store import Located, Part
from penstock.state.transactional import Base, ChangeSet, TransactionalRows

__all__ = ["LATEST", "NOT_PUT", "VALID_TO_UNDEFINED", "Found", "VersionRow", "VersionedStore", "segment_interval_of"]

LATEST = -1
"""Takes the place of the segment's time in the changelog's rows of latest values."""


class VersionRow(NamedTuple):
    """One version of a key; ``valid_to`` is None for the latest."""

    key: bytes
    value: bytes
    valid_from: int
    valid_to: int | None


class Found(NamedTuple):
    """For each of several questions, the first older version of its key that ends after its time."""

    valid_to: IntArray
    """The end of the version, or ``FOREVER``."""
    valid_from: IntArray
    data: Binary
    """The value; null for a deletion, and without a version."""

    @property
    def exists(self) -> BoolArray:
        exists: BoolArray = self.valid_to < FOREVER
        return exists


class VersionedSegment(SegmentRows):
    """The older versions that end in one stretch of time, by key and end.

    A row's timestamp is the start of the version; for a deletion it is negative, the bitwise complement of the start.
    """

    def __init__(self, base: Base | None = None):
        super().__init__(base)
        self._index: SortedIndex | None = SortedIndex()
        self._new_rows: list[IntArray] = []

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self._index is None else self._index.nbytes)

    def put(self, rows: IntArray, values: Values) -> None:
        self._new_rows.append(rows[~self._table.present()[rows]])
        super().put(rows, values)

    def rollback(self) -> None:
        super().rollback()
        self._index = None

    def evict(self, everything: bool = False) -> None:
        super().evict(everything)
        self._index = None

    def _take_in(self, keys: Keys, packed: Binary) -> None:
        super()._take_in(keys, packed)
        self._index = None

    def _load(self, keys: Keys) -> IntArray:
        rows = super()._load(keys)
        self._new_rows.append(rows[self._table.present()[rows]])
        return rows

    def after(self, keys: Keys, codes: IntArray, times: IntArray) -> IntArray:
        """For each question (the number of a key, and a time), the row with the next end after the time, or
        -1."""
        hashes = keys.hashes[codes]
        rows = self._fresh_index().after(hashes, times)
        asked = np.flatnonzero(rows >= 0)
        wrong = asked[~self._have_keys(rows[asked], keys.data.take(pa.array(codes[asked])))]
        for question in wrong.tolist():  # another key has the same hash
            rows[question] = self._after_one(keys, int(codes[question]), int(times[question]))
        return rows if self.is_all_here else self._with_disk(keys, codes, times, rows)

    def ends(self, rows: IntArray) -> IntArray:
        """The ends of the versions of rows."""
        return self._table.times()[rows]

    def _fresh_index(self) -> SortedIndex:
        if self._index is None:
            self._index = SortedIndex()
            self._new_rows = [np.flatnonzero(self._table.present())]
        if self._new_rows:
            rows = np.concatenate(self._new_rows)
            self._new_rows = []
            keys = self._table.keys(rows)
            if keys.times is not None:
                self._index.add(keys.hashes, keys.times, rows)
        return self._index

    def _have_keys(self, rows: IntArray, wanted: Binary) -> BoolArray:
        return np.asarray(pc.equal(self._table.keys(rows).data, wanted).to_numpy(zero_copy_only=False))

    def _after_one(self, keys: Keys, code: int, time: int) -> int:
        rows = self._fresh_index().rows_of(int(keys.hashes[code]))
        rows = rows[self._have_keys(rows, pa.repeat(keys.data[code], len(rows)))]
        ends = self._table.times()[rows]
        later = rows[ends > time]
        return -1 if not later.size else int(later[np.argmin(self._table.times()[later])])

    def _with_disk(self, keys: Keys, codes: IntArray, times: IntArray, rows: IntArray) -> IntArray:
        """The rows that were found, replaced where an earlier one is only on disk."""
        assert self.base is not None
        ends = np.full(len(codes), FOREVER, np.int64)
        ends[rows >= 0] = self._table.times()[rows[rows >= 0]]
        data = keys.data.to_pylist()
        asked = [
            (data[code] + (time + 1).to_bytes(8, "big"), data[code] + end.to_bytes(8, "big"))
            for code, time, end in zip(codes.tolist(), times.tolist(), ends.tolist(), strict=True)
        ]
        found = [None if key is None else int.from_bytes(key[-8:], "big") for key in self.base.firsts(asked)]
        nearer = np.array([question for question, end in enumerate(found) if end is not None], np.int64)
        if nearer.size:
            pairs = np.stack([codes[nearer], np.array([end for end in found if end is not None])], axis=1)
            distinct, place = np.unique(pairs, axis=0, return_inverse=True)
            rows[nearer] = self.find(keys.at(distinct[:, 0], distinct[:, 1]))[place.ravel()]
        return rows


class VersionedStore(SegmentedStore):
    """The versions of every key.

    A version older than the store's stream time minus the history retention is no longer put (the history retention is
    also the grace period). Reads as of a time that old find only the latest version.

    >>> store = VersionedStore("prices", history_retention=1000)
    >>> store.put_one(b"a", b"1", 10), store.put_one(b"a", b"3", 30), store.put_one(b"a", b"2", 20)
    (-1, -1, 30)
    >>> store.get_one(b"a").value, store.get_one(b"a", as_of=25).value
    (b'3', b'2')
    """

    content = "versions by key"
    segment_type = VersionedSegment

    def __init__(self, name: str, history_retention: int, segment_interval: int | None = None, in_memory: bool = False):
        interval = segment_interval or segment_interval_of(history_retention)
        super().__init__(name, history_retention, in_memory, interval)
        self.history_retention = history_retention
        self._latest = TransactionalRows()
        self.remembers_deletions = False
        """True if a deletion of the latest value at the time of its put leaves a trace, unlike in Kafka Streams."""
        self.keys_are_equally_long = False
        """True if no key is a prefix of another one; then rows on disk are already in the order of keys."""

    def pieces(self) -> list[TransactionalRows]:
        return [self._latest, *super().pieces()]

    def approximate_rows(self) -> int:
        older = sum(segment.approximate_since(0) for segment in self._segments.values())
        return self._latest.approximate_num_entries() + older

    def open(self, database: Database | None) -> None:
        super().open(database)
        if database is not None:
            self._latest = TransactionalRows(database.family(self.name))
            if self.in_memory:
                self._latest.load_all()

    def above(self, committed: bool = False) -> Self:
        made = super().above(committed)
        made._latest = above(self._latest, committed)
        return made

    def families(self) -> dict[str, TransactionalRows]:
        return {self.name: self._latest, **super().families()}

    def oldest_live_segment(self) -> int:
        return (self.observed_stream_time - self.retention) // self.segment_interval

    # --- many keys at once ---------------------------------------------------------------------------------------

    def latest(self, keys: Keys) -> Located:
        """Find the latest values of distinct keys."""
        return Located(keys, [Part(self._latest, self._latest.find(keys), np.arange(len(keys)))])

    def get(self, keys: Keys) -> Values:
        """The latest values of distinct keys."""
        return self._latest.look_up(keys)

    def latest_one(self, key: bytes) -> tuple[bytes, int] | None:
        """The latest value of one key and its start, or None."""
        return self._latest.get_one(key)

    def put_latest(self, keys: Keys, values: Values) -> None:
        """Write the latest values of distinct keys; null removes one."""
        self.latest(keys).put(values)

    def older(self, keys: Keys, codes: IntArray, times: IntArray) -> Found:
        """For each question (the number of a key, and a time), the first older version that ends after the time."""
        valid_to = np.full(len(codes), FOREVER, np.int64)
        valid_from = np.full(len(codes), -1, np.int64)
        entries = np.full(len(codes), -1, np.int64)
        found: list[Binary] = []
        count = 0
        first = times // self.segment_interval
        for id_ in sorted(self._segments):
            asked = np.flatnonzero((first <= id_) & (valid_to == FOREVER))
            if not asked.size:
                continue
            segment = self._segments[id_]
            assert isinstance(segment, VersionedSegment)
            rows = segment.after(keys, codes[asked], times[asked])
            asked, rows = asked[rows >= 0], rows[rows >= 0]
            values = segment.get(rows)
            valid_to[asked] = segment.ends(rows)
            valid_from[asked] = values.timestamps
            entries[asked] = np.arange(count, count + len(rows))
            found.append(values.data)
            count += len(rows)
        deleted = (valid_from < 0) & (valid_to < FOREVER)
        valid_from = np.where(deleted, ~valid_from, valid_from)
        data = concat(found) if found else binary([])
        return Found(valid_to, valid_from, data.take(pa.array(entries, mask=(entries < 0) | deleted)))

    def put_older(self, keys: Keys, valid_from: IntArray, data: Binary) -> None:
        """Write older versions, by key and end; null for a deletion."""
        missing = is_missing(data)
        values = pc.fill_null(data, b"") if data.null_count else data
        self.locate(keys).put(Values(values, np.where(missing, ~valid_from, valid_from)))

    # --- one key at a time ---------------------------------------------------------------------------------------

    def put_one(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Put a version. Return the end of its validity, -1 if it is the latest, ``NOT_PUT`` if it is too old."""
        if timestamp < self.observed_stream_time - self.retention:
            return NOT_PUT
        self.advance(timestamp)
        keys = Keys(binary([key]))
        located = self.latest(keys)
        timeline = Timeline(_version(located.get(), 0), self.remembers_deletions)
        self.load(timeline, keys, 0, np.array([timestamp - 1, timestamp]))
        before = timeline.latest
        valid_to = timeline.put(value, timestamp)
        ends = sorted(timeline.changed)
        versions = [timeline.older[end] for end in ends]
        begins = np.array([version.valid_from for version in versions], np.int64)
        data = binary([version.value for version in versions])
        self.put_older(keys.at(np.zeros(len(ends), np.int64), np.array(ends, np.int64)), begins, data)
        if timeline.latest != before:
            latest = timeline.latest or Version(None, -1)
            located.put(Values(binary([latest.value]), np.array([latest.valid_from])))
        return valid_to

    def load(self, timeline: Timeline, keys: Keys, code: int, times: IntArray) -> None:
        """Load the older versions into a key's timeline that are needed to put or read at these times."""
        found = self.older(keys, np.full(len(times), code), times)
        values = found.data.to_pylist()
        for row in np.flatnonzero(found.exists).tolist():
            timeline.load(int(found.valid_to[row]), Version(values[row], int(found.valid_from[row])))

    def delete_one(self, key: bytes, timestamp: int) -> VersionRow | None:
        """Delete a key as of a time. Return the version that was valid then; None if there was none or it is too
        late."""
        if timestamp < self.observed_stream_time - self.retention:
            return None
        before = self.get_one(key, timestamp)
        self.put_one(key, None, timestamp)
        return before

    def get_one(self, key: bytes, as_of: int | None = None) -> VersionRow | None:
        """The latest version of a key, or the one that was valid at a time, or None."""
        latest = self._latest.get_one(key)
        if latest is not None and (as_of is None or latest[1] <= as_of):
            return VersionRow(key, *latest, None)
        if as_of is None or as_of < max(self.observed_stream_time - self.retention, 0):
            return None
        found = next(self.scan_key(key, min(as_of, FOREVER - 2) + 1, FOREVER - 1), None)
        if found is None or not 0 <= found[3] <= as_of:  # a deletion's start is negative
            return None
        return VersionRow(key, found[2], found[3], found[1])

    def versions(
        self, key: bytes, earliest: int = 0, latest: int = FOREVER, reverse: bool = False
    ) -> Iterator[VersionRow]:
        """The versions of a key that were valid at some time in a range, both ends included.

        As in Kafka Streams the segments up to that of the range's end are searched, and the latest version: one that
        ended in a later segment is not found.
        """
        newest = self._latest.get_one(key)
        rows = []
        if latest >= self.observed_stream_time - self.retention:
            rows = list(self._older_of(key, earliest, latest))
        if newest is not None and newest[1] <= latest:
            rows.append(VersionRow(key, *newest, None))
        return iter(rows[::-1] if reverse else rows)

    def _older_of(self, key: bytes, earliest: int, latest: int) -> Iterator[VersionRow]:
        end_of_segment = min((latest // self.segment_interval + 1) * self.segment_interval, FOREVER) - 1
        for _, end, value, begin in self.scan_key(key, max(earliest + 1, 0), end_of_segment):
            if 0 <= begin <= latest:
                yield VersionRow(key, value, begin, end)

    def rows(self) -> Iterator[VersionRow]:
        """All stored versions, by key and then by time."""
        found = [self._older_in(segment, id_) for id_, segment in self._segments.items()]
        latest = (VersionRow(*row, None) for row in self._latest.scan())
        return merge(*found, latest, key=itemgetter(0, 2))

    def _older_in(self, segment: SegmentRows, id_: int) -> Iterator[VersionRow]:
        rows: Iterator[tuple[bytes, bytes, int]] = segment.scan()
        if not self.keys_are_equally_long:
            rows = by_key(rows, (id_ + 1) * self.segment_interval)
        for row_key, value, begin in rows:
            if begin >= 0:
                yield VersionRow(row_key[:-8], value, begin, int.from_bytes(row_key[-8:], "big"))

    # --- the changelog -------------------------------------------------------------------------------------------

    def changes(self) -> ChangeSet | None:
        newest = self._latest.changes()
        count = len(newest.keys)
        parts = [ChangeSet(newest.keys.at(np.arange(count), np.full(count, LATEST)), newest.values)]
        parts += [piece.changes() for piece in super().pieces()]
        parts = [part for part in parts if len(part.keys)]
        if not parts:
            return None
        times = np.concatenate([_times(part.keys) for part in parts])
        keys = Keys(concat([part.keys.data for part in parts]), times)
        data = concat([part.values.data for part in parts])
        return ChangeSet(keys, Values(data, np.concatenate([part.values.timestamps for part in parts])))

    def apply(self, changes: ChangeSet) -> None:
        """Write the rows as they were written before: nothing is put again, so nothing can be too late."""
        keys, values = changes
        newest = _times(keys) == LATEST
        for rows, locate in ((np.flatnonzero(newest), self.latest), (np.flatnonzero(~newest), self.locate)):
            if rows.size:
                part = keys.take(rows) if locate == self.locate else Keys(keys.data.take(pa.array(rows)))
                locate(part).put(Values(values.data.take(pa.array(rows)), values.timestamps[rows]))
        self.commit()


def segment_interval_of(history_retention: int) -> int:
    """The default length of a segment, as in Kafka Streams.

    >>> segment_interval_of(600_000)
    60000
    """
    for most, parts, least in ((60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000)):
        if history_retention <= most:
            return max(history_retention // parts, least)
    return max(history_retention // 24, 300_000)


def _times(keys: Keys) -> IntArray:
    assert keys.times is not None
    return keys.times


def _version(values: Values, row: int) -> Version | None:
    value = values.data[row].as_py()
    return None if value is None else Version(value, int(values.timestamps[row]))

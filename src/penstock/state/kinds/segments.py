"""Stores by key and time: rows in segments of time, which expire as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import chain
from typing import Self, cast

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, BoolArray, IntArray, binary, concat, distinct, last_numbers, nulls, without_last
from penstock.state.columns.packed import unpack
from penstock.state.columns.rows import Keys, Values
from penstock.state.database import Database
from penstock.state.interface import ChangelogOffsets
from penstock.state.rows_below import above
from penstock.state.store import NO_OFFSETS, Located, Part, StateStore
from penstock.state.transactional import READ_AT_ONCE, Base, TransactionalRows, physical_keys, unpack_all

MIN_SEGMENT_INTERVAL = 60_000

KeyedRow = tuple[bytes, int, bytes, int]
"""The two parts of a row's key, its value, its timestamp."""

_SAMPLE = 100
"""The number of rows sampled for the average number of entries per row."""
_MOST_COUNTED = 10_000
"""The largest number of rows in memory whose entries are counted."""
_HIGHEST = b"\xff" * 9


class SegmentRows(TransactionalRows):
    """The rows of one stretch of time; they reach the disk only if the segment still exists at a flush."""

    def logical(self, keys: Binary) -> Keys:
        return Keys(without_last(keys, 8), last_numbers(keys))

    def between(self, earliest: int, latest: int) -> tuple[Keys, Values]:
        """The rows in a time range, both ends included."""
        if self.base is not None and not self.is_all_here:
            for some, packed in self.base.blocks(None, None, READ_AT_ONCE):
                keys = binary(some)
                times = last_numbers(keys)
                inside = pa.array(np.flatnonzero((times >= earliest) & (times <= latest)))
                self._take_in(self.logical(keys.take(inside)), binary(packed).take(inside))
        return self._between(earliest, latest)

    def approximate_of_times(self, earliest: int, share: float) -> int:
        """The number of rows at or after a time: of the rows that are only on disk, ``share`` of them."""
        if share == 1:
            return self.approximate_num_entries()
        if (few := self._few()) is not None:
            times = self.logical(binary([key for key, *_ in few])).times
            assert times is not None
            return int(np.count_nonzero(times >= earliest))
        here = self._table.present() & (self._table.times() >= earliest)
        return int(np.count_nonzero(here)) + round(share * self._approximate_on_disk())

    def approximate_entries(self, slot: int, earliest: int, share: float) -> int:
        """The number of entries in rows with several entries, from a slot and in it from a time on; ``share`` as
        above."""
        if share == 1:
            count = self.approximate_num_entries()
            return round(count * self._entries_a_row()) if count else 0
        times, present = self._table.times(), self._table.present()
        first = self._table.values(np.flatnonzero(present & (times == slot))).data
        later = self._table.heads(np.flatnonzero(present & (times > slot)))
        found = int(np.count_nonzero(unpack(first).first >= earliest)) + int(later.sum())
        on_disk = share * self._approximate_on_disk()
        return found + round(on_disk * self._entries_a_row()) if on_disk else found

    def _entries_a_row(self) -> float:
        """The average number of entries per row, from some rows in memory, or else the first ones on disk."""
        rows = np.flatnonzero(self._table.present())
        counts = self._table.heads(rows[:: len(rows) // _MOST_COUNTED + 1])
        if not len(counts) and self.base is not None:
            _, some = next(self.base.blocks(None, None, _SAMPLE), ([], []))
            return len(unpack(unpack_all(binary(some)).data)) / max(len(some), 1)
        return float(counts.mean())


class SegmentedStore(StateStore):
    """The common part of stores by key and time.

    Rows at or before the store's stream time minus the retention are no longer visible. They are removed with their
    segment, which costs the same whatever its number of rows.

    Args:
        name: the store's name.
        retention: milliseconds for which rows are kept.
        in_memory: keep all rows in memory.
        segment_interval: milliseconds that one segment covers; by default half the retention, and at least a minute.
    """

    segment_type: type[SegmentRows] = SegmentRows

    def __init__(self, name: str, retention: int, in_memory: bool = False, segment_interval: int | None = None):
        self.name = name
        self.retention = retention
        self.in_memory = in_memory
        self.segment_interval = segment_interval or segment_interval_of(retention)
        self.keeps_beyond = 0
        """Milliseconds for which invisible rows are kept beyond the retention."""
        self.keeps_expired = False
        """True if segments that the running transaction removes stay readable until its end, even if it created
        them."""
        self.observed_stream_time = -1
        self._committed_stream_time = -1
        self._segments: dict[int, SegmentRows] = {}
        self._expired: dict[int, SegmentRows] = {}
        self._dropped: list[str] = []

    def pieces(self) -> list[TransactionalRows]:
        return list(self._segments.values())

    def open(self, database: Database | None) -> None:
        if database is not None:
            prefix = f"{self.name}/"
            for family in database.families():
                if family.startswith(prefix):
                    id_ = int(family[len(prefix) :])
                    segment = self.segment_type(self._below(id_, database.family(family)))
                    self._segments[id_] = segment
                    if self.in_memory:
                        segment.load_all()

    def _below(self, id_: int, family: Base) -> Base:
        """The layer below the rows of a segment in memory: its column family, unless a kind of store reads them from
        elsewhere."""
        return family

    def above(self, committed: bool = False) -> Self:
        """A store that shows these rows beneath its own, which do not reach this store.

        Args:
            committed: show what was committed, without the running transaction.
        """
        made = copy(self)
        there = {**self._segments, **self._expired} if committed else self._segments
        made._segments = {id_: cast(SegmentRows, above(segment, committed)) for id_, segment in there.items()}
        made._expired, made._dropped = {}, []
        if committed:
            made.observed_stream_time = self._committed_stream_time
        return made

    # --- segments ------------------------------------------------------------------------------------------------

    def _segment_ids(self, times: IntArray) -> IntArray:
        """The segments of the second parts of keys."""
        return times // self.segment_interval

    def locate(self, keys: Keys, all_are_put: bool = False) -> Located:
        """Look up distinct pairs of key and time; those in removed segments get no row."""
        assert keys.times is not None
        ids = self._segment_ids(keys.times)
        oldest = self.oldest_live_segment()
        if len(ids) and ids[0] == ids[-1] and (ids == ids[0]).all():
            groups = [(int(ids[0]), np.arange(len(ids)))]
        else:
            groups = [(int(i), np.flatnonzero(ids == i)) for i in distinct(ids)]
        parts = []
        for id_, places in groups:
            if id_ >= oldest:
                segment = self._segments.get(id_) or self._segments.setdefault(id_, self.segment_type())
                part = keys if len(places) == len(keys) else keys.take(places)
                rows = segment.place(part) if all_are_put else segment.find(part)
                parts.append(Part(segment, rows, places))
        return Located(keys, parts)

    def look_up(self, keys: Keys) -> Values:
        """The values of distinct pairs of key and time, visible or not, including those that the running transaction
        removed."""
        assert keys.times is not None
        ids = self._segment_ids(keys.times)
        timestamps, entries = np.full(len(ids), -1, np.int64), np.full(len(ids), -1, np.int64)
        found, count = [nulls(0)], 0
        for id_ in distinct(ids).tolist():
            segment = self._segments.get(id_) or self._expired.get(id_)
            if segment is not None:
                places = np.flatnonzero(ids == id_)
                values = segment.look_up(keys.take(places))
                timestamps[places] = values.timestamps
                entries[places] = np.arange(count, count + len(places))
                found.append(values.data)
                count += len(places)
        return Values(concat(found).take(pa.array(entries, mask=entries < 0)), timestamps)

    def look_up_one(self, key: bytes, time: int) -> tuple[bytes, int] | None:
        """The value and timestamp of one pair of key and time, visible or not."""
        segment = self._segments.get(time // self.segment_interval)
        return None if segment is None else segment.get_one(key, time)

    def put(self, located: Located, values: Values) -> None:
        located.put(values)

    def approximate_rows(self) -> int:
        earliest, segments = self.earliest_visible, self._segments.items()
        return sum(segment.approximate_of_times(earliest, self.visible_share(id_)) for id_, segment in segments)

    def visible_share(self, id_: int) -> float:
        """The fraction of a segment's time up to now that is still visible."""
        first, last = id_ * self.segment_interval, self.observed_stream_time
        last = max(min(last, first + self.segment_interval - 1), first)
        return max(last - max(first, self.earliest_visible) + 1, 0) / (last - first + 1)

    def advance(self, stream_time: int) -> None:
        """Advance the store's stream time and remove segments that have expired completely."""
        if stream_time > self.observed_stream_time:
            self.observed_stream_time = stream_time
            oldest = self.oldest_live_segment()
            for id_ in [id_ for id_ in self._segments if id_ < oldest]:
                segment = self._segments.pop(id_)
                # a rollback restores it, results may be in it, or a caller asks for removed windows
                if segment.has_committed or self.keeps_beyond or self.keeps_expired:
                    self._expired[id_] = segment

    def windows_between(self, earliest: int, latest: int) -> Binary:
        """The windowed keys that expire in a time range, both ends included; like ``between``."""
        found = self.between(earliest, latest)
        return nulls(0) if found is None else physical_keys(found[0])

    def times_of(self, windows: Binary) -> IntArray:
        """The times by which windowed keys expire."""
        return last_numbers(windows)

    def refused_before(self, stream_times: IntArray) -> IntArray:
        """The earliest time that the store accepts at each of these stream times; older records count as drops.

        As in Kafka Streams, a store on disk accepts records of segments that still exist, visible or not.
        """
        last_gone = stream_times - self.retention
        if self.in_memory:
            return last_gone + 1
        return np.maximum(last_gone, 0) // self.segment_interval * self.segment_interval  # no time is below 0

    def refuses(self, time: int, stream_time: int) -> bool:
        """True if a record of this time counts as a drop at this stream time."""
        return bool(time < self.refused_before(np.array([stream_time]))[0])

    @property
    def earliest_visible(self) -> int:
        """The earliest time that is still visible."""
        return self.observed_stream_time - self.retention + 1

    def visible(self, times: IntArray) -> BoolArray:
        """True for times that are still visible."""
        return times >= self.earliest_visible

    def oldest_live_segment(self) -> int:
        return (self.earliest_visible - self.keeps_beyond) // self.segment_interval

    def between(self, earliest: int, latest: int) -> tuple[Keys, Values] | None:
        """The rows in a time range, both ends included, visible or not; None if there are none.

        They include rows of segments that this transaction has removed.
        """
        if latest < earliest:
            return None
        first, last = self._segment_ids(np.array([earliest, latest])).tolist()
        segments = [self._expired, self._segments]
        parts = [s.between(earliest, latest) for held in segments for id_, s in held.items() if first <= id_ <= last]
        parts = [part for part in parts if len(part[0])]
        if not parts:
            return None
        data = concat([keys.data for keys, _ in parts])
        times = np.concatenate([keys.times for keys, _ in parts])
        values = concat([values.data for _, values in parts])
        return Keys(data, times), Values(values, np.concatenate([values.timestamps for _, values in parts]))

    # --- one row after the other ---------------------------------------------------------------------------------

    def scan_key(self, key: bytes, earliest: int, latest: int, reverse: bool = False) -> Iterator[KeyedRow]:
        """The rows of one key, as they are now, whose second parts are in a range, both ends included, by segment and
        second part. Loads nothing into memory, and ignores visibility."""
        if latest < earliest:
            return iter(())
        low, high = key + earliest.to_bytes(8, "big"), key + (latest + 1).to_bytes(8, "big")
        rows = self._scanned(low, high, earliest, latest, reverse)
        return (row for row in rows if len(row[0]) == len(key))  # a longer key may begin like this one

    def scan_keys(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool = False
    ) -> Iterator[KeyedRow]:
        """The rows with ``low <= key <= high`` (None: no bound), as they are now, whose second parts are in a range,
        both ends included, by segment, key and second part; like ``scan_key``."""
        if latest < earliest:
            return iter(())
        last = min(latest, max(self.observed_stream_time, 0)) + 1
        above = None if high is None else max([high + _HIGHEST, *_beginnings_at(high, last)])
        rows = self._scanned(low, above, earliest, latest, reverse)
        return (row for row in rows if is_between(row[0], low, high) and earliest <= row[1] <= latest)

    def _scanned(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool
    ) -> Iterator[KeyedRow]:
        """The rows between two bounds of the bytes of both parts, in the segments of the second parts."""
        first, last = self._segment_ids(np.array([earliest, latest])).tolist()
        ids = [id_ for id_ in sorted(self._segments, reverse=reverse) if first <= id_ <= last]
        rows = chain.from_iterable([self._segments[id_].scan(low, high, reverse) for id_ in ids])
        return ((row[:-8], int.from_bytes(row[-8:], "big"), value, timestamp) for row, value, timestamp in rows)

    # --- transactions and the disk -------------------------------------------------------------------------------

    def commit(self, changelog_offsets: ChangelogOffsets = NO_OFFSETS) -> None:
        super().commit(changelog_offsets)
        self._committed_stream_time = self.observed_stream_time
        self._dropped += [self._family(id_) for id_, segment in self._expired.items() if segment.base is not None]
        self._expired.clear()

    def rollback(self) -> None:
        self._segments.update(self._expired)
        self._expired.clear()
        super().rollback()
        self.observed_stream_time = self._committed_stream_time

    def families(self) -> dict[str, TransactionalRows]:
        return {self._family(id_): segment for id_, segment in self._segments.items()}

    def flushed(self, database: Database) -> None:
        super().flushed(database)
        there = set(database.families())
        for id_, segment in self._segments.items():  # a segment without rows, as a rollback leaves it, gets no family
            if segment.base is None and self._family(id_) in there:
                segment.base = self._below(id_, database.family(self._family(id_)))
        for family in self._dropped:
            database.drop(family)
        self._dropped.clear()

    def evict(self, everything: bool = False) -> None:
        if not self.in_memory:
            super().evict(everything)

    def state(self) -> dict[str, int]:
        return {"observed_stream_time": self.observed_stream_time}

    def restore_state(self, numbers: dict[str, int]) -> None:
        self.advance(numbers["observed_stream_time"])
        self._committed_stream_time = self.observed_stream_time

    def _family(self, id_: int) -> str:
        return f"{self.name}/{id_}"


def _beginnings_at(key: bytes, time: int) -> list[bytes]:
    """The first keys after the rows, up to a time, of each key that is a prefix of the given one."""
    return [key[:length] + time.to_bytes(8, "big") for length in range(len(key))]


def segment_interval_of(retention: int, segments: int = 3) -> int:
    """The length of one of ``segments`` segments, but at least a minute (KIP-94).

    >>> segment_interval_of(600_000), segment_interval_of(1000)
    (300000, 60000)
    """
    return max(retention // (segments - 1), MIN_SEGMENT_INTERVAL)


def is_between(key: bytes, low: bytes | None, high: bytes | None) -> bool:
    """True if ``low <= key <= high``; None means no bound."""
    return (low is None or key >= low) and (high is None or key <= high)

"""The store of sliding windows, which begin at any time: values by key and window start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, nulls
from penstock.state.columns.packed import Entries, unpack, unpack_one
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.packed import PackedStore
from penstock.state.kinds.segments import is_between
from penstock.state.kinds.window import WindowRow
from penstock.state.transactional import physical_keys


class SlidingStore(PackedStore):
    """Values by key and window start; windows are visible for the retention, counted from their start.

    Of the entries of a row, the first number is a window's start and the second its timestamp.
    """

    def fetch(self, key: bytes, earliest: int, latest: int, reverse: bool = False) -> Iterator[tuple[int, bytes, int]]:
        """The windows of one key that begin in a range of time, ends included: start, value, timestamp."""
        bounds = np.array([max(earliest, 0)]), np.array([latest])
        entries = self.load_range(Keys(pa.array([key], pa.binary())), *bounds).entries
        rows = zip(entries.first.tolist(), entries.data.to_pylist(), entries.second.tolist(), strict=True)
        first = max(earliest, self.earliest_visible)
        found = [row for row in rows if first <= row[0] <= latest]
        return reversed(found) if reverse else iter(found)

    def look_up_one(self, key: bytes, time: int) -> tuple[bytes, int] | None:
        """The value and timestamp of one window, None when it has none."""
        found = next(self.fetch(key, time, time), None)
        return None if found is None else found[1:]

    def put_windows(self, keys: Keys, values: Values) -> None:
        """Write windows by distinct pairs of key and start; null deletes."""
        assert keys.times is not None
        self.put_entries(keys.data, Entries(keys.times, keys.times, values.timestamps, values.data), by_both=False)

    def scan_windows(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool = False
    ) -> Iterator[WindowRow]:
        """The windows of ``low <= key <= high`` that begin in a range of time, ends included, as they are now."""
        rows = list(self.rows(reverse))
        return (row for row in rows if earliest <= row[1] <= latest and is_between(row[0], low, high))

    def look_up(self, keys: Keys) -> Values:
        """The values of distinct pairs of key and start, no matter whether they can still be seen."""
        assert keys.times is not None
        slots = self._slots(keys.times)
        rows = physical_keys(Keys(keys.data, slots)).dictionary_encode().indices.to_numpy().astype(np.int64)
        _, one = np.unique(rows, return_index=True)  # windows of one slot share a row, which is looked up once
        entries = unpack(super().look_up(Keys(keys.data.take(pa.array(one)), slots[one])).data)
        place, timestamps = np.full(len(keys), -1, np.int64), np.full(len(keys), -1, np.int64)
        starts, rank = np.unique(np.concatenate([entries.first, keys.times]), return_inverse=True)
        known, asked = rank[: len(entries)] + entries.row * len(starts), rank[len(entries) :] + rows * len(starts)
        if len(known):
            found = np.minimum(np.searchsorted(known, asked), len(known) - 1)
            same = known[found] == asked
            place[same], timestamps[same] = found[same], entries.second[found[same]]
        return Values(entries.data.take(pa.array(place, mask=place < 0)), timestamps)

    def windows_between(self, earliest: int, latest: int) -> Binary:
        found = self.of_times(earliest, latest)
        if found is None:
            return nulls(0)
        return physical_keys(found.keys.at(found.entries.row, found.entries.first))

    def rows(self, reverse: bool = False) -> Iterator[WindowRow]:
        """All windows: by segment, key and start; in memory by start and key."""
        every = (self._segment_rows(id_, reverse) for id_ in sorted(self._segments, reverse=reverse))
        rows = (row for segment in every for row in segment)
        if not self.in_memory:
            return rows
        return iter(sorted(rows, key=lambda row: (row[1], row[0]), reverse=reverse))

    def _segment_rows(self, id_: int, reverse: bool) -> list[WindowRow]:
        rows = [
            (row_key[:-8], start, value, timestamp)
            for row_key, packed, _ in self._segments[id_].scan()
            for start, timestamp, value in unpack_one(packed)
            if start >= self.earliest_visible
        ]
        return sorted(rows, key=lambda row: row[:2], reverse=reverse)

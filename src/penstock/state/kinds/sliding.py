"""The store of sliding windows, which begin at any time: values by key and window start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, nulls
from penstock.state.columns.packed import Entries, unpack
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.packed import PackedStore
from penstock.state.kinds.window import WindowRow, by_start
from penstock.state.transactional import physical_keys
from penstock.values.durations import MAX_MS


class SlidingStore(PackedStore):
    """Values by key and window start; windows are visible for the retention, counted from their start.

    In the entries of a row, the first number is a window's start and the second its timestamp.
    """

    content = "sliding windows"

    def fetch(self, key: bytes, earliest: int, latest: int, reverse: bool = False) -> Iterator[tuple[int, bytes, int]]:
        """The windows of one key that begin in a time range, both ends included: start, value, timestamp."""
        first = max(earliest, self.earliest_visible, 0)
        found = self.entries_of(key, first, latest, reverse)
        return ((start, value, timestamp) for _, (start, timestamp, value) in found)

    def look_up_one(self, key: bytes, time: int) -> tuple[bytes, int] | None:
        """The value and timestamp of one window; None if it has none."""
        found = next(self.fetch(key, time, time), None)
        return None if found is None else found[1:]

    def put_windows(self, keys: Keys, values: Values) -> None:
        """Write windows by distinct pairs of key and start; null deletes."""
        assert keys.times is not None
        self.put_entries(keys.data, Entries(keys.times, keys.times, values.timestamps, values.data), by_both=False)

    def look_up(self, keys: Keys) -> Values:
        """The values of distinct pairs of key and start, visible or not."""
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

    def scan_windows(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool = False
    ) -> Iterator[WindowRow]:
        """The windows with ``low <= key <= high`` that begin in a time range, both ends included, as they are now: by
        segment, key and start; from a store in memory by start and key."""
        found = self.entries_between(low, high, max(earliest, self.earliest_visible, 0), latest, reverse)
        rows = ((key, start, value, timestamp) for key, (start, timestamp, value) in found)
        return by_start(rows, reverse) if self.in_memory else rows

    def rows(self, reverse: bool = False) -> Iterator[WindowRow]:
        return self.scan_windows(None, None, 0, MAX_MS, reverse)

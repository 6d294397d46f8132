"""The window store that keeps every value that was put for a key and window, in the order of the puts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray
from penstock.state.columns.packed import unpack_one
from penstock.state.columns.rows import Keys
from penstock.state.kinds.join_window import JoinWindowStore
from penstock.state.kinds.segments import is_between
from penstock.state.kinds.window import WindowRow
from penstock.state.transactional import Row


class DuplicateWindowStore(JoinWindowStore):
    """All values by key and window start; windows are visible for the retention, counted from their start.

    Args:
        name: the store's name.
        window_size: milliseconds that a window covers.
        retention: milliseconds for which windows are kept.
        in_memory: keep all rows in memory, and iterate by time.
        segment_interval: milliseconds that one segment covers.
    """

    def __init__(
        self,
        name: str,
        window_size: int,
        retention: int,
        in_memory: bool = False,
        segment_interval: int | None = None,
    ):
        super().__init__(name, window_size, retention, in_memory, segment_interval)
        self.window_size = window_size

    def put_all(self, keys: Binary, starts: IntArray, data: Binary, timestamps: IntArray) -> None:
        """Put values, in their order."""
        self.advance(int(starts.max()))
        kept = np.flatnonzero(self.visible(starts))
        rows = keys.take(pa.array(kept)).dictionary_encode()
        codes = rows.indices.to_numpy().astype(np.int64)
        names = Keys(rows.dictionary)
        self.append(names, codes, starts[kept], data.take(pa.array(kept)), timestamps[kept])

    def fetch(self, key: bytes, earliest: int, latest: int, reverse: bool = False) -> Iterator[tuple[int, bytes, int]]:
        """Start, value and timestamp of what a key has in windows that begin in a range of time, ends included."""
        first = max(earliest, self.earliest_visible, 0)
        segments = (self._segments[id_] for id_ in sorted(self._segments))
        rows = chain.from_iterable(segment.prefix_scan(key) for segment in segments)
        entries = (row for row in _entries_of(rows) if row[0] == key and first <= row[1] <= latest)
        found = [(start, value, timestamp) for _, start, value, timestamp in entries]
        return reversed(found) if reverse else iter(found)

    def scan_windows(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool = False
    ) -> Iterator[WindowRow]:
        """Key, start, value and timestamp of all keys with ``low <= key <= high`` in windows that begin in a range of
        time, as they are now; by segment, key and start, or in memory by start and key."""
        first = max(earliest, self.earliest_visible, 0)
        segments = [self._segments[id_].scan(low) for id_ in sorted(self._segments)]
        entries = _entries_of(chain.from_iterable(segments))
        found = [row for row in entries if first <= row[1] <= latest and is_between(row[0], low, high)]
        if self.in_memory:
            found.sort(key=lambda row: (row[1], row[0]))
        return reversed(found) if reverse else iter(found)

    def rows(self, reverse: bool = False) -> Iterator[WindowRow]:
        return self.scan_windows(None, None, 0, self.observed_stream_time, reverse)


def _entries_of(rows: Iterator[Row]) -> Iterator[WindowRow]:
    for row_key, packed, _ in rows:
        for start, timestamp, value in unpack_one(packed):
            yield row_key[:-8], start, value, timestamp

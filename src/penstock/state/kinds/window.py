"""The window store: values by key and window start, in segments of time that expire as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.segments import SegmentedStore, is_between
from penstock.state.store import Located

WindowRow = tuple[bytes, int, bytes, int]
"""Key, window start, value, timestamp."""


class WindowStore(SegmentedStore):
    """Values by key and window start; windows are visible for the retention, counted from their start."""

    def put(self, located: Located, values: Values) -> None:
        located.put(values)
        times = located.keys.times
        if times is not None and times.size:
            self.advance(int(times.max()))

    def fetch(self, key: bytes, earliest: int, latest: int, reverse: bool = False) -> Iterator[tuple[int, bytes, int]]:
        """The windows of one key that begin in a range of time, ends included: start, value, timestamp."""
        first = max(earliest, self.earliest_visible, 0)
        for id_ in sorted(self._segments, reverse=reverse):
            for row_key, value, timestamp in self._segments[id_].prefix_scan(key, reverse):
                start = int.from_bytes(row_key[-8:], "big")
                if len(row_key) == len(key) + 8 and first <= start <= latest:
                    yield start, value, timestamp

    def put_windows(self, keys: Keys, values: Values) -> None:
        """Write windows by distinct pairs of key and start; null deletes."""
        self.put(self.locate(keys), values)

    def scan_windows(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool = False
    ) -> Iterator[WindowRow]:
        """The windows of ``low <= key <= high`` that begin in a range of time, ends included, as they are now; by
        segment, key and start, or in memory by start and key."""
        first = max(earliest, self.earliest_visible, 0)
        wanted = range(first // self.segment_interval, latest // self.segment_interval + 1)
        segments = [self._segments[id_] for id_ in sorted(self._segments, reverse=reverse) if id_ in wanted]
        rows = (
            (row_key[:-8], int.from_bytes(row_key[-8:], "big"), value, timestamp)
            for segment in [segment.scan(low, reverse=reverse) for segment in segments]
            for row_key, value, timestamp in segment
        )
        inside = (row for row in rows if first <= row[1] <= latest and is_between(row[0], low, high))
        if not self.in_memory:
            return inside
        return iter(sorted(inside, key=lambda row: (row[1], row[0]), reverse=reverse))

    def rows(self, reverse: bool = False) -> Iterator[WindowRow]:
        rows = (
            (row_key[:-8], int.from_bytes(row_key[-8:], "big"), value, timestamp)
            for id_ in sorted(self._segments, reverse=reverse)
            for row_key, value, timestamp in self._segments[id_].scan(reverse=reverse)
        )
        seen = (row for row in rows if row[1] >= self.earliest_visible)
        if not self.in_memory:
            return seen
        return iter(sorted(seen, key=lambda row: (row[1], row[0]), reverse=reverse))

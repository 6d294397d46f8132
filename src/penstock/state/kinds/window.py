"""The window store: values by key and window start, in segments of time that expire as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.segments import SegmentedStore
from penstock.state.store import Located
from penstock.values.durations import MAX_MS

WindowRow = tuple[bytes, int, bytes, int]
"""Key, window start, value, timestamp."""


class WindowStore(SegmentedStore):
    """Values by key and window start; windows are visible for the retention, counted from their start."""

    content = "windows"

    def put(self, located: Located, values: Values) -> None:
        located.put(values)
        times = located.keys.times
        if times is not None and times.size:
            self.advance(int(times.max()))

    def fetch(self, key: bytes, earliest: int, latest: int, reverse: bool = False) -> Iterator[tuple[int, bytes, int]]:
        """The windows of one key that begin in a time range, both ends included: start, value, timestamp."""
        rows = self.scan_key(key, max(earliest, self.earliest_visible, 0), latest, reverse)
        return (row[1:] for row in rows)

    def scan_windows(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool = False
    ) -> Iterator[WindowRow]:
        """The windows with ``low <= key <= high`` that begin in a time range, both ends included, as they are now.

        As in Kafka Streams they are sorted by segment, key and start; from a store in memory by start and key.
        """
        rows = self.scan_keys(low, high, max(earliest, self.earliest_visible, 0), latest, reverse)
        return by_start(rows, reverse) if self.in_memory else rows

    def put_windows(self, keys: Keys, values: Values) -> None:
        """Write windows by distinct pairs of key and start; null deletes."""
        self.put(self.locate(keys), values)

    def rows(self, reverse: bool = False) -> Iterator[WindowRow]:
        return self.scan_windows(None, None, 0, MAX_MS, reverse)


def by_start(rows: Iterator[WindowRow], reverse: bool) -> Iterator[WindowRow]:
    """Windows in the order of a store in memory."""
    return iter(sorted(rows, key=lambda row: (row[1], row[0]), reverse=reverse))

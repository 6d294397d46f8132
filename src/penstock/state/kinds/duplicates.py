"""The window store that keeps every value that was put for a key and window, in the order of the puts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.join_window import JoinWindowStore
from penstock.state.kinds.window import WindowRow, by_start


class DuplicateWindowStore(JoinWindowStore):
    """All values by key and window start; windows are visible for the retention, counted from their start.

    Args:
        name: the store's name.
        window_size: milliseconds that a window covers.
        retention: milliseconds for which windows are kept.
        in_memory: keep all rows in memory, and iterate by time.
        segment_interval: milliseconds that one segment covers.
    """

    content = "windows with duplicates"
    keeps_timestamps = True

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
        self._slots_a_segment, self._slot_width = self.segment_interval, 1  # a row for each start

    def put_all(self, keys: Binary, starts: IntArray, values: Values) -> None:
        """Put values, in order."""
        self.advance(int(starts.max()))
        kept = np.flatnonzero(self.visible(starts))
        rows = keys.take(pa.array(kept)).dictionary_encode()
        codes = rows.indices.to_numpy().astype(np.int64)
        names = Keys(rows.dictionary)
        values = values.take(kept)
        self.append(names, codes, starts[kept], values.data, values.timestamps)

    def scan_windows(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool = False
    ) -> Iterator[WindowRow]:
        """Key, start, value and timestamp of all keys with ``low <= key <= high`` in windows that begin in a time
        range, as they are now; sorted by segment, key and start, or in memory by start and key."""
        rows = super().scan_windows(low, high, earliest, latest, reverse)
        return by_start(rows, reverse) if self.in_memory else rows

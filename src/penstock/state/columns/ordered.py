"""Rows in the byte order of their keys, for range scans; updated only when a scan needs it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np
import pyarrow.compute as pc

from penstock.arrays import EMPTY_INTS, Binary, IntArray

_FEW = 1024


class OrderedRows:
    """The numbers of rows, sorted by key. New rows are kept apart until there are many; then all rows are sorted again.

    >>> import pyarrow as pa
    >>> keys = [b"b", b"d", b"a", b"c"]
    >>> ordered = OrderedRows(keys.__getitem__, lambda: pa.array(keys, pa.binary()))
    >>> ordered.grow(4)
    >>> ordered.between(b"b", None).tolist(), ordered.between(None, b"c").tolist()
    ([0, 3, 1], [2, 0])

    Args:
        key_of: returns the key of a row.
        keys: returns the keys of all rows.
    """

    def __init__(self, key_of: Callable[[int], bytes], keys: Callable[[], Binary]):
        self._key_of = key_of
        self._keys = keys
        self._count = 0
        self._sorted: IntArray = EMPTY_INTS
        self._new: list[tuple[bytes, int]] = []

    @property
    def nbytes(self) -> int:
        return self._sorted.nbytes + sum(64 + len(key) for key, _ in self._new)

    def grow(self, count: int) -> None:
        """Add the new rows up to number ``count``."""
        if count - self._count + len(self._new) > max(_FEW, len(self._sorted) // 8):
            self._sorted = pc.array_sort_indices(self._keys()).to_numpy().astype(np.int64)
            self._new = []
        else:
            for row in range(self._count, count):
                insort(self._new, (self._key_of(row), row))
        self._count = count

    def between(self, low: bytes | None, high: bytes | None) -> IntArray:
        """The rows with ``low <= key < high``, sorted by key; None means no bound."""
        rows = self._sorted[self._place(low, 0) : self._place(high, len(self._sorted))]
        first = 0 if low is None else bisect_left(self._new, (low, -1))
        end = len(self._new) if high is None else bisect_left(self._new, (high, -1))
        if first >= end:
            return rows
        new = self._new[first:end]
        places = [self._place_in(rows, key) for key, _ in new]
        return np.insert(rows, places, [row for _, row in new])

    def _place(self, key: bytes | None, default: int) -> int:
        return default if key is None else self._place_in(self._sorted, key)

    def _place_in(self, rows: IntArray, key: bytes) -> int:
        """The index of the first row whose key is at or after the given one."""
        low, high = 0, len(rows)
        while low < high:
            middle = (low + high) // 2
            if self._key_of(rows.item(middle)) < key:
                low = middle + 1
            else:
                high = middle
        return low

"""A growing column of byte strings, addressed by entry number.

Values are only ever appended, so a number stays valid until ``keep`` discards the unused entries, and undoing a write
means going back to the old number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.arrays import Binary, IntArray, items_at, spans

_LARGE = pa.large_binary()


class Arena:
    """Byte strings in two growing buffers, read as an Arrow array without a copy.

    >>> arena = Arena()
    >>> arena.append(pa.array([b"one", b"two"], pa.binary())), arena.append(pa.array([b"three"], pa.binary()))
    (0, 2)
    >>> arena.take(np.array([2, 0])).to_pylist()
    [b'three', b'one']
    """

    __slots__ = ("_data", "_offsets", "_size", "_used")

    def __init__(self) -> None:
        self._offsets: IntArray = np.zeros(16, np.int64)
        self._data: NDArray[np.uint8] = np.zeros(256, np.uint8)
        self._size = 0
        self._used = 0

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held, used or not."""
        return self._offsets.nbytes + self._data.nbytes

    @property
    def used_nbytes(self) -> int:
        """Bytes used."""
        return 8 * self._size + self._used

    def append(self, values: Binary) -> int:
        """Append values and return the number of the first. A null becomes an empty entry."""
        count, first = len(values), self._size
        if not count:
            return first
        where = spans(values)
        begin = int(where.start[0])
        size = int(where.start[-1] + where.length[-1]) - begin
        self._reserve(count, size)
        self._data[self._used : self._used + size] = where.data[begin : begin + size]
        ends = where.start + where.length
        ends += self._used - begin
        self._offsets[first + 1 : first + count + 1] = ends
        self._size += count
        self._used += size
        return first

    def take(self, entries: IntArray) -> Binary:
        """The values with these numbers, in their order."""
        return self._view().take(pa.array(entries)).cast(pa.binary())

    def item(self, entry: int) -> bytes:
        """One value."""
        return self._data[self._offsets.item(entry) : self._offsets.item(entry + 1)].tobytes()

    def lengths(self, entries: IntArray) -> IntArray:
        """The length of each of these entries in bytes."""
        return self._offsets[entries + 1] - self._offsets[entries]

    def heads(self, entries: IntArray) -> IntArray:
        """The numbers in the first 4 bytes of these entries."""
        return items_at(self._data, self._offsets[entries], ">i4").astype(np.int64)

    def keep(self, entries: IntArray) -> None:
        """Discard all other entries; these are renumbered from 0 in the given order."""
        kept = self._view().take(pa.array(entries))
        self._offsets = np.zeros(16, np.int64)
        self._data = np.zeros(256, np.uint8)
        self._size = self._used = 0
        self.append(kept)

    def _view(self) -> Any:
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        return pa.LargeBinaryArray.from_buffers(_LARGE, self._size, buffers)

    def _reserve(self, count: int, size: int) -> None:
        if self._size + count + 1 > len(self._offsets):
            self._offsets = _grown(self._offsets, self._size + 1, self._size + count + 1)
        if self._used + size > len(self._data):
            self._data = _grown(self._data, self._used, self._used + size)


def _grown(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """Return the array with room for half as much again as needed, so that many small appends stay cheap."""
    grown = np.empty(needed + needed // 2 + 16, array.dtype)
    grown[:used] = array[:used]
    return grown

"""A hash index made of arrays: many keys are found at once, with no Python per key.

Open addressing with linear probing. A look-up of n keys takes a few numpy calls over n elements, and a few more over
the shrinking rest whose first place holds another key.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import HashArray, IntArray

_SMALLEST = 64


class HashIndex:
    """A map from 64-bit hashes to row numbers 0, 1, 2, ... in the order of insertion.

    Rows of equal hashes may exist side by side: ``find`` returns the first candidate at or after a probe position; the
    caller, who has the keys, compares them and continues if they differ (see ``RowTable``).
    """

    __slots__ = ("_hashes", "_mask", "_rows", "size")

    def __init__(self) -> None:
        self._mask = _SMALLEST - 1
        self._rows: NDArray[np.int32] = np.full(_SMALLEST, -1, np.int32)
        self._hashes: HashArray = np.zeros(_SMALLEST, np.uint64)
        self.size = 0

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._hashes.nbytes

    def hashes(self) -> HashArray:
        """The hashes of all rows."""
        return self._hashes[: self.size]

    def home(self, hashes: HashArray) -> IntArray:
        """The position where the probing for each hash begins."""
        return (hashes & np.uint64(self._mask)).astype(np.int64)

    def find(self, hashes: HashArray, probe: IntArray) -> tuple[IntArray, IntArray]:
        """For each hash, the first row with it at or after its probe position, or -1; and the position."""
        rows = self._rows[probe].astype(np.int64)
        found = np.where(rows < 0, True, self._hashes[rows] == hashes)
        if found.all():
            return rows, probe
        at = probe.copy()
        todo = np.flatnonzero(~found)
        wanted = hashes[todo]
        while todo.size:
            at[todo] = (at[todo] + 1) & self._mask
            row = self._rows[at[todo]]
            settled = (row < 0) | (self._hashes[row] == wanted)
            rows[todo[settled]] = row[settled]
            todo, wanted = todo[~settled], wanted[~settled]
        return rows, at

    def find_one(self, hash_: int) -> Iterator[int]:
        """Yield the rows with a hash, one after the other."""
        at = hash_ & self._mask
        while (row := self._rows.item(at)) >= 0:
            if self._hashes.item(row) == hash_:
                yield row
            at = (at + 1) & self._mask

    def after(self, places: IntArray) -> IntArray:
        """The next probe positions after these."""
        return (places + 1) & self._mask

    def add(self, hashes: HashArray) -> IntArray:
        """Add rows for these hashes and return their numbers, from ``size`` on."""
        first, count = self.size, len(hashes)
        self._reserve(first + count)
        self._hashes[first : first + count] = hashes
        self.size += count
        rows = np.arange(first, first + count)
        self._place(rows)
        return rows

    def _reserve(self, size: int) -> None:
        if size > len(self._hashes):
            grown = np.zeros(size + size // 2, np.uint64)
            grown[: self.size] = self._hashes[: self.size]
            self._hashes = grown
        if 2 * size > self._mask:
            capacity = self._mask + 1
            while capacity < 3 * size:
                capacity *= 2
            self._mask = capacity - 1
            self._rows = np.full(capacity, -1, np.int32)
            self._place(np.arange(self.size))

    def _place(self, rows: IntArray) -> None:
        """Put rows into free places. If several want the same place, one gets it and the others probe further."""
        at = self.home(self._hashes[rows])
        while rows.size:
            free = self._rows[at] < 0
            self._rows[at[free]] = rows[free]
            settled = self._rows[at] == rows
            rows, at = rows[~settled], (at[~settled] + 1) & self._mask

"""A filter of hashes: one look into a table of flags tells most hashes that are new from those that may be known."""

from __future__ import annotations

import numpy as np

from penstock.arrays import BoolArray, HashArray

_SMALLEST = 1024
_ROOM = 16
"""Flags for each hash at the beginning; with half as many left the filter is full."""


class HashFilter:
    """Knows of hashes that they are new; of the others it does not know, and about one in ten is new all the same.

    >>> known = HashFilter(np.array([3, 5], np.uint64))
    >>> known.may_have(np.array([3, 4], np.uint64)).tolist()
    [True, False]
    """

    __slots__ = ("_flags", "_size")

    def __init__(self, hashes: HashArray):
        capacity = _SMALLEST
        while capacity < _ROOM * len(hashes):
            capacity *= 2
        self._flags = np.zeros(capacity, np.bool_)
        self._size = 0
        self.add(hashes)

    @property
    def nbytes(self) -> int:
        return self._flags.nbytes

    @property
    def is_full(self) -> bool:
        """Whether a filter made anew would tell more."""
        return self._size * _ROOM > 2 * len(self._flags)

    def add(self, hashes: HashArray) -> None:
        """Take up more hashes."""
        self._flags[self._places(hashes)] = True
        self._size += len(hashes)

    def may_have(self, hashes: HashArray) -> BoolArray:
        """Which hashes may be here; the others are not."""
        return self._flags[self._places(hashes)]

    def _places(self, hashes: HashArray) -> HashArray:
        return hashes & np.uint64(len(self._flags) - 1)

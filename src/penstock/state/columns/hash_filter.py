"""A filter of hashes: one look-up in a table of flags proves that most unknown hashes are new."""

from __future__ import annotations

import numpy as np

from penstock.arrays import BoolArray, HashArray

_SMALLEST = 1024
_ROOM = 16
"""Initial number of flags per hash; at half of that the filter is full."""


class HashFilter:
    """Proves that hashes are new. For the others it proves nothing; about one in ten new hashes is among them.

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
        """True if a larger filter would prove more."""
        return self._size * _ROOM > 2 * len(self._flags)

    def add(self, hashes: HashArray) -> None:
        """Add hashes."""
        self._flags[self._places(hashes)] = True
        self._size += len(hashes)

    def may_have(self, hashes: HashArray) -> BoolArray:
        """True for hashes that may be known; the others are certainly new."""
        return self._flags[self._places(hashes)]

    def _places(self, hashes: HashArray) -> HashArray:
        return hashes & np.uint64(len(self._flags) - 1)

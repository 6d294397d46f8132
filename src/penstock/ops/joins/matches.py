"""Records and their partners in time windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.rows import Rows

_FAR = 2**62
"""The longest common line; if the lines of all keys together are longer, they are made of the numbers of times
instead."""


@dataclass(frozen=True, slots=True)
class Matches(Rows):
    """Pairs of records and partners, sorted by record, then by the partner's time and arrival."""

    row: IntArray
    partner: IntArray
    """The index of the partner among the values: first the chunk's records, then the store's."""
    time: IntArray
    """The partner's timestamp."""

    @classmethod
    def none(cls) -> Matches:
        return cls(*(np.zeros(0, np.int64) for _ in range(3)))


class Timelines(NamedTuple):
    """Records on one time line for each key.

    The lines are laid end to end on a single line, so that one binary search finds key and time together:

        key 0                key 1                key 2
        |--x----x-x--------| |-------x----------| |x-----------x-----|
    """

    place: IntArray
    """The place of each record on the single line; ascending."""
    time: IntArray
    arrival: IntArray
    """The row of each record in the chunk; -1 for records from earlier chunks."""
    number: IntArray
    first: int
    """The time at which each line begins."""
    length: int
    ranks: IntArray | None = None
    """All distinct times, sorted, if the times are too far apart: then lines consist of indexes into them."""

    @classmethod
    def of(cls, codes: IntArray, times: IntArray, arrival: IntArray, number: IntArray) -> Timelines:
        """Sort records by the numbers of their keys and their times; records of the same key and time keep their order.

        >>> zero = np.zeros(3, np.int64)
        >>> lines = Timelines.of(np.array([1, 0, 1]), np.array([20, 10, 12]), zero, np.arange(3))
        >>> asked, at = lines.between(np.array([1, 0]), np.array([11, 11]), np.array([20, 99]))
        >>> asked.tolist(), lines.number[at].tolist()
        ([0, 0], [2, 0])
        """
        first, length = int(times.min()), int(times.max()) - int(times.min()) + 2
        order = np.lexsort((times, codes))
        ordered = times[order], arrival[order], number[order]
        if length < _FAR // (int(codes.max()) + 1):
            return cls(codes[order] * length + times[order] - first, *ordered, first, length)
        ranks = np.unique(times)
        place = codes[order] * (len(ranks) + 1) + np.searchsorted(ranks, times[order])
        return cls(place, *ordered, 0, len(ranks) + 1, ranks)

    def between(self, codes: IntArray, earliest: IntArray, latest: IntArray) -> tuple[IntArray, IntArray]:
        """Find the records of keys between two times, both included: the index of the query and of the record, in
        order."""
        start = codes * self.length
        earliest, latest = np.maximum(earliest, 0), np.maximum(latest, 0)
        if self.ranks is None:
            low = np.clip(earliest - self.first, 0, self.length - 1)
            high = np.clip(latest - self.first, -1, self.length - 2)
        else:
            low, high = np.searchsorted(self.ranks, earliest), np.searchsorted(self.ranks, latest, "right") - 1
        begin = np.searchsorted(self.place, start + low)
        counts = np.maximum(np.searchsorted(self.place, start + high, "right") - begin, 0)
        asked = np.repeat(np.arange(len(codes)), counts)
        at = begin[asked] + np.arange(len(asked)) - (np.cumsum(counts) - counts)[asked]
        return asked, at

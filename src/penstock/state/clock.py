"""Stream time: the highest timestamp an operator has seen so far, record by record."""

from __future__ import annotations

import numpy as np

from penstock.arrays import LATEST, IntArray


class StreamTime:
    """One operator's observed stream time; -1 before the first record.

    >>> time = StreamTime()
    >>> time.advance(np.array([5, 3, 9])).tolist(), time.now
    ([5, 5, 9], 9)
    """

    __slots__ = ("_committed", "now")

    def __init__(self) -> None:
        self.now = -1
        self._committed = -1

    def advance(self, timestamps: IntArray) -> IntArray:
        """Return the stream time at each of these records, including the record itself."""
        times = np.maximum(np.maximum.accumulate(timestamps), self.now)
        if times.size:
            self.now = int(times[-1])
        return times

    def go_on(self, duration: int) -> None:
        """Advance by a duration without a record; if no record has set the time yet, it stays unset."""
        if self.now >= 0:
            self.now = min(self.now + duration, LATEST)

    def commit(self) -> None:
        self._committed = self.now

    def rollback(self) -> None:
        self.now = self._committed

    def restore(self, now: int) -> None:
        self.now = self._committed = now

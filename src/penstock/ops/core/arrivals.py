"""The input records of a chunk, and the stream time at each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import Batch
from penstock.state.clock import StreamTime


@dataclass(frozen=True)
class Arrivals:
    """The input records of a chunk, in processing order.

    >>> arrivals = Arrivals(np.array([3, 4, 7]), np.array([10, 10, 25]), before=5)
    >>> arrivals.time_at(4), arrivals.time_at(6), arrivals.time_at(2)
    (10, 10, 5)
    >>> arrivals.first_at(11), arrivals.first_at(26)
    (7, None)
    """

    positions: IntArray
    times: IntArray
    """The stream time when each record is processed."""
    before: int
    """The stream time before the first record; -1 if no record has arrived yet."""

    @classmethod
    def of(cls, batches: Iterable[Batch], clock: StreamTime) -> Arrivals:
        """Collect the records that a task's sources emitted, and advance the task's stream time."""
        every = list(batches)
        before = clock.now
        if not every:
            return NO_ARRIVALS
        positions = np.concatenate([batch.position for batch in every])
        timestamps = np.concatenate([batch.timestamp for batch in every])
        if len(every) > 1:
            order = np.argsort(positions, kind="stable")
            positions, timestamps = positions[order], timestamps[order]
        return cls(positions, clock.advance(timestamps), before)

    def time_at(self, position: int) -> int:
        """The stream time when the record at a position is processed."""
        row = int(self.positions.searchsorted(position, "right")) - 1
        return int(self.times[row]) if row >= 0 else self.before

    def first_at(self, time: int) -> int | None:
        """The position of the record that brings stream time to ``time`` or beyond; None if no record of the chunk
        does."""
        row = int(self.times.searchsorted(time))
        return int(self.positions[row]) if row < len(self.times) else None


NO_ARRIVALS = Arrivals(np.zeros(0, np.int64), np.zeros(0, np.int64), -1)

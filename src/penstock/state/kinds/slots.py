"""Stores whose rows hold what a key has in a stretch of time, a slot."""

from __future__ import annotations

import numpy as np

from penstock.arrays import IntArray
from penstock.durations import MAX_MS
from penstock.state.kinds.segments import SegmentedStore


class SlottedStore(SegmentedStore):
    """A row for each key and slot, so that what lies around a record is found with a look-up or two and no scan.

    A segment is a number of slots.
    """

    _slot_width: int
    """Milliseconds that one slot covers."""
    _slots_a_segment: int

    def _slots(self, times: IntArray) -> IntArray:
        """The numbers of the slots that times belong to, ascending with the time."""
        within = times % self.segment_interval // self._slot_width
        return times // self.segment_interval * self._slots_a_segment + within

    def _slots_between(self, earliest: int, latest: int) -> tuple[int, int]:
        """The first and the last slot of a range of time, as far as stream time has come."""
        latest = min(latest, max(self.observed_stream_time, 0))
        first, last = self._slots(np.array([min(earliest, MAX_MS), latest])).tolist()
        return first, last

    def _segment_ids(self, times: IntArray) -> IntArray:
        return times // self._slots_a_segment

    def approximate_rows(self) -> int:
        """How many entries the rows hold that can be seen, about."""
        earliest = max(self.earliest_visible, 0)
        [slot] = self._slots(np.array([earliest])).tolist()
        segments = self._segments.items()
        return sum(one.approximate_entries(slot, earliest, self.visible_share(id_)) for id_, one in segments)

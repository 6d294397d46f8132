"""Stores in which a row holds all entries of a key in a stretch of time, a slot."""

from __future__ import annotations

import numpy as np

from penstock.arrays import IntArray
from penstock.state.kinds.segments import SegmentedStore
from penstock.values.durations import MAX_MS


class SlottedStore(SegmentedStore):
    """A row for each key and slot, so that one or two look-ups find the entries around a record, without a scan.

    A segment consists of several slots.
    """

    _slot_width: int
    """Milliseconds that one slot covers."""
    _slots_a_segment: int

    def _slots(self, times: IntArray) -> IntArray:
        """The slot numbers of times, ascending with the time."""
        within = times % self.segment_interval // self._slot_width
        return times // self.segment_interval * self._slots_a_segment + within

    def slots_of(self, times: IntArray) -> IntArray:
        """The slots of times."""
        return self._slots(times)

    def times_in(self, slot: int) -> tuple[int, int]:
        """The first and the last time of a slot."""
        segment, within = divmod(slot, self._slots_a_segment)
        first = segment * self.segment_interval + within * self._slot_width
        return first, min(first + self._slot_width, (segment + 1) * self.segment_interval) - 1

    def _slots_between(self, earliest: int, latest: int) -> tuple[int, int]:
        """The first and the last slot of a time range, up to stream time."""
        latest = min(latest, max(self.observed_stream_time, 0))
        first, last = self._slots(np.array([min(earliest, MAX_MS), latest])).tolist()
        return first, last

    def _segment_ids(self, times: IntArray) -> IntArray:
        return times // self._slots_a_segment

    def approximate_rows(self) -> int:
        """The approximate number of visible entries."""
        earliest = max(self.earliest_visible, 0)
        [slot] = self._slots(np.array([earliest])).tolist()
        segments = self._segments.items()
        return sum(one.approximate_entries(slot, earliest, self.visible_share(id_)) for id_, one in segments)

"""Sliding windows of a chunk's records worked out at once, for the keys for which that is simple.

Which windows a key has follows from the times of its records alone: one ends at each of them, and one begins right
behind it as soon as another falls into that. So the windows that come of a chunk, and the records at which they do, are
found with a few searches in sorted times; what falls into each window is counted along the records.

That holds for a key as long as no record was too late for a part of its windows, which leaves gaps among them, and
``Disturbed`` remembers the keys for which it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.ops.groups import Groups
from penstock.state.packed import Entries

STORED = -1
_NEVER = 2**62

UPDATE = 0
"""The record is added to a window that there is."""
BEGIN = 1
"""A window begins with the record."""
GO_ON = 2
"""A window begins with the aggregate of another one, and the record is added."""
COPY = 3
"""A window behind the record begins with what the first window of the record's updates had before."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of some keys, in processing order."""

    owner: IntArray
    """The number of the key."""
    time: IntArray

    def __len__(self) -> int:
        return len(self.owner)


class Windows(NamedTuple):
    """The windows that the keys have after a chunk, sorted by key and start."""

    owner: IntArray
    start: IntArray
    since: IntArray
    """The record that made the window, ``STORED`` for those from before."""
    base: IntArray
    """Which of the stored windows has what the window has from before the chunk, -1 for none."""
    place: IntArray
    """The place among the stored windows, -1 for new ones."""


class Plan(NamedTuple):
    """All updates of windows, in the order in which they happen."""

    windows: Windows
    record: IntArray
    window: IntArray
    kind: IntArray
    source: IntArray
    """For ``GO_ON`` the other window; for ``COPY`` the number of the record's first update."""
    added: IntArray
    """How many records of the chunk are in the window after the update."""
    timestamp: IntArray


def plan_of(records: Records, stored: Entries, difference: int) -> Plan:
    """The updates of all records.

    Args:
        records: those of the keys for which all is well.
        stored: the keys' windows in the store: starts and timestamps.
        difference: of the windows.
    """
    line = _Line(records, stored, difference)
    return _Updates(line, records, line.windows(), stored, difference).plan()


def _of(numbers: IntArray, places: IntArray) -> IntArray:
    return np.where(places < 0, -1, numbers[np.maximum(places, 0)]) if len(numbers) else places


class _Line:
    """All keys' times on one line, each key with a stretch of its own."""

    def __init__(self, records: Records, stored: Entries, difference: int):
        every = np.concatenate([records.time, stored.first])
        self.low = int(every.min(initial=_NEVER)) - 2 * difference - 2
        self.span = int(every.max(initial=-_NEVER)) - self.low + 2 * difference + 4
        self.difference = difference
        self.code = self.at(records.owner, records.time)
        self.stored = self.at(stored.row, stored.first)
        self.latest = self.at(stored.row, stored.second)
        self.times, self.arrival = np.unique(self.code, return_index=True)
        """Where there are records, and the first record at each."""
        at_end = _find(self.stored, self.times - difference)
        self.known: BoolArray = (at_end >= 0) & (_of(self.latest, at_end) == self.times)
        before = self.before(self.times - difference)
        previous = np.where(at_end >= 0, _of(self.latest, at_end), _of(self.latest, before))
        self.previous: IntArray = np.where(self.known, -1, previous)
        """The time of the stored record before each new one, -1 for none, as far as it matters."""

    def at(self, owner: IntArray, time: IntArray) -> IntArray:
        return owner * self.span + (time - self.low)

    def before(self, start: IntArray) -> IntArray:
        """The last stored window of the same key that begins before these; -1 for none."""
        place = np.searchsorted(self.stored, start) - 1
        return np.where(place >= 0, np.where(_of(self.stored, place) // self.span == start // self.span, place, -1), -1)

    def windows(self) -> Windows:
        """Stored and new ones."""
        starts, since = (
            np.concatenate(parts) for parts in zip(self._left(), self._right(), self._behind(), strict=True)
        )
        new = np.flatnonzero((since < _NEVER) & (_find(self.stored, starts) < 0))
        starts, since = starts[new], since[new]
        order = np.lexsort((since, starts))
        starts, since = starts[order], since[order]
        first = np.append(True, starts[1:] != starts[:-1])[: len(starts)]
        starts, since = starts[first], since[first]
        base = self.before(starts)
        base[_of(self.latest, base) < starts] = -1
        count = len(self.stored)
        place = np.concatenate([np.arange(count), np.full(len(starts), -1)])
        base, since = np.concatenate([np.arange(count), base]), np.concatenate([np.full(count, STORED), since])
        starts = np.concatenate([self.stored, starts])
        order = np.argsort(starts, kind="stable")
        starts = starts[order]
        owner, start = starts // self.span, starts % self.span + self.low
        return Windows(owner, start, since[order], base[order], place[order])

    def _left(self) -> tuple[IntArray, IntArray]:
        """The windows that end at new records."""
        return self.times[~self.known] - self.difference, self.arrival[~self.known]

    def _right(self) -> tuple[IntArray, IntArray]:
        """The windows behind records of the chunk: there once the record and one that falls into it are."""
        base = self.before(self.times + 1)
        follows = np.where(_of(self.latest, base) > self.times, STORED, self._first_between(self.times))
        return self.times + 1, np.maximum(np.where(self.known, STORED, self.arrival), follows)

    def _behind(self) -> tuple[IntArray, IntArray]:
        """The windows behind records from before the chunk."""
        previous = self.previous[self.previous >= 0]
        return previous + 1, self._first_between(previous)

    def _first_between(self, times: IntArray) -> IntArray:
        """The first record to come that falls into the window behind a time."""
        low = np.searchsorted(self.times, times, "right")
        high = np.searchsorted(self.times, times + self.difference + 1, "right")
        return _least(self.arrival, low, high)


class _Updates:
    """Which records fall into which windows."""

    def __init__(self, line: _Line, records: Records, windows: Windows, stored: Entries, difference: int):
        self._records = records
        self._windows = windows
        self._difference = difference
        self._size = max(len(records), 1)
        self._base_time = np.where(windows.base < 0, -1, _of(stored.second, windows.base))
        starts = line.at(windows.owner, windows.start)
        low, high = np.searchsorted(starts, line.code - difference), np.searchsorted(starts, line.code, "right")
        count = high - low
        self.record = np.repeat(np.arange(len(records)), count)
        within = np.arange(len(self.record)) - np.repeat(np.cumsum(count) - count, count)
        self.window = high[self.record] - 1 - within  # those that begin last come first
        groups = Groups.by_number(self.window)
        self._added = groups.running_count()
        latest = groups.running_max(records.time[self.record][groups.order])
        self._latest = np.maximum(latest, self._base_time[groups.numbers][groups.group]) if len(latest) else latest
        self._place = self.window[groups.order] * self._size + self.record[groups.order]
        self._unsort = groups.unsort
        self._starts = starts
        self._span = line.span

    def plan(self) -> Plan:
        windows, time = self._windows, self._records.time
        since = windows.since[self.window]
        there = np.flatnonzero(since <= self.record)
        record, window, since = self.record[there], self.window[there], since[there]
        kind = np.where(since < record, UPDATE, BEGIN)
        source = np.full(len(there), -1)
        ends = np.flatnonzero((kind == BEGIN) & (windows.start[window] == time[record] - self._difference))
        source[ends], twice = self._goes_on(window[ends], record[ends])
        kind[source >= 0] = GO_ON
        again = np.sort(np.concatenate([np.arange(len(there)), ends[twice]]))
        record, window, kind, source, there = (column[again] for column in (record, window, kind, source, there))
        added, timestamp = self._unsort(self._added)[there], self._unsort(self._latest)[there]
        copy = np.flatnonzero(windows.since >= 0)
        copy = copy[windows.start[copy] == time[windows.since[copy]] + 1]
        copied = windows.since[copy]
        added_then, timestamp_then = self._before(copy, copied)
        record, window = np.concatenate([record, copied]), np.concatenate([window, copy])
        kind = np.concatenate([kind, np.full(len(copy), COPY)])
        source = np.concatenate([source, np.full(len(copy), -1)])
        order = np.argsort(record * 3 + np.array([0, 1, 1, 2])[kind], kind="stable")
        record, kind, source = record[order], kind[order], source[order]
        copies = np.flatnonzero(kind == COPY)
        source[copies] = np.searchsorted(record, record[copies])
        added = np.concatenate([added, added_then])[order]
        return Plan(
            windows, record, window[order], kind, source, added, np.concatenate([timestamp, timestamp_then])[order]
        )

    def _goes_on(self, window: IntArray, record: IntArray) -> tuple[IntArray, BoolArray]:
        """The windows whose aggregates those begin with that end at new records, -1 for none; and which of the new
        ones Kafka Streams makes twice, since they begin right behind the last record of that other window."""
        found, owner = window - 1, self._windows.owner[window]
        while True:
            inside = found >= 0
            inside[inside] = self._windows.owner[found[inside]] == owner[inside]
            found = np.where(inside, found, -1)
            later = np.flatnonzero(inside & (self._windows.since[found] >= record))
            if not later.size:
                break
            found[later] -= 1
        latest = self._before(np.maximum(found, 0), record)[1] if len(found) else found
        start = self._windows.start[window]
        twice = (found >= 0) & (latest == start - 1)
        twice[twice] = self._windows.start[found[twice]] >= start[twice] - self._difference
        return np.where((found >= 0) & (latest >= start), found, -1), twice

    def _before(self, window: IntArray, record: IntArray) -> tuple[IntArray, IntArray]:
        """How many records of the chunk windows have before a record, and their timestamps then."""
        first = np.searchsorted(self._place, window * self._size)
        place = np.searchsorted(self._place, window * self._size + record)
        timestamp = self._base_time[window]
        some = np.flatnonzero(place > first)
        timestamp[some] = self._latest[place[some] - 1]
        return place - first, timestamp


def _find(ordered: IntArray, wanted: IntArray) -> IntArray:
    """Where numbers are among ordered ones; -1 where they are not."""
    place = np.searchsorted(ordered, wanted)
    inside = np.flatnonzero(place < len(ordered))
    found = np.full(len(wanted), -1)
    same = inside[ordered[place[inside]] == wanted[inside]]
    found[same] = place[same]
    return found


def _least(values: IntArray, low: IntArray, high: IntArray) -> IntArray:
    """The least of the values in each of several ranges; a very large number where a range is empty."""
    least = np.full(len(low), _NEVER)
    length, level, width = high - low, values, 1
    while True:
        fits = np.flatnonzero((length >= width) & (length < 2 * width))
        least[fits] = np.minimum(level[low[fits]], level[high[fits] - width])
        if not (length >= 2 * width).any():
            return least
        level, width = np.minimum(level[:-width], level[width:]), 2 * width

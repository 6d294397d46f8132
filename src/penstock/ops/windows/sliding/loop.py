"""Sliding windows record by record: what a record changes in the windows of its key, as Kafka Streams does it."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.arrays import IntArray
from penstock.batch import Batch
from penstock.ops.windows.sessions.fold import SessionFold
from penstock.state.kinds.sliding import SlidingStore

Window = tuple[Any, int]
"""The aggregate of a window and its timestamp, that of its latest record."""


@dataclass(slots=True)
class KeyWindows:
    """The windows of one key while its records are processed."""

    starts: list[int] = field(default_factory=list)
    """Ascending."""
    windows: dict[int, Window] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)

    def put(self, start: int, window: Window | None) -> None:
        self.changed.add(start)
        if window is None:
            if self.windows.pop(start, None) is not None:
                self.starts.remove(start)
        else:
            if start not in self.windows:
                insort(self.starts, start)
            self.windows[start] = window


@dataclass(slots=True)
class Updates:
    """What came of a chunk's records, in the order of processing."""

    row: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    new: list[Any] = field(default_factory=list)
    old: list[Any] = field(default_factory=list)
    is_there: list[bool] = field(default_factory=list)
    """Whether the window was there before."""
    timestamp: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    """Rows of records for closed windows, once for each window."""
    not_stored: list[int] = field(default_factory=list)
    """Rows of records whose windows are too old for the store, once for each window."""
    failed: list[tuple[int, BaseException]] = field(default_factory=list)


class Processing:
    """The records of a chunk, processed one by one; ``stream_time`` is that of the store."""

    def __init__(self, fold: SessionFold, difference: int, store: SlidingStore, keeps_all: bool, updates: Updates):
        self.stream_time = store.observed_stream_time
        self._fold = fold
        self._difference = difference
        self._retention = store.retention
        self._refused_before = store.refused_before
        self._keeps_all = keeps_all
        self._updates = updates

    def run(
        self,
        batch: Batch,
        rows: IntArray,
        codes: IntArray,
        held: dict[int, KeyWindows],
        closed_at: IntArray,
    ) -> None:
        """Process some records.

        Args:
            batch: the chunk.
            rows: which of its records.
            codes: the number of the key of each record.
            held: the windows of these keys.
            closed_at: the close time at each record.
        """
        if not len(rows):
            return
        keys, values = self._fold.keys(batch), self._fold.values(batch)
        columns = (rows, batch.timestamp[rows], codes[rows], closed_at[rows])
        for row, time, code, closed in zip(*(column.tolist() for column in columns), strict=True):
            windows = held[code]
            one = _Record(self._fold, self._difference, keys[row], values[row], time, closed)
            first = max(0, time - 2 * self._difference, self.stream_time - self._retention + 1)
            around = windows.starts[bisect_left(windows.starts, first) : bisect_left(windows.starts, time + 2)]
            try:
                if time < self._difference:
                    one.process_early(around, windows.windows)
                else:
                    one.process(around, windows.windows)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._updates.failed.append((row, error))
                continue
            self._apply(row, one, windows)

    def _apply(self, row: int, one: _Record, windows: KeyWindows) -> None:
        """Take over what came of a record."""
        updates = self._updates
        updates.late += [row] * one.closed
        for start, window, old in one.puts:
            self.stream_time = max(self.stream_time, start)
            updates.is_there.append(start in windows.windows)
            expired = start < self.stream_time - self._retention + 1
            if expired and start < self._refused_before(np.array([self.stream_time]))[0]:
                updates.not_stored.append(row)
            if not expired or self._keeps_all:
                windows.put(start, None if window[0] is None else window)
            updates.row.append(row)
            updates.start.append(start)
            updates.new.append(window[0])
            updates.old.append(old)
            updates.timestamp.append(window[1])


class _Record:
    """One record on its way through the windows of its key; ``puts`` are (start, window, old aggregate)."""

    __slots__ = ("_closed_at", "_difference", "_fold", "_key", "_time", "_value", "closed", "puts")

    def __init__(self, fold: SessionFold, difference: int, key: Any, value: Any, time: int, closed_at: int):
        self._fold = fold
        self._difference = difference
        self._key = key
        self._value = value
        self._time = time
        self._closed_at = closed_at
        self.puts: list[tuple[int, Window, Any]] = []
        self.closed = 0

    def process(self, around: list[int], windows: dict[int, Window]) -> None:
        """A record that is not earlier than the difference; windows are visited from the latest on."""
        time = self._time
        left: Window | None = None
        right: Window | None = None
        has_left = has_right = False
        previous: int | None = None
        for start in reversed(around):
            window, end = windows[start], start + self._difference
            if start == time + 1:
                has_right = True
            elif end > time:
                right = right or window
                self._update(start, window)
            elif end == time:
                has_left = True
                self._update(start, window)
                if window[1] >= time:
                    return
                previous = window[1]
            else:
                left, previous = window, window[1]
                break
        self._create(around, left, right, has_left, has_right, previous)

    def _create(
        self,
        around: list[int],
        left: Window | None,
        right: Window | None,
        has_left: bool,
        has_right: bool,
        previous: int | None,
    ) -> None:
        """The right window of the record before, and the left and the right one of this record."""
        time, difference = self._time, self._difference
        if previous is not None and previous + 1 not in around and previous + 1 + difference >= time:
            self._update(previous + 1, None)
        if not has_left:
            is_within = previous is not None and time - difference <= previous
            self._update(time - difference, (left[0], time) if left is not None and is_within else None)
        if not has_right and right is not None and right[1] > time:
            self.puts.append((time + 1, right, None))

    def process_early(self, around: list[int], windows: dict[int, Window]) -> None:
        """A record earlier than the difference: no window begins before 0, so all of these share the one from 0 on."""
        time = self._time
        combined: Window | None = None
        right: Window | None = None
        previous: int | None = None
        for start in around:
            window = windows[start]
            if start == 0:
                combined = window
                previous = window[1] if window[1] < time else None
            elif start <= time:
                right = window
                self._update(start, window)
        if right is None and combined is not None and combined[1] > time:
            right = combined
        if time + 1 not in around and right is not None and right[1] > time:
            self.puts.append((time + 1, right, None))
        if previous is not None and previous + 1 not in around:
            self._update(previous + 1, None)
        self._update(0, combined)

    def _update(self, start: int, window: Window | None) -> None:
        """Add the record to a window, or to a new one."""
        if start + self._difference < self._closed_at:
            self.closed += 1
            return
        old = self._fold.initial() if window is None else window[0]
        timestamp = self._time if window is None else max(self._time, window[1])
        new = self._fold.add(self._key, self._value, old)
        self.puts.append((start, (new, timestamp), old))

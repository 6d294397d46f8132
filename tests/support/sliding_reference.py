"""Sliding windows as Kafka Streams' text has them, record by record and as plainly as can be, to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Window = tuple[Any, int]
"""The aggregate of a window and its timestamp, that of its latest record."""


@dataclass
class Reference:
    """Processes records; ``updates`` are (key, start, new, timestamp), ``late`` and ``not_stored`` numbers of records.

    Args:
        add: gives the aggregate of a value and the aggregate before, which is None at first.
        refused_before: what the store refuses at a stream time, and does not just hide.
    """

    difference: int
    grace: int
    retention: int
    add: Callable[[Any, Any], Any]
    refused_before: Callable[[int], int]
    windows: dict[str, dict[int, Window]] = field(default_factory=dict)
    updates: list[tuple[str, int, Any, int]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    not_stored: list[int] = field(default_factory=list)
    observed: int = -1
    stream_time: int = -1
    """Of the store: the latest start that was put."""
    records: int = 0

    def process(self, key: str, value: Any, time: int) -> None:
        self.observed = max(self.observed, time)
        self._closed_at = self.observed - self.grace
        self._puts: list[tuple[int, Window]] = []
        self._value, self._time = value, time
        windows = self.windows.setdefault(key, {})
        first = max(0, time - 2 * self.difference, self.stream_time - self.retention + 1)
        around = {start: windows[start] for start in sorted(windows) if first <= start <= time + 1}
        if time + self.difference < self._closed_at:
            self.late.append(self.records)
        elif time < self.difference:
            self._early(around)
        else:
            self._reverse(around)
        for start, window in self._puts:
            self.stream_time = max(self.stream_time, start)
            self.updates.append((key, start, *window))
            if start > self.stream_time - self.retention:
                windows[start] = window
            elif start < self.refused_before(self.stream_time):
                self.not_stored.append(self.records)
        self.records += 1

    def _reverse(self, around: dict[int, Window]) -> None:
        """A record that is not earlier than the difference."""
        time = self._time
        left: Window | None = None
        right: Window | None = None
        has_left = has_right = False
        previous: int | None = None
        for start, window in reversed(around.items()):
            end = start + self.difference
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
        if previous is not None and previous + 1 not in around and previous + 1 + self.difference >= time:
            self._update(previous + 1, None)
        if not has_left:
            is_within = previous is not None and time - self.difference <= previous
            self._update(time - self.difference, (left[0], time) if left is not None and is_within else None)
        if not has_right and right is not None and right[1] > time:
            self._puts.append((time + 1, right))

    def _early(self, around: dict[int, Window]) -> None:
        """A record earlier than the difference: no window begins before 0, so all of these share the one from 0 on."""
        time = self._time
        combined: Window | None = None
        right: Window | None = None
        previous: int | None = None
        for start, window in around.items():
            if start == 0:
                combined = window
                previous = window[1] if window[1] < time else None
            elif start <= time:
                right = window
                self._update(start, window)
        if right is None and combined is not None and combined[1] > time:
            right = combined
        if time + 1 not in around and right is not None and right[1] > time:
            self._puts.append((time + 1, right))
        if previous is not None and previous + 1 not in around:
            self._update(previous + 1, None)
        self._update(0, combined)

    def _update(self, start: int, window: Window | None) -> None:
        """Add the record to a window, or to a new one."""
        if start + self.difference < self._closed_at:
            self.late.append(self.records)
            return
        aggregate, timestamp = window or (None, self._time)
        self._puts.append((start, (self.add(aggregate, self._value), max(self._time, timestamp))))

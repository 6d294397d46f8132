"""Which windows records fall into, as columns: of one size, without an end, of the calendar, of a user's class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray, numbered, shifted
from penstock.ops.core.functions import row_numbers
from penstock.plan.own_windows import OwnWindows
from penstock.plan.windows import TimeWindows, UnlimitedWindows
from penstock.values.window_ends import Calendar


class Assigned(NamedTuple):
    """The windows of records, each as a row of its own, in the order of the records and of the starts."""

    row: IntArray
    """The record's row."""
    start: IntArray
    within: IntArray
    """The number of the window among those of its record."""
    failed: list[tuple[int, Exception]]
    """The rows for which a function of the user's failed, which have no windows."""


class Windowing(ABC):
    """Which windows there are at a time, and where they end."""

    longest: int
    """The length of the longest window."""
    overlap: bool
    """Whether a record may be in several windows."""

    @abstractmethod
    def assign(self, timestamps: IntArray) -> Assigned:
        """All windows of all records."""

    @abstractmethod
    def ends(self, start: IntArray) -> IntArray:
        """The ends of windows."""

    def is_open(self, start: IntArray, closed_at: IntArray) -> BoolArray:
        """True for windows that have not closed yet."""
        is_open: BoolArray = self.ends(start) > closed_at
        return is_open

    def numbers(self, start: IntArray, groups: int) -> IntArray:
        """Small numbers of windows, with room for one value per pair of a window and one of ``groups`` groups."""
        return numbered(start, groups)[0]


class Equal(Windowing):
    """Windows of one size, one after every advance."""

    def __init__(self, windows: TimeWindows):
        self.longest = windows.size_ms
        self._advance = windows.advance_ms
        self.overlap = self._advance < self.longest

    def assign(self, timestamps: IntArray) -> Assigned:
        size, advance = self.longest, self._advance
        if not self.overlap:
            count = len(timestamps)
            return Assigned(np.arange(count), timestamps - timestamps % size, np.zeros(count, np.int64), [])
        first = np.maximum(timestamps - size + advance, 0) // advance * advance
        row, within = row_numbers((timestamps - first) // advance + 1)
        return Assigned(row, first[row] + within * advance, within, [])

    def ends(self, start: IntArray) -> IntArray:
        return shifted(start, self.longest)

    def is_open(self, start: IntArray, closed_at: IntArray) -> BoolArray:
        is_open: BoolArray = start > closed_at - self.longest  # also for those that end past the largest time
        return is_open

    def numbers(self, start: IntArray, groups: int) -> IntArray:
        return numbered(start // self._advance, groups)[0]


class Endless(Windowing):
    """The one window that has no end."""

    overlap = False

    def __init__(self, windows: UnlimitedWindows):
        self.longest = windows.size_ms
        self._start = windows.start_ms

    def assign(self, timestamps: IntArray) -> Assigned:
        row = np.flatnonzero(timestamps >= self._start)
        return Assigned(row, np.full(len(row), self._start), np.zeros(len(row), np.int64), [])

    def ends(self, start: IntArray) -> IntArray:
        return shifted(start, self.longest)

    def is_open(self, start: IntArray, closed_at: IntArray) -> BoolArray:
        return np.ones(len(start), np.bool_)


class OfCalendar(Windowing):
    """Days, weeks or months of a time zone."""

    overlap = False

    def __init__(self, calendar: Calendar):
        self.longest = calendar.longest
        self._calendar = calendar

    def assign(self, timestamps: IntArray) -> Assigned:
        count = len(timestamps)
        return Assigned(np.arange(count), self._calendar.starts_of(timestamps), np.zeros(count, np.int64), [])

    def ends(self, start: IntArray) -> IntArray:
        return self._calendar.all_of(start)


class OfUser(Windowing):
    """The windows of a class of the user's, which is asked once for each time of a chunk."""

    overlap = True

    def __init__(self, windows: OwnWindows):
        self.longest = windows.size_ms
        self._windows = windows

    def assign(self, timestamps: IntArray) -> Assigned:
        times, place = np.unique(timestamps, return_inverse=True)
        starts: list[list[int]] = []
        errors: dict[int, Exception] = {}
        for number, time in enumerate(times.tolist()):
            try:
                starts.append(self._starts(time))
            except Exception as error:
                errors[number] = error
                starts.append([])
        counts = np.array([len(one) for one in starts], np.int64)
        row, within = row_numbers(counts[place])
        flat = np.array([start for one in starts for start in one], np.int64)
        first = np.cumsum(counts) - counts
        failed = (
            [(at, errors[number]) for at, number in enumerate(place.tolist()) if number in errors] if errors else []
        )
        return Assigned(row, flat[first[place[row]] + within], within, failed)

    def ends(self, start: IntArray) -> IntArray:
        return self._windows.ends.all_of(start)

    def _starts(self, time: int) -> list[int]:
        """The starts of the windows at a time, whose ends follow from their starts."""
        spans = self._windows.spans(time)
        for start, end in spans:
            known = self._windows.ends.of(start)
            if known != end:
                raise ValueError(
                    f"windows_for({time}) gives a window from {start} to {end}, and windows_for({start}) one from "
                    f"there to {known}; a window has one end, whichever time is asked for"
                )
        return [start for start, _ in spans]


def windowing_of(windows: TimeWindows | UnlimitedWindows | OwnWindows) -> Windowing:
    """How windows of this kind are found."""
    if isinstance(windows, TimeWindows):
        return Equal(windows)
    if isinstance(windows, UnlimitedWindows):
        return Endless(windows)
    return OfUser(windows) if windows.calendar is None else OfCalendar(windows.calendar)

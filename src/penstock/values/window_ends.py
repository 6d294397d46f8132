"""Where windows end, by where they begin: windows of one size, of the calendar, and of a class of the user's.

The bytes of a windowed key hold the start of its window, as in Kafka Streams; its end follows from one of these rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

import numpy as np

from penstock.arrays import IntArray, shifted
from penstock.errors import ConfigError, SerdeError
from penstock.values.durations import MAX_MS

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LONGEST_MS = {unit: days * DAY_MS + 8 * HOUR_MS for unit, days in (("day", 1), ("week", 7), ("month", 31))}
"""The most that a zone has moved its clocks back since 1970 is 7 hours (Antarctica/Vostok, 1994)."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_ONE_DAY = timedelta(days=1)
_CYCLE_MS = 146_097 * DAY_MS
"""400 years of the Gregorian calendar, after which dates and weekdays repeat."""
_FAR_MS = (datetime(9500, 1, 1, tzinfo=UTC) - _EPOCH) // _MS
"""Later times are moved back by whole cycles, since Python's dates end with the year 9999."""


class WindowEnds(ABC):
    """Where windows end, by where they begin."""

    name: str
    """How it is written in the names of types, and in the formats of stores."""
    longest: int
    """The length of the longest window, in milliseconds."""

    @abstractmethod
    def of(self, start: int) -> int:
        """The end of the window that begins at a time."""

    def all_of(self, starts: IntArray) -> IntArray:
        """The ends of a column of windows."""
        found, place = np.unique(starts, return_inverse=True)
        ends: IntArray = np.array([self.of(start) for start in found.tolist()], np.int64)[place]
        return ends

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WindowEnds) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Sized(WindowEnds):
    """Windows of one size.

    >>> Sized(10).of(5), Sized(10).of(MAX_MS - 3) == MAX_MS
    (15, True)
    """

    def __init__(self, size: int):
        self.longest = size
        self.name = str(size)

    def of(self, start: int) -> int:
        return min(start, MAX_MS - self.longest) + self.longest

    def all_of(self, starts: IntArray) -> IntArray:
        return shifted(starts, self.longest)


@dataclass(frozen=True, eq=False)
class Calendar(WindowEnds):
    """Days, weeks or months of a time zone: from midnight to midnight there, summer time included.

    A day without a midnight begins when the clocks go forward; of two midnights the first one counts.

    >>> berlin = Calendar("day", "Europe/Berlin")
    >>> start = berlin.start_of(1_774_742_400_000)  # 29 March 2026, 00:00 UTC, the day when summer time begins
    >>> (berlin.of(start) - start) // HOUR_MS
    23
    """

    unit: str
    zone: str
    first_day: int = 0
    """The weekday with which weeks begin; 0 is Monday."""

    def __post_init__(self) -> None:
        _zone(self.zone)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.unit} {self.zone}" + (f" {WEEKDAYS[self.first_day]}" if self.unit == "week" else "")

    @property
    def longest(self) -> int:  # type: ignore[override]
        return _LONGEST_MS[self.unit]

    def of(self, start: int) -> int:
        return _next(self, start)

    def start_of(self, time: int) -> int:
        """The start of the window that a time is in."""
        return _boundaries(self, time // DAY_MS, time)

    def starts_of(self, times: IntArray) -> IntArray:
        """The starts of the windows that times are in."""
        days = np.unique(times // DAY_MS).tolist()
        every = np.array(sorted({start for day in days for start in _starts_around(self, day)}), np.int64)
        starts: IntArray = every[np.searchsorted(every, times, "right") - 1]
        return starts

    def first_of(self, day: date) -> date:
        """The first day of the day's window."""
        if self.unit == "month":
            return day.replace(day=1)
        return day if self.unit == "day" else day - timedelta(days=(day.weekday() - self.first_day) % 7)

    def next_of(self, first: date) -> date:
        """The first day of the next window."""
        if self.unit == "month":
            return (first + timedelta(days=31)).replace(day=1)
        return first + timedelta(days=7 if self.unit == "week" else 1)


def _boundaries(calendar: Calendar, day: int, time: int) -> int:
    return max(start for start in _starts_around(calendar, day) if start <= time)


@lru_cache(maxsize=1 << 16)
def _starts_around(calendar: Calendar, day: int) -> tuple[int, ...]:
    """The starts of the windows that have a part of a day of UTC, given by its number."""
    starts = [_floor(calendar, day * DAY_MS)]
    while (following := _next(calendar, starts[-1])) < min((day + 1) * DAY_MS, MAX_MS):
        starts.append(following)
    return tuple(starts)


def _floor(calendar: Calendar, time: int) -> int:
    """The last start that is not after a time; 0 for a window that begins before 1970."""
    back, near = _near(time)
    first = calendar.first_of(_local(calendar, near))
    if _midnight(calendar, calendar.next_of(first)) <= near:
        first = calendar.next_of(first)  # the clocks went back over midnight, so that a date comes again
    while _midnight(calendar, first) > near:
        first = calendar.first_of(first - _ONE_DAY)
    return max(_midnight(calendar, first), 0) + back


@lru_cache(maxsize=1 << 16)
def _next(calendar: Calendar, start: int) -> int:
    """The first start after a time."""
    back, near = _near(start)
    first = calendar.first_of(_local(calendar, near))
    while _midnight(calendar, first) <= near:
        first = calendar.next_of(first)
    return min(_midnight(calendar, first) + back, MAX_MS)


def _near(time: int) -> tuple[int, int]:
    """A time that Python has dates for, and what was taken off."""
    cycles = 0 if time < _FAR_MS else (time - _FAR_MS) // _CYCLE_MS + 1
    return cycles * _CYCLE_MS, time - cycles * _CYCLE_MS


def _local(calendar: Calendar, time: int) -> date:
    return (_EPOCH + time * _MS).astimezone(_zone(calendar.zone)).date()


def _midnight(calendar: Calendar, day: date) -> int:
    """When a day begins. A midnight that the clocks skip is the moment at which they do."""
    there = datetime(day.year, day.month, day.day, tzinfo=_zone(calendar.zone))
    return (there - _EPOCH) // _MS


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except Exception as error:  # what the name's form and the system's files allow
        raise ConfigError(
            f"there is no time zone {name!r} ({error}); give a name such as 'Europe/Berlin' or 'UTC'. If this machine "
            "has no time zones at all, install the package tzdata"
        ) from None


_of_programs: WeakValueDictionary[str, OfProgram] = WeakValueDictionary()
"""The rules of classes of the program that this process has loaded, by name."""


class OfProgram(WindowEnds):
    """The windows of a class of the user's, which are asked where those end that begin at a time.

    Args:
        name: of the class.
        longest: the length of the longest window.
        spans: a function of a time that gives the windows there as pairs of start and end.
    """

    def __init__(self, name: str, longest: int, spans: Any):
        self.name = name.replace(", ", ",")
        self.longest = longest
        self._spans = spans
        self._known: dict[int, int] = {}
        _of_programs[self.name] = self

    def of(self, start: int) -> int:
        found = self._known.get(start)
        if found is None:
            found = dict(self._spans(start)).get(start)
            if found is None:
                raise SerdeError(
                    f"windows_for({start}) of the windows {self.name} gives no window that begins at {start}, and "
                    "windows_for of a later time gave one. A record at the start of a window belongs to it: both must "
                    "agree"
                )
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[start] = found
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return OfProgram, (self.name, self.longest, self._spans)


_MOST_KNOWN = 10_000


class Unknown(WindowEnds):
    """The windows of a class that this process has not loaded."""

    longest = 0

    def __init__(self, name: str):
        self.name = name

    def of(self, start: int) -> int:
        raise SerdeError(
            f"the windows {self.name} are of a class of the program's, and only a process that has loaded the program "
            f"knows where the one from {start} ends. Load the program there first, or ask for windows by their starts"
        )


def ends_named(name: str) -> WindowEnds:
    """The rule with a name.

    >>> ends_named("10").of(5), ends_named("day UTC").of(0), type(ends_named("app.Shifts")).__name__
    (15, 86400000, 'Unknown')
    """
    if name.isdigit():
        return Sized(int(name))
    unit, _, rest = name.partition(" ")
    zone, _, weekday = rest.partition(" ")
    if unit in _LONGEST_MS and zone and (weekday in WEEKDAYS) == (unit == "week"):
        return Calendar(unit, zone, WEEKDAYS.index(weekday) if weekday else 0)
    return _of_programs.get(name) or Unknown(name)


def ends_of(given: Any) -> WindowEnds:
    """The rule of windows given by their size, by a rule, or by an object that has one as ``ends``."""
    if isinstance(given, int):
        return Sized(given)
    found: WindowEnds = given if isinstance(given, WindowEnds) else given.ends
    return found

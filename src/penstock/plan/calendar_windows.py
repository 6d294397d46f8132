"""Windows of the calendar: days, weeks and months of a time zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from penstock.errors import ConfigError
from penstock.messages import nearest, show
from penstock.plan.windows_base import Windows
from penstock.record import Window
from penstock.values.durations import Duration, to_ms
from penstock.values.window_ends import WEEKDAYS, Calendar, WindowEnds


@dataclass(frozen=True)
class CalendarWindows(Windows):
    """Days, weeks or months of a time zone, from midnight to midnight there. When summer time begins or ends, a day has
    23 or 25 hours.

    >>> from penstock import CalendarWindows
    >>> days = CalendarWindows.by_day("Europe/Berlin", grace="1 hour")
    >>> [(window.end - window.start) // 3_600_000 for window in days.windows_for(1_792_900_000_000)]
    [25]

    The machine's time zone database says when clocks change (``zoneinfo``).
    """

    calendar: Calendar
    grace_period_ms: int = 0

    @classmethod
    def by_day(cls, zone: str, grace: Duration = 0) -> Self:
        """The days of a time zone, such as ``"Europe/Berlin"``.

        Raises:
            ConfigError: there is no such zone, or the grace period is negative.
        """
        return cls._of("day", zone, grace)

    @classmethod
    def by_week(cls, zone: str, grace: Duration = 0, first_day: str = "monday") -> Self:
        """The weeks of a time zone.

        Args:
            zone: the time zone.
            grace: how long a week takes late records.
            first_day: the weekday with which weeks begin, in English.

        Raises:
            ConfigError: there is no such zone or weekday, or the grace period is negative.
        """
        if not isinstance(first_day, str) or first_day.lower() not in WEEKDAYS:
            hint = nearest(str(first_day).lower(), WEEKDAYS)
            raise ConfigError(f"first_day must be one of {', '.join(WEEKDAYS)}; got {first_day!r}{hint}")
        return cls._of("week", zone, grace, WEEKDAYS.index(first_day.lower()))

    @classmethod
    def by_month(cls, zone: str, grace: Duration = 0) -> Self:
        """The months of a time zone.

        Raises:
            ConfigError: there is no such zone, or the grace period is negative.
        """
        return cls._of("month", zone, grace)

    @classmethod
    def _of(cls, unit: str, zone: str, grace: Duration, first_day: int = 0) -> Self:
        if not isinstance(zone, str):
            raise ConfigError(f"a time zone is a name such as 'Europe/Berlin'; got {show(zone)}")
        return cls(Calendar(unit, zone, first_day), to_ms(grace, "the grace period"))

    @property
    def size(self) -> int:
        """The length of the longest window, in milliseconds: clocks may go back by up to 8 hours."""
        return self.calendar.longest

    @property
    def grace_period(self) -> int:
        """How long a window takes late records after its end, in milliseconds."""
        return self.grace_period_ms

    @property
    def ends(self) -> WindowEnds:
        """Where these windows end, for ``TimeWindowedSerde``."""
        return self.calendar

    def windows_for(self, timestamp: int) -> list[Window]:
        """The window that contains a time."""
        start = self.calendar.start_of(timestamp)
        return [Window(start, self.calendar.of(start))]

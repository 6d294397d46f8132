"""Time windows, by their public names; they are defined in the plan."""

from penstock.plan.calendar_windows import CalendarWindows
from penstock.plan.own_windows import OwnWindows
from penstock.plan.windows import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from penstock.plan.windows_base import Windows

__all__ = [
    "CalendarWindows",
    "EmitStrategy",
    "JoinWindows",
    "OwnWindows",
    "SessionWindows",
    "SlidingWindows",
    "TimeWindows",
    "UnlimitedWindows",
    "Windows",
]

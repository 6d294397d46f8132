"""Windows of classes that extend ``Windows``, as steps have them, and what is refused of such classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.errors import ConfigError, TopologyError
from penstock.messages import show
from penstock.plan.calendar_windows import CalendarWindows
from penstock.plan.functions import UserFunction, accepts, caller
from penstock.plan.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from penstock.plan.windows_base import Windows
from penstock.usage.calls import why_unusable
from penstock.usage.java_names import snake_case
from penstock.values.durations import to_ms
from penstock.values.window_ends import Calendar, OfProgram, Sized, WindowEnds

_ASKED = ("windows_for", "size", "grace_period")
"""Members that Penstock uses of a class of windows."""
_OF_OTHERS = [
    "size_ms",
    "grace_period_ms",
    "advance_ms",
    "advance_by",
    "grace",
    "until",
    "maintain_ms",
    "segment_interval",
    "segments",
    "retention_ms",
    "needed_retention_ms",
    "final_after_ms",
    "closes",
    "start_on",
]
"""Members of other windows, which Penstock never uses of a class that extends ``Windows``."""


@dataclass(frozen=True)
class OwnWindows:
    """Windows of a class that extends ``Windows``, checked."""

    windows: Windows
    function: UserFunction
    """Gives the windows of a time."""
    size_ms: int
    """The length of the longest window."""
    grace_period_ms: int
    ends: WindowEnds

    closes = True

    @property
    def final_after_ms(self) -> int:
        """How long after its end a window still takes records."""
        return self.grace_period_ms

    @property
    def needed_retention_ms(self) -> int:
        """How long a store must keep a window, from its start on, for the window to be complete."""
        return self.size_ms + self.grace_period_ms

    @property
    def retention_ms(self) -> int:
        """How long a store keeps a window by default."""
        return self.needed_retention_ms

    @property
    def calendar(self) -> Calendar | None:
        """The calendar that decides, if it is no function of the user's."""
        return self.ends if isinstance(self.ends, Calendar) else None

    @property
    def name(self) -> str:
        """The name that tells these windows from others at the next start of an application."""
        return self.ends.name

    def spans(self, timestamp: int) -> list[tuple[int, int]]:
        """Start and end of the windows at a time, by their starts.

        Raises:
            TypeError: the user's class gives something else.
            ValueError: windows that do not contain the time, or are longer than it says.
        """
        return _spans(self.windows, self.size_ms, timestamp)


AnyWindows = TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows | OwnWindows
"""Windows of an aggregation."""


def ends_of_windows(windows: Any) -> WindowEnds:
    """Where the windows of an aggregation in time windows end."""
    return windows.ends if isinstance(windows, OwnWindows) else Sized(windows.size_ms)


def _spans(windows: Windows, longest: int, timestamp: int) -> list[tuple[int, int]]:
    given = windows.windows_for(timestamp)
    found = dict(_pairs(given.values() if isinstance(given, Mapping) else given))
    for start, end in found.items():
        if not (0 <= start <= timestamp < end):
            raise ValueError(
                f"windows_for({timestamp}) gives a window from {start} to {end}, which does not contain that time; a "
                "window contains its start and not its end, and begins at 0 or later"
            )
        if end - start > longest:
            raise ValueError(
                f"windows_for({timestamp}) gives a window from {start} to {end}, of {end - start} ms; size says that "
                f"the longest one has {longest} ms. Say the longest there, since stores keep windows for as long"
            )
    return sorted(found.items())


def _pairs(given: Any) -> Iterator[tuple[int, int]]:
    for one in given:
        if not (isinstance(one, tuple) and len(one) == 2 and all(type(time) is int for time in one)):
            raise TypeError(
                "windows_for gives windows as pairs (start, end) of milliseconds, such as Window(0, 10); got "
                f"{show(one)}"
            )
        yield one[0], one[1]


def own_windows_of(windows: Windows) -> OwnWindows:
    """Check windows of a class that extends ``Windows``.

    Raises:
        TopologyError: it has methods that are never called, or a size or grace period that is none.
    """
    kind, where = type(windows), caller()
    for name, hint in _ignored(kind):
        raise TopologyError(
            f"windowed_by at {where}: {kind.__name__} defines {name}, which would be ignored{hint}. A class of "
            f"windows is asked for {', '.join(_ASKED)} alone; give others names of their own, such as "
            f"_{snake_case(name)}"
        )
    call = windows.windows_for
    why = why_unusable(call, iterated=True)
    if why or not accepts(call, 1):
        what = why or "to take a timestamp, and nothing else"
        raise TopologyError(f"windowed_by at {where}: windows_for of {kind.__name__} is {what}")
    size_ms = _duration(windows, "size", where)
    grace_ms = _duration(windows, "grace_period", where)
    if size_ms <= 0:
        raise TopologyError(f"windowed_by at {where}: size of {kind.__name__} must be positive, got {size_ms} ms")
    function = UserFunction(call, 1, False, where, method="windowed_by")
    if isinstance(windows, CalendarWindows) and kind.windows_for is CalendarWindows.windows_for:
        return OwnWindows(windows, function, size_ms, grace_ms, windows.calendar)
    is_told = kind.__repr__ is not object.__repr__
    name = f"{kind.__module__}.{repr(windows) if is_told else kind.__qualname__}"
    ends = OfProgram(name, size_ms, partial(_spans, windows, size_ms))
    return OwnWindows(windows, function, size_ms, grace_ms, ends)


def _duration(windows: Windows, name: str, where: str) -> int:
    given = getattr(windows, name)
    try:
        return to_ms(given() if callable(given) else given, f"{name} of {type(windows).__name__}")
    except ConfigError as error:
        raise TopologyError(f"windowed_by at {where}: {error}") from None


def _ignored(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the methods of a class that are never called, and what may be meant."""
    for one in kind.__mro__:
        if one.__module__.startswith("penstock."):
            return
        for name, member in vars(one).items():
            if name.startswith("_") or name in _ASKED or not _is_method(member):
                continue
            spelled = snake_case(name)
            if spelled in _ASKED or spelled in _OF_OTHERS:
                meant = next((asked for asked in _ASKED if spelled.startswith(asked)), "")
                yield name, f"; did you mean {meant!r}?" if meant else ""


def _is_method(member: Any) -> bool:
    return callable(member) or isinstance(member, property | classmethod | staticmethod)


def refuse_ignored(windows: Any, method: str) -> None:
    """Raise ``TopologyError`` for a class that extends ready windows and says itself which windows there are: it would
    not be asked."""
    ready = (TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows, JoinWindows)
    for one in type(windows).__mro__:
        if one in ready or not isinstance(windows, ready):
            return
        for name in vars(one):
            if snake_case(name) in _ASKED:
                base = next(kind for kind in ready if isinstance(windows, kind))
                raise TopologyError(
                    f"{method} at {caller()}: {one.__name__} extends {base.__name__} and defines {name}, which would "
                    "be ignored; extend penstock.Windows for windows of your own"
                )

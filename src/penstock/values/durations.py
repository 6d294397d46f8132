"""Durations in the forms that users write: ``250``, ``timedelta(minutes=5)``, ``"10 minutes"``."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from penstock.errors import ConfigError

Duration = int | timedelta | str

MAX_MS = 2**63 - 1
_MICROSECOND = timedelta(microseconds=1)

_UNITS = {
    "ms": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
    "w": 604_800_000, "week": 604_800_000, "weeks": 604_800_000,
}  # fmt: skip
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*(?:,|and\b)?", re.ASCII)


def to_ms(duration: Duration, what: str = "duration") -> int:
    """Milliseconds of a duration.

    Args:
        duration: an int of milliseconds, a ``timedelta``, or text of amounts and units.
        what: the argument's name, for the error message.

    Raises:
        ConfigError: the duration is negative, too long, not in whole milliseconds or cannot be understood.

    >>> to_ms("10 minutes"), to_ms("1 h 30 min"), to_ms(250), to_ms(timedelta(seconds=2))
    (600000, 5400000, 250, 2000)
    """
    ms = _parse(duration, what)
    if ms < 0:
        raise ConfigError(f"{what} must not be negative, got {duration!r} ({ms} ms)")
    if ms > MAX_MS:
        raise ConfigError(f"{what} must not be longer than {MAX_MS} ms, got {duration!r}")
    return ms


def to_signed_ms(duration: Duration, what: str = "duration") -> int:
    """Milliseconds of a duration that may be negative.

    >>> to_signed_ms(-250)
    -250
    """
    return -to_ms(-duration, what) if _is_negative(duration) else to_ms(duration, what)  # type: ignore[operator]


def later(time: int, duration: Duration) -> int:
    """Return a time plus a duration.

    Raises:
        ConfigError: the result is after the end of time.
    """
    ms = time + to_ms(duration)
    if ms > MAX_MS:
        raise ConfigError(
            f"{duration!r} after {time} is {ms}, more than {MAX_MS} ms, the largest time; give a shorter duration"
        )
    return ms


def _is_negative(duration: Duration) -> bool:
    return (isinstance(duration, int) and duration < 0) or (isinstance(duration, timedelta) and duration < timedelta(0))


def _parse(duration: Duration, what: str) -> int:
    if isinstance(duration, bool):
        raise ConfigError(f"{what} must be a duration, got {duration!r}")
    if isinstance(duration, int):
        return duration
    if isinstance(duration, timedelta):
        return _whole(Decimal(duration // _MICROSECOND) / 1000, duration, what)
    if isinstance(duration, str):
        return _parse_text(duration, what)
    raise ConfigError(
        f"{what} must be an int of milliseconds, a timedelta or text such as '10 minutes'; "
        f"got {duration!r} of type {type(duration).__name__}"
    )


def _parse_text(text: str, what: str) -> int:
    total, at = Decimal(0), 0
    while match := _PART.match(text, at):
        unit = _UNITS.get(match[2].lower())
        if unit is None:
            raise ConfigError(f"{what}: {match[2]!r} in {text!r} is no unit of time; use ms, s, min, h, d or w")
        total += Decimal(match[1]) * unit
        at = match.end()
    if at == 0 or text[at:].strip():
        raise ConfigError(f"{what}: cannot read {text!r} as a duration; {_way_out(text.strip())}")
    return _whole(total, text, what)


def _way_out(text: str) -> str:
    if text.isdecimal():
        return f"it has no unit: write '{text} ms' or '{text} s', or the number of milliseconds without quotes"
    negative = "a duration is not negative; " if text.startswith("-") else ""
    return f"{negative}write it like '10 minutes' or '1 h 30 min'"


def _whole(ms: Decimal, duration: Duration, what: str) -> int:
    """Milliseconds as an int; the longest ``timedelta``, which means "forever", may have a fraction."""
    if ms != int(ms) and duration != timedelta.max:
        raise ConfigError(f"{what} must be whole milliseconds, got {duration!r} ({ms.normalize():f} ms)")
    return int(ms)

"""Points in time in the forms that users write: milliseconds since 1970, ``datetime``, text in ISO 8601."""

from __future__ import annotations

import time as clock
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import floor, isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import ConfigError


class Unit(NamedTuple):
    """A unit of times since 1970."""

    name: str
    in_ms: Fraction

    def to_ms(self, time: int | float) -> int:
        """Return a time in milliseconds. Fractions of a millisecond are cut off; seconds with a fraction are rounded.

        Raises:
            ValueError: it is no number.

        >>> UNITS["s"].to_ms(1.5), UNITS["us"].to_ms(2999)
        (1500, 2)
        """
        if isinstance(time, float):
            return round(Fraction(time) * self.in_ms) if self.in_ms > 1 else floor(Fraction(time) * self.in_ms)
        return time * self.in_ms.numerator // self.in_ms.denominator

    def all_to_ms(self, times: NDArray[Any]) -> NDArray[np.int64]:
        """Apply ``to_ms`` to an array of numbers.

        Raises:
            ValueError: one is no number, or its milliseconds have more than 64 bits.

        >>> UNITS["s"].all_to_ms(np.array([1.5, 2])).tolist(), UNITS["us"].all_to_ms(np.array([2999])).tolist()
        ([1500, 2000], [2])
        """
        factor, parts = self.in_ms.numerator, self.in_ms.denominator
        by_itself = ~(np.abs(times.astype(np.float64)) < 2**62 / factor)  # including NaN
        near = np.where(by_itself, 0, times)
        is_float = near.dtype.kind == "f"
        whole = (np.floor(near) if is_float else near).astype(np.int64)
        found = whole * factor // parts
        if is_float and factor > 1:
            rest = (near - whole) * factor
            found += np.rint(rest).astype(np.int64)
            by_itself |= np.abs(rest % 1 - 0.5) < 1e-6  # the product is rounded itself, which could change the result
        try:
            for row in np.flatnonzero(by_itself):
                found[row] = self.to_ms(times[row].item())
        except OverflowError as error:
            raise ValueError(str(error)) from None
        return found


UNITS = {
    "s": Unit("seconds", Fraction(1000)),
    "ms": Unit("milliseconds", Fraction(1)),
    "us": Unit("microseconds", Fraction(1, 1000)),
    "ns": Unit("nanoseconds", Fraction(1, 1_000_000)),
}
"""The units of times, by name."""

Time = int | datetime
"""Milliseconds since 1970, or a ``datetime``; without a zone it is UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def wall_clock_ms() -> int:
    """Now, in milliseconds since 1970."""
    return clock.time_ns() // 1_000_000


def unit_named(name: str | None, what: str = "timestamp_unit") -> Unit:
    """Return the unit of a name, milliseconds for None.

    Raises:
        ConfigError: the unit is unknown.
    """
    given: object = name
    unit = UNITS["ms"] if name is None else UNITS.get(name) if isinstance(given, str) else None
    if unit is None:
        raise ConfigError(f"{what} is one of {', '.join(UNITS)}; got {name!r}")
    return unit


def to_timestamp(time: Any, what: str = "a timestamp", unit: Unit = UNITS["ms"]) -> int:
    """Return the milliseconds since 1970 of a point in time, in UTC by default.

    Args:
        time: whole milliseconds, a ``datetime``, or text in ISO 8601.
        what: the name of the time, for the error message.
        unit: the unit of numbers.

    Raises:
        ConfigError: it is no time, or one before 1970.

    >>> to_timestamp(1000), to_timestamp(datetime(2013, 1, 1, 5)), to_timestamp("2013-01-01T06:00:00.250+01:00")
    (1000, 1357016400000, 1357016400250)
    """
    ms = parsed(time, unit)
    if ms is None or not 0 <= ms < 2**63:
        early = ", which is before 1970" if ms is not None and ms < 0 else ""
        raise ConfigError(
            f"{what} is a number of {unit.name} since 1970, a datetime, or text in ISO 8601 such as "
            f"'2013-01-31T06:00:00Z'; got {time!r}{early}"
        )
    return ms


def bound(time: Time) -> int:
    """Return a bound of a time range in milliseconds; numbers stay unchanged."""
    return time if isinstance(time, int) else to_timestamp(time)


def parsed(time: Any, unit: Unit = UNITS["ms"]) -> int | None:
    """Return a time in milliseconds, also before 1970; None for anything that is no time.

    Args:
        unit: the unit of numbers; those of other units than milliseconds may have a fraction.
    """
    if type(time) is int and unit is UNITS["ms"]:
        return time
    if isinstance(time, int | np.integer) and not isinstance(time, bool):
        return unit.to_ms(int(time))
    if isinstance(time, float) and unit is not UNITS["ms"]:
        return unit.to_ms(time) if isfinite(time) else None
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time.strip())
        except ValueError:
            return None
    if not isinstance(time, datetime):
        return None
    return ((time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND


def moment(ms: int) -> str:
    """Return a time in ISO 8601; the number itself if no calendar reaches it.

    >>> moment(1357016400000), moment(1357016400250), moment(2**63 - 1)
    ('2013-01-01T05:00:00Z', '2013-01-01T05:00:00.250Z', '9223372036854775807')
    """
    try:
        found = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError):
        return str(ms)
    text = found.replace(microsecond=0, tzinfo=None).isoformat()
    return f"{text}.{ms % 1000:03d}Z" if ms % 1000 else f"{text}Z"

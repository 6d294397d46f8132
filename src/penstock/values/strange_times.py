"""Detects times in a wrong unit: milliseconds that would be before 1980 or after 2200."""

from __future__ import annotations

import logging

import numpy as np

from penstock.arrays import IntArray
from penstock.values.times import UNITS, moment

_log = logging.getLogger(__name__)

_EARLIEST, _LATEST = 315_532_800_000, 7_258_118_400_000
"""1980 and 2200."""
_FROM_ZERO = 86_400_000
"""Times of the first day of 1970 are counted from zero, as in examples and tests."""
_LOOKED_AT = 100
_told: set[str] = set()

SAY_UNIT = 'timestamp_unit="{unit}" says that they are in {name}'
"""The way out where an argument has the unit."""


def tell_of_strange_times(topic: str, times: IntArray, way_out: str) -> None:
    """Warn, once for a topic, when its first records have implausible times.

    Args:
        times: the times of the first records, in milliseconds.
        way_out: tells the user how to give the unit; a template with ``{unit}`` and ``{name}``, as ``SAY_UNIT`` is.
    """
    if topic in _told or not len(times):
        return
    time = int(np.median(times[:_LOOKED_AT]))
    if _FROM_ZERO > time >= 0 or _EARLIEST <= time < _LATEST:
        return
    _told.add(topic)
    unit = unit_of(time)
    said = way_out.format(unit=unit, name=UNITS[unit].name) if unit else "are they meant so?"
    _log.warning("topic %r: its first records are of %s, as milliseconds since 1970; %s", topic, _shown(time), said)


def unit_of(time: int) -> str | None:
    """Return the unit in which a number would be a time of these years; None if none.

    >>> unit_of(1_767_225_600), unit_of(1_767_225_600_000_000), unit_of(0)
    ('s', 'us', None)
    """
    units = (name for name, unit in UNITS.items() if name != "ms" and _EARLIEST <= unit.to_ms(time) < _LATEST)
    return next(units, None)


def _shown(time: int) -> str:
    found = moment(time)
    return found if "T" in found else f"{time} ms, which no calendar reaches"

"""Stretches: how far the tasks of a cycle read before they wait for each other, and how their records are numbered.

All results of a record go around the cycle under the number of that record, its *root*. Roots are ordered by time, and
at equal times by task, whichever task they come from. So each task knows where results that come back belong among the
records it has read itself.
"""

from __future__ import annotations

import msgspec
import numpy as np

from penstock.arrays import IntArray

FIRST_ROOT = 1 << 33
"""Roots begin after the positions of records that were counted one by one."""

_LAST_ROOT = 1 << 61
"""Positions after it are for results that no record caused."""

_ROOM_BITS = 8
_ROOM = 1 << _ROOM_BITS
"""Positions for each root: one for the record itself, the others for results that come back because of it."""


class Stretch(msgspec.Struct, frozen=True, omit_defaults=True):
    """The input that the tasks of a cycle read in one round: the place to stop at, and the numbers of the roots."""

    first: int
    """The lowest root."""
    clock: int
    """The lowest clock of these records."""
    width: int
    """The number of roots for each clock."""
    until: int
    """The highest clock of these records."""
    last: str
    """The last task that takes records of that clock."""
    places: dict[str, int]
    """For each task, its first number among those of each clock."""

    @property
    def end(self) -> int:
        """The number after all roots and all positions that belong to them."""
        return self.first + (((self.until - self.clock + 1) * self.width) << _ROOM_BITS)

    def roots(self, clocks: IntArray, task: str) -> IntArray:
        """Return the roots of the records that a task reads in this round, by their clocks."""
        number = (clocks - self.clock) * self.width + self.places[task] + np.arange(len(clocks))
        return self.first + (number << _ROOM_BITS)

    def clocks(self, positions: IntArray) -> IntArray:
        """Return the clocks of the roots that positions belong to."""
        return self.clock + ((positions - self.first) >> _ROOM_BITS) // self.width


def longest(first: int, width: int) -> int:
    """Return the most milliseconds that a stretch can have with the numbers from `first` on."""
    return ((_LAST_ROOT - first) >> _ROOM_BITS) // width - 1


def roots_of(positions: IntArray) -> IntArray:
    """Return the roots that positions belong to."""
    return (positions >> _ROOM_BITS) << _ROOM_BITS


def places_behind(roots: IntArray, there: IntArray) -> IntArray:
    """Return the positions of records that come back, by their ascending roots.

    Args:
        there: the positions of the records of this round that the task has already, ascending.
    """
    begins = np.r_[True, roots[1:] != roots[:-1]]
    number = np.arange(len(roots)) - np.maximum.accumulate(np.where(begins, np.arange(len(roots)), 0))
    before = np.searchsorted(there, roots + _ROOM) - np.searchsorted(there, roots)
    # If a record has more results than positions, the last ones share a position; later columns order them.
    found: IntArray = roots + np.minimum(np.maximum(before, 1) + number, _ROOM - 1)
    return found

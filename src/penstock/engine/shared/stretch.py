"""How far the tasks of a circle read before they wait for each other, and what the records that they read are called.

All that comes of a record goes around the circle under the number of that record, its *root*. Roots are in the order of
time, of equal times in the order of tasks, whichever task they come from: so each task finds the place of what comes
back among the records that it has read itself.
"""

from __future__ import annotations

import msgspec
import numpy as np

from penstock.arrays import IntArray

FIRST_ROOT = 1 << 33
"""Roots begin behind the positions of records that were counted one by one."""

_LAST_ROOT = 1 << 61
"""Positions behind it are for what no record caused."""

_ROOM_BITS = 8
_ROOM = 1 << _ROOM_BITS
"""So many positions belong to each root: that of the record itself, and those of what comes back because of it."""


class Stretch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the tasks of a circle read in one round: up to which place, and the numbers of the roots."""

    first: int
    """The lowest root."""
    clock: int
    """The lowest clock that any of these records has."""
    width: int
    """How many roots there are for each clock."""
    until: int
    """The highest clock that any of them has."""
    last: str
    """The last task that takes records of that clock."""
    places: dict[str, int]
    """From which on of the numbers of each clock a task's records have theirs."""

    @property
    def end(self) -> int:
        """The number behind all roots, and behind all positions that belong to them."""
        return self.first + (((self.until - self.clock + 1) * self.width) << _ROOM_BITS)

    def roots(self, clocks: IntArray, task: str) -> IntArray:
        """The roots of the records that a task reads in this round, by their clocks."""
        number = (clocks - self.clock) * self.width + self.places[task] + np.arange(len(clocks))
        return self.first + (number << _ROOM_BITS)

    def clocks(self, positions: IntArray) -> IntArray:
        """The clocks of the roots to which some positions belong."""
        return self.clock + ((positions - self.first) >> _ROOM_BITS) // self.width


def longest(first: int, width: int) -> int:
    """How many milliseconds a stretch may have at most, for the numbers that are left from one on."""
    return ((_LAST_ROOT - first) >> _ROOM_BITS) // width - 1


def roots_of(positions: IntArray) -> IntArray:
    """The roots to which some positions belong."""
    return (positions >> _ROOM_BITS) << _ROOM_BITS


def places_behind(roots: IntArray, there: IntArray) -> IntArray:
    """The positions of records that come back, by their roots, which ascend.

    Args:
        there: the positions of the records that the task has of this round already, ascending.
    """
    begins = np.r_[True, roots[1:] != roots[:-1]]
    number = np.arange(len(roots)) - np.maximum.accumulate(np.where(begins, np.arange(len(roots)), 0))
    before = np.searchsorted(there, roots + _ROOM) - np.searchsorted(there, roots)
    # where more come of one record than there is room for, the last share a place; what follows tells them apart
    found: IntArray = roots + np.minimum(np.maximum(before, 1) + number, _ROOM - 1)
    return found

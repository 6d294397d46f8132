"""Rows grouped by key, and running values within each group: counts, sums, maxima, the previous value.

All of it works on rows sorted by group and, within a group, in processing order. A sort of packed integers and a
few passes over arrays take the place of a loop over records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Binary, BoolArray, IntArray, distinct
from penstock.state.columns.rows import Keys

_LIMIT = 2**62


class Groups:
    """Rows 0..n-1 in groups 0..count-1.

    >>> groups = Groups.by_number(np.array([7, 3, 7, 7]))
    >>> groups.numbers.tolist(), groups.order.tolist(), groups.running_count().tolist()
    ([3, 7], [1, 0, 2, 3], [1, 1, 2, 3])
    """

    __slots__ = ("_first", "group", "numbers", "order", "starts")

    def __init__(self, numbers: IntArray, order: IntArray, starts: IntArray, group: IntArray):
        self.numbers = numbers
        """The number that the rows of each group share."""
        self.order = order
        """The rows, sorted by group and then in processing order."""
        self.starts = starts
        """Where each group begins in ``order``."""
        self.group = group
        """The group of each row in ``order``."""

    @classmethod
    def by_number(cls, numbers: IntArray) -> Groups:
        """Make groups of the rows with equal numbers, which are not negative."""
        size = len(numbers)
        if not size:
            empty = np.zeros(0, np.int64)
            return cls(empty, empty, empty, empty)
        bits = size.bit_length()
        if int(numbers.max()) < _LIMIT >> bits:
            packed = np.sort((numbers << bits) | np.arange(size))
            order = packed & ((1 << bits) - 1)
            in_order = packed >> bits
        else:
            order = np.argsort(numbers, kind="stable")
            in_order = numbers[order]
        is_first = np.empty(size, np.bool_)
        is_first[0] = True
        np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
        starts = np.flatnonzero(is_first)
        return cls(in_order[starts], order, starts, np.cumsum(is_first) - 1)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> IntArray:
        """Where the last row of each group is in ``order``."""
        return np.append(self.starts[1:], len(self.order)) - 1

    @property
    def last_rows(self) -> IntArray:
        """The last row of each group."""
        return self.order[self.ends]

    @property
    def sizes(self) -> IntArray:
        return np.diff(np.append(self.starts, len(self.order)))

    def is_first(self) -> BoolArray:
        """True for each row in ``order`` that is the first of its group."""
        first = np.zeros(len(self.order), np.bool_)
        first[self.starts] = True
        return first

    def running_count(self) -> IntArray:
        """1, 2, 3, ... along each group."""
        return np.arange(1, len(self.order) + 1) - self.starts[self.group]

    def running_sum(self, values: NDArray[Any]) -> Any:
        """The sums so far along each group; values are in ``order``."""
        total = np.cumsum(values)
        before = (total - values)[self.starts]
        return total - before[self.group]

    def running_max(self, values: IntArray, restart: BoolArray | None = None) -> IntArray:
        """The largest value so far along each group, or since the last row marked in ``restart``."""
        run = self.group if restart is None else np.cumsum(restart | self.is_first()) - 1
        if not len(values):
            return values
        low, high = int(values.min()), int(values.max())
        span = high - low + 1
        if span * (int(run[-1]) + 1) >= _LIMIT:
            ranks, low, span = distinct(values), 0, len(values)
            ranked = np.searchsorted(ranks, values)
            highest: IntArray = ranks[np.maximum.accumulate(ranked + run * span) - run * span]
            return highest
        base = run * span - low
        return np.maximum.accumulate(values + base) - base

    def unsort(self, values: NDArray[Any]) -> Any:
        """Values in ``order`` put back into row order."""
        result = np.empty_like(values)
        result[self.order] = values
        return result


def group_keys(data: Binary) -> tuple[Keys, IntArray]:
    """The distinct keys of a column without nulls, and for each row the number of its key."""
    encoded = data.dictionary_encode()
    return Keys(encoded.dictionary), encoded.indices.to_numpy().astype(np.int64)

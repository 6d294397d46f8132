"""Values that run along groups of rows in order: sums of floats, whose order counts, smallest and largest values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import IntArray
from penstock.ops.core.groups import Groups

_MANY = 64
"""Groups of more rows are run through by themselves, all others together: their first rows, their second ones, ..."""


def running(groups: Groups, base: NDArray[Any], values: NDArray[Any], step: np.ufunc) -> NDArray[Any]:
    """Combine the values of each group from first to last, beginning with its base.

    Args:
        base: one for each group.
        values: in the groups' order.
        step: combines the result so far with the next value, exactly in this order.

    >>> groups = Groups.by_number(np.array([0, 1, 0]))
    >>> running(groups, np.array([0.5, 0.0]), np.array([1.0, 2.0, 3.0]), np.add).tolist()
    [1.5, 3.5, 3.0]
    """
    result = np.empty(len(values), values.dtype)
    sizes = groups.sizes
    for group in np.flatnonzero(sizes > _MANY).tolist():
        start = int(groups.starts[group])
        part = slice(start, start + int(sizes[group]))
        result[part] = step.accumulate(np.concatenate([base[group : group + 1], values[part]]))[1:]
    _together(groups.starts, sizes, base, values, step, result)
    return result


def _together(
    starts: IntArray, sizes: IntArray, base: NDArray[Any], values: NDArray[Any], step: np.ufunc, result: NDArray[Any]
) -> None:
    """Run through the groups of few rows, largest first, so that unfinished groups stay in front."""
    few = np.flatnonzero(sizes <= _MANY)
    few = few[np.argsort(-sizes[few], kind="stable")]
    current, place, left = base[few], starts[few], sizes[few]
    for turn in range(int(left[0]) if len(left) else 0):
        here = int(np.searchsorted(-left, -turn, side="left"))
        rows = place[:here] + turn
        current[:here] = step(current[:here], values[rows])
        result[rows] = current[:here]

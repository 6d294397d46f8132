"""One field of many values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import BoolArray, IntArray


class Part(NamedTuple):
    """One field of many values: numbers or objects, and the rows that have one; None for all rows."""

    values: NDArray[Any]
    present: BoolArray | None = None

    def take(self, rows: IntArray | slice) -> Part:
        """Return the field of these rows."""
        return Part(self.values[rows], None if self.present is None else self.present[rows])

    def listed(self) -> list[Any]:
        """Return Python values, and None where the field has no value."""
        found: list[Any] = self.values.tolist()
        if self.present is not None:
            for row in np.flatnonzero(~self.present).tolist():
                found[row] = None
        return found


def joined(parts: list[Part]) -> Part:
    """Return one field after the other."""
    present = masks([part.present for part in parts], [len(part.values) for part in parts])
    return Part(np.concatenate([part.values for part in parts]), present)


def masks(every: list[BoolArray | None], lengths: list[int]) -> BoolArray | None:
    """Return one mask after the other; None if none is there."""
    if all(mask is None for mask in every):
        return None
    filled = [np.ones(n, np.bool_) if mask is None else mask for mask, n in zip(every, lengths, strict=True)]
    return np.concatenate(filled)

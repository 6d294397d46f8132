"""One field of many values."""

from __future__ import annotations

from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.arrays import BoolArray, IntArray


class Part(NamedTuple):
    """One field of many values: numbers or objects, and the rows that have one; None for all rows."""

    values: NDArray[Any]
    present: BoolArray | None = None

    @property
    def kind(self) -> Any:
        """The type of the array."""
        return self.values.dtype

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

    def arrow(self, kind: Any) -> Any:
        """Return the field as an Arrow array of a type; None if that would not have the same values."""
        if self.values.dtype == object:
            return _plain_arrow(self.listed(), kind)
        if kind != pa.float64() and (kind != pa.int64() or self.values.dtype != np.int64):
            return None
        numbers = self.values.astype(kind.to_pandas_dtype(), copy=False)
        return pa.array(numbers, mask=None if self.present is None else ~self.present, from_pandas=False)


_PLAIN = {pa.string(): str, pa.int64(): int, pa.float64(): float, pa.bool_(): bool}


def _plain_arrow(values: list[Any], kind: Any) -> Any:
    if not {NoneType, _PLAIN.get(kind)}.issuperset(map(type, values)):
        return None
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):  # a number of more than 64 bits, half a pair
        return None


class TextPart(NamedTuple):
    """One field of text of many values, as an Arrow array."""

    values: Any

    @property
    def kind(self) -> Any:
        """The type of the array."""
        return self.values.type

    def take(self, rows: IntArray | slice) -> TextPart:
        """Return the field of these rows."""
        return TextPart(self.values[rows] if isinstance(rows, slice) else self.values.take(pa.array(rows)))

    def listed(self) -> list[Any]:
        """Return Python values, and None where the field has no value."""
        found: list[Any] = self.values.to_pylist()
        return found

    def arrow(self, kind: Any) -> Any:
        """Return the field as an Arrow array of a type; None if that would not have the same values."""
        return self.values if kind == self.values.type else None


AnyPart = Part | TextPart


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

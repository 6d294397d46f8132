"""Columns of Structs, kept field by field: results of aggregates by name. The Structs are made when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, BoolArray, IntArray, nulls
from penstock.columns.column import BytesColumn, Column
from penstock.columns.part import Part, joined, masks
from penstock.serdes.structs import StructSerde

_NEWLINE, _COMMA, _MOST = 10, ord(","), 2**31 - 1
_WITHOUT_FLOATS = frozenset((str, bytes, int, bool, type(None)))


class FieldsColumn(Column):
    """Structs of these fields; null where not ``valid``.

    Args:
        parts: the fields, or a function that makes them when somebody asks for them, of ``count`` values.
    """

    __slots__ = ("_count", "_data", "_given", "_values", "valid")

    serde: StructSerde

    def __init__(
        self,
        parts: tuple[Part, ...] | Callable[[], tuple[Part, ...]],
        serde: StructSerde,
        valid: BoolArray | None = None,
        count: int = 0,
    ):
        self._given = parts
        self._count = count if callable(parts) else len(parts[0].values)
        self.serde = serde
        self.valid = valid
        self._data: Binary | None = None
        self._values: list[Any] | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        if callable(self._given):
            self._given = self._given()
        return self._given

    def __len__(self) -> int:
        return self._count

    def take(self, rows: IntArray) -> Column:
        valid = None if self.valid is None else self.valid[rows]
        return FieldsColumn(tuple(part.take(rows) for part in self.parts), self.serde, valid)

    def null_mask(self) -> BoolArray | None:
        return None if self.valid is None or self.valid.all() else ~self.valid

    def encoded(self) -> Binary:
        if self._data is None:
            missing = self.null_mask()
            self._data = self._present(~missing) if missing is not None else self._lines()
            if self._data is None:
                self._data = self.serde.encode_all(self.decoded()) if len(self) else nulls(0)
        return self._data

    def _present(self, valid: BoolArray) -> Binary:
        """Return the bytes, made of those of the rows that have a value."""
        rows = pa.array(np.cumsum(valid) - 1, mask=~valid)
        return self.take(np.flatnonzero(valid)).encoded().take(rows)

    def _lines(self) -> Binary | None:
        """Return the bytes, cut out of one text with a line for each value; None if they do not go so."""
        if not len(self) or not all(map(_is_finite, self.parts)):
            return None
        if len(self.parts) == 1 and self.parts[0].values.dtype != object:
            return self._numbers(self.parts[0])
        text = np.frombuffer(self.serde.lines(self.decoded()), np.uint8)
        ends = np.flatnonzero(text == _NEWLINE)
        if len(ends) != len(self) or len(text) > _MOST:
            return None
        offsets = np.zeros(len(ends) + 1, np.int32)
        offsets[1:] = ends - np.arange(len(ends))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text[text != _NEWLINE])]
        return pa.Array.from_buffers(pa.binary(), len(ends), buffers)

    def _numbers(self, part: Part) -> Binary | None:
        """Return the bytes of values with a single number, made of a list of these; None if they do not go so."""
        zero = self.serde.encode(self.serde.type(0))
        begin, end = zero[:-2], zero[-1:]
        numbers = self.serde.listed(part.listed())[1:-1]
        offsets = np.zeros(len(self) + 1, np.int64)
        offsets[1:-1] = np.flatnonzero(np.frombuffer(numbers, np.uint8) == _COMMA)
        offsets[-1] = len(numbers)
        offsets[1:] += np.arange(len(self)) * (len(zero) - 2) + len(zero) - 1
        text = begin + numbers.replace(b",", end + begin) + end
        if len(text) > _MOST:
            return None
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text)]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)

    def decoded(self) -> list[Any]:
        if self._values is None:
            values: list[Any] = list(map(self.serde.type, *(part.listed() for part in self.parts)))
            if self.valid is not None:
                for row in np.flatnonzero(~self.valid).tolist():
                    values[row] = None
            self._values = values
        return self._values

    def where(self, keep: BoolArray) -> Column:
        return FieldsColumn(self.parts, self.serde, keep if self.valid is None else keep & self.valid)

    def narrowed(self, count: int, serde: StructSerde) -> FieldsColumn:
        """Return the first fields as another type."""
        return FieldsColumn(self.parts[:count], serde, self.valid)

    def _join(self, every: list[Any]) -> Column:
        kinds = [{column.parts[number].values.dtype for column in every} for number in range(len(self.parts))]
        if any(len(kind) > 1 for kind in kinds):
            return BytesColumn(super()._join(every).encoded(), self.serde)
        parts = tuple(joined([column.parts[number] for column in every]) for number in range(len(self.parts)))
        return FieldsColumn(parts, self.serde, masks([column.valid for column in every], list(map(len, every))))


def _is_finite(part: Part) -> bool:
    """Return whether a field has no NaN and no infinity, which JSON writes as text."""
    if part.values.dtype == object:
        return _WITHOUT_FLOATS.issuperset(map(type, part.values.tolist()))
    return part.values.dtype != np.float64 or bool(np.isfinite(part.values).all())

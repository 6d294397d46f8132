"""Columns of Structs and dataclasses, kept field by field: results of aggregates by name, of columnar functions and of
expressions. The objects are made when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, BoolArray, IntArray, nulls
from penstock.columns.column import BytesColumn, Column
from penstock.columns.json_objects import written
from penstock.columns.part import AnyPart, TextPart, joined, masks
from penstock.serdes.arrow_types import arrow_type
from penstock.serdes.json import JsonSerde

_WITHOUT_FLOATS = frozenset((str, bytes, int, bool, type(None)))


class FieldsColumn(Column):
    """Structs of these fields; null where not ``valid``.

    Args:
        parts: the fields, or a function that makes them when somebody asks for them, of ``count`` values.
    """

    __slots__ = ("_count", "_data", "_given", "_values", "valid")

    serde: JsonSerde

    def __init__(
        self,
        parts: tuple[AnyPart, ...] | Callable[[], tuple[AnyPart, ...]],
        serde: JsonSerde,
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
    def parts(self) -> tuple[AnyPart, ...]:
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
            self._data = self._present(~missing) if missing is not None else self._written()
            if self._data is None:
                self._data = self.serde.encode_all(self.decoded()) if len(self) else nulls(0)
        return self._data

    def _present(self, valid: BoolArray) -> Binary:
        """Return the bytes, made of those of the rows that have a value."""
        rows = pa.array(np.cumsum(valid) - 1, mask=~valid)
        return self.take(np.flatnonzero(valid)).encoded().take(rows)

    def _written(self) -> Binary | None:
        """Return the bytes, written field by field; None if they do not go so."""
        if not len(self) or not all(map(_is_finite, self.parts)):
            return None
        try:
            parts = [part.values if isinstance(part, TextPart) else part.listed() for part in self.parts]
            return written(self.serde.names, parts)
        except (ValueError, TypeError, OverflowError):  # encoding each value by itself finds the one that fails
            return None

    def arrow(self) -> Any:
        found = self._arrow()
        return super().arrow() if found is None else found

    def _arrow(self) -> Any:
        """Return the values as a struct array, made of the fields; None if they do not go so."""
        kind = arrow_type(self.serde.type)
        if kind is None:
            return None
        arrays = [part.arrow(field.type) for part, field in zip(self.parts, kind, strict=True)]
        if any(array is None for array in arrays):
            return None
        missing = self.null_mask()
        mask = None if missing is None else pa.array(missing)
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)

    def decoded(self) -> list[Any]:
        if self._values is None:
            values: list[Any] = list(map(self.serde.made, *(part.listed() for part in self.parts)))
            if self.valid is not None:
                for row in np.flatnonzero(~self.valid).tolist():
                    values[row] = None
            self._values = values
        return self._values

    def where(self, keep: BoolArray) -> Column:
        return FieldsColumn(self.parts, self.serde, keep if self.valid is None else keep & self.valid)

    def narrowed(self, count: int, serde: JsonSerde) -> FieldsColumn:
        """Return the first fields as another type."""
        return FieldsColumn(self.parts[:count], serde, self.valid)

    def _join(self, every: list[Any]) -> Column:
        kinds = [{column.parts[number].kind for column in every} for number in range(len(self.parts))]
        if any(len(kind) > 1 for kind in kinds):
            return BytesColumn(super()._join(every).encoded(), self.serde)
        parts = tuple(_joined([column.parts[number] for column in every]) for number in range(len(self.parts)))
        return FieldsColumn(parts, self.serde, masks([column.valid for column in every], list(map(len, every))))


def _joined(parts: list[Any]) -> AnyPart:
    texts = [part.values for part in parts if isinstance(part, TextPart)]
    return TextPart(pa.concat_arrays(texts)) if texts else joined(parts)


def _is_finite(part: AnyPart) -> bool:
    """Return whether a field has no NaN and no infinity, which JSON writes as text."""
    if isinstance(part, TextPart):
        return True
    if part.values.dtype == object:
        return _WITHOUT_FLOATS.issuperset(map(type, part.values.tolist()))
    return part.values.dtype != np.float64 or bool(np.isfinite(part.values).all())

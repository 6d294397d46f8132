"""Columns of the Arrow arrays that columnar functions return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import null_mask
from penstock.columns.column import BytesColumn, Column, NumberColumn, ValuesColumn
from penstock.columns.fields import FieldsColumn
from penstock.columns.part import AnyPart, Part, TextPart
from penstock.errors import SerdeError
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde
from penstock.serdes.json_flat import FlatField
from penstock.serdes.primitives import NumberSerde

_EXACT = 2**53
"""Up to here, a float keeps each integer."""
_MOST = 2**63 - 1


def from_arrow(values: Any, serde: Serde) -> Column:
    """Return a column of the Arrow array that a columnar function returned.

    Whole arrays become a column at once where that changes no value; all else is judged value by value, as plain
    functions' results are.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    elif not isinstance(values, pa.Array):
        values = pa.array(values)
    kind = values.type
    is_float = pa.types.is_floating(kind)
    if isinstance(serde, NumberSerde) and (pa.types.is_integer(kind) or (is_float and serde.plain is float)):
        missing = null_mask(values)
        given = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
        numbers = given.astype(serde.native)
        if _are_the_same(given, numbers):
            return NumberColumn(numbers, serde, None if missing is None else ~missing)
    if pa.types.is_struct(kind) and (fields := _fields(values, serde)):
        return fields
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    if (serde.name in ("str", "bytes") and is_text) or (is_bytes and _is_written(values, serde)):
        return BytesColumn(values.cast(pa.binary()), serde)
    return ValuesColumn(serde.from_arrow(values), serde)


def _is_written(data: Any, serde: Serde) -> bool:
    """Whether bytes are values as a serde writes them."""
    if serde.name == "bytes" or isinstance(serde, NumberSerde):
        return serde.name == "bytes"
    try:
        serde.decode_all(data.cast(pa.binary()))
    except SerdeError:
        return False
    return True


def _are_the_same(given: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> bool:
    """Whether the numbers are unchanged."""
    if given.dtype.kind == "f":
        return True
    if numbers.dtype.kind == "f":
        return bool((np.abs(numbers) < _EXACT).all()) or numbers.tolist() == given.tolist()
    return given.dtype != np.uint64 or not given.size or int(given.max()) <= _MOST


def _fields(values: Any, serde: Serde) -> FieldsColumn | None:
    """Return structs as a column, field by field; None if that would not have their values."""
    fields = serde.written_fields if isinstance(serde, JsonSerde) else None
    if not fields or not len(values):
        return None
    missing = null_mask(values)
    parts = [_part(values, name, field) for name, field in zip(serde.names, fields, strict=True)]  # type: ignore[attr-defined]
    if any(part is None for part in parts):
        return None
    return FieldsColumn(tuple(parts), serde, None if missing is None else ~missing)  # type: ignore[arg-type]


def _part(values: Any, name: str, field: FlatField) -> AnyPart | None:
    """Return a field of structs that has the values of a field of a class; None if it has others."""
    place = values.type.get_field_index(name)
    if place < 0 or values.type.field(place).type != field.column:
        return None
    array = values.field(place)
    absent = null_mask(array)
    hidden = null_mask(values)
    if absent is not None and not field.takes_none and (hidden is None or (absent & ~hidden).any()):
        return None
    if field.column == pa.string():
        return TextPart(array)
    filled = array.fill_null(False if field.column == pa.bool_() else 0) if array.null_count else array
    return Part(filled.to_numpy(zero_copy_only=False), None if absent is None else ~absent)

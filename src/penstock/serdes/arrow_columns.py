"""Columns of keys, values and times in Arrow: for tables of stores, and topics read as columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary
from penstock.serdes.arrow_types import arrow_type
from penstock.serdes.base import Serde
from penstock.serdes.class_columns import ClassField, class_fields
from penstock.serdes.json import JsonSerde
from penstock.serdes.row import PLAIN, ColumnSerde, RowSerde
from penstock.serdes.windowed import WindowedSerde
from penstock.values.durations import MAX_MS

NO_TIME = -1
"""The timestamp of rows whose store has none."""

TIME = pa.timestamp("ms", tz="UTC")

WINDOW = ("window_start", "window_end")
"""The columns of a windowed key apart from the key."""


def column_type(serde: Serde) -> Any:
    """The Arrow type of a column of keys or values: text for JSON of any form, bytes for formats that only a program
    knows."""
    if isinstance(serde, RowSerde | ColumnSerde):
        return serde.kind
    if serde in PLAIN:
        return PLAIN[serde]
    if isinstance(serde, WindowedSerde):
        return pa.struct([("key", column_type(serde.inner)), ("start", TIME), ("end", TIME)])
    if isinstance(serde, JsonSerde):
        return arrow_type(serde.type) or pa.string()
    return pa.binary()


def column_of(serde: Serde, data: Binary) -> Any:
    """A column of keys or values from their bytes."""
    type_ = column_type(serde)
    if isinstance(serde, WindowedSerde):
        return _windowed(serde, data)
    if isinstance(serde, RowSerde | ColumnSerde):
        return serde.arrow(data)
    if type_ == pa.binary():
        return data
    if isinstance(serde, JsonSerde) and type_ == pa.string() and arrow_type(serde.type) is None:
        return data.cast(pa.string())
    return serde.arrow(data).cast(type_)


def _windowed(serde: WindowedSerde, data: Binary) -> Any:
    keys = column_of(serde.inner, serde.routing(data))
    columns = [keys, *map(times_of, serde.windows(data))]
    return pa.StructArray.from_arrays(columns, fields=list(column_type(serde)), mask=data.is_null())


def fields_of(serde: Serde, name: str) -> list[Any]:
    """The columns that keys or values become in a table: fields of a struct, and of a windowed key its key, start and
    end.
    """
    if isinstance(serde, WindowedSerde):
        return [*fields_of(serde.inner, name), *(pa.field(one, TIME) for one in WINDOW)]
    if (own := _own_fields(serde)) is not None:
        return [one.column for one in own]
    kind = column_type(serde)
    return [field.with_nullable(True) for field in kind] if pa.types.is_struct(kind) else [pa.field(name, kind)]


def flat_columns(serde: Serde, data: Binary) -> list[Any]:
    """Those columns, from bytes."""
    if isinstance(serde, WindowedSerde) and _own_fields(serde.inner) is not None:
        return [*flat_columns(serde.inner, serde.routing(data)), *map(times_of, serde.windows(data))]
    if isinstance(serde, WindowedSerde):
        inner, start, end = column_of(serde, data).flatten()
        return [*(inner.flatten() if pa.types.is_struct(inner.type) else [inner]), start, end]
    if (own := _own_fields(serde)) is not None:
        values = serde.decode_all(data)
        return [one.of(values) for one in own]
    column = column_of(serde, data)
    return column.flatten() if pa.types.is_struct(column.type) else [column]


def _own_fields(serde: Serde) -> tuple[ClassField, ...] | None:
    """Return the fields of a class of which Arrow alone makes no columns."""
    is_class = isinstance(serde, JsonSerde) and not isinstance(serde, RowSerde)
    return class_fields(serde) if is_class else None  # type: ignore[arg-type]


def values_of_text(serde: Serde, data: Binary) -> dict[str, list[Any]]:
    """Return the values of the columns that are text because their types have no Arrow type."""
    values = serde.decode_all(data)
    return {one.column.name: one.values(values) for one in _own_fields(serde) or () if one.text is not None}


def is_whole(serde: Serde) -> bool:
    """Return whether values are one column of JSON text, as their type has no fields."""
    if not isinstance(serde, JsonSerde) or isinstance(serde, RowSerde):
        return False
    return arrow_type(serde.type) is None and class_fields(serde) is None


def times_of(column: Any) -> Any:
    """A column of times; null for a time that never comes, and for rows of a store without timestamps."""
    times = pa.array(column, pa.int64())
    is_none = pc.or_(pc.equal(times, MAX_MS), pc.equal(times, NO_TIME))
    return pc.if_else(is_none, pa.scalar(None, pa.int64()), times).cast(TIME)

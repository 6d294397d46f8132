"""The columns of a batch as a table of a lake keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError, SinkError
from penstock.sinks.batch import SinkBatch

_PIECE = 65_536
"""How many records are decoded at once."""

_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


def kept_schema(schema: Any) -> Any:
    """Return the columns with types that tables of lakes have: numbers with a sign, times in microseconds.

    >>> kept_schema(pa.schema([("n", pa.uint8()), ("at", pa.timestamp("ms", tz="UTC")), ("nothing", pa.null())]))
    n: int16
    at: timestamp[us, tz=UTC]
    nothing: string
    """
    return pa.schema([pa.field(field.name, _kept(field.type)) for field in schema])


def _kept(type_: Any) -> Any:
    if type_ in _SIGNED:
        return _SIGNED[type_]
    if pa.types.is_dictionary(type_):
        return _kept(type_.value_type)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", tz=None if type_.tz is None else "UTC")
    if pa.types.is_time(type_):
        return pa.time64("us")
    if pa.types.is_null(type_):
        return pa.string()
    return pa.float32() if pa.types.is_float16(type_) else type_


def check_each(schema: Any, shown: str, check: Callable[[Any], object]) -> None:
    """Raise ``ConfigError`` for a column that a table cannot have.

    Args:
        shown: the sink's name, for messages.
        check: raises any error for a schema of one such column.
    """
    for field in kept_schema(schema):
        try:
            check(pa.schema([field]))
        except Exception as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise ConfigError(
                f"{shown}: the table cannot keep column {field.name!r} of Arrow's type {field.type}: {reason}. "
                "Make a number or text of it before to_sink"
            ) from None


def rows_of(batch: SinkBatch) -> Any:
    """Return the records as an Arrow table with types that tables of lakes have.

    Raises:
        SinkError: a value does not fit.
    """
    rows = pa.Table.from_batches([piece.arrow() for piece in batch.pieces(_PIECE)])
    return _cast(rows, kept_schema(rows.schema))


def fitted(rows: Any, schema: Any) -> Any:
    """Return rows with the columns of a table, of its types and in its order; those that they lack are null.

    Args:
        schema: that of the table.

    Raises:
        SinkError: the table lacks a column, or a value does not fit into one.

    >>> fitted(pa.table({"n": [1]}), pa.schema([("note", pa.string()), ("n", pa.int32())])).to_pylist()
    [{'note': None, 'n': 1}]
    """
    lacking = [name for name in rows.schema.names if name not in schema.names]
    if lacking:
        raise SinkError(
            f"the table has no column {lacking[0]!r}; it has {', '.join(schema.names)}. Add the column to the table"
        )
    columns = [rows[field.name] if field.name in rows.schema.names else pa.nulls(len(rows)) for field in schema]
    return _cast(pa.table(columns, names=schema.names), schema)


def _cast(rows: Any, schema: Any) -> Any:
    columns = []
    for field in schema:
        try:
            columns.append(rows[field.name].cast(field.type))
        except pa.ArrowException as error:
            raise SinkError(f"a value does not fit into column {field.name!r} of type {field.type}: {error}") from None
        if columns[-1].null_count and not field.nullable:
            raise SinkError(f"a value is null, and column {field.name!r} of the table takes no nulls")
    return pa.table(columns, schema=schema)

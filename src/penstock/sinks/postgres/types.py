"""PostgreSQL's types for those of Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow.types as is_


def postgres_type(type_: Any) -> str:
    """Return the type of a column.

    >>> import pyarrow as pa
    >>> postgres_type(pa.uint16()), postgres_type(pa.decimal128(9, 2)), postgres_type(pa.list_(pa.int64()))
    ('integer', 'numeric(9, 2)', 'jsonb')
    """
    if is_.is_dictionary(type_):
        return postgres_type(type_.value_type)
    for is_such, name in _TYPES:
        if is_such(type_):
            return name.format(type_)
    return "text"


def _has_zone(type_: Any) -> bool:
    return is_.is_timestamp(type_) and type_.tz is not None


_TYPES = (
    (is_.is_uint64, "numeric(20)"),
    (lambda type_: is_.is_int64(type_) or is_.is_uint32(type_), "bigint"),
    (lambda type_: is_.is_int32(type_) or is_.is_uint16(type_), "integer"),
    (is_.is_integer, "smallint"),
    (is_.is_float64, "double precision"),
    (is_.is_floating, "real"),
    (is_.is_boolean, "boolean"),
    (is_.is_decimal, "numeric({0.precision}, {0.scale})"),
    (_has_zone, "timestamp with time zone"),
    (is_.is_timestamp, "timestamp"),
    (is_.is_date, "date"),
    (is_.is_time, "time"),
    (is_.is_duration, "interval"),
    (lambda type_: is_.is_binary(type_) or is_.is_large_binary(type_), "bytea"),
    (is_.is_fixed_size_binary, "bytea"),
    (is_.is_nested, "jsonb"),
)
"""PostgreSQL's types, each for the Arrow types for which the function holds."""

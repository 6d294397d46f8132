"""Columns of Arrow as the lines that PostgreSQL's COPY reads, without a Python call a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.serdes import json_columns

_NULL = "\\N"

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
"""The text for each character that COPY reads in its own way; the backslash first."""

_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
"""The two digits of each byte."""


def copy_text(batch: Any) -> bytes:
    """Return the rows of a record batch, each with its line end.

    >>> copy_text(pa.record_batch({"who": ["a\\tb", None], "n": [1, 2]}))
    b'a\\\\tb\\t1\\n\\\\N\\t2\\n'
    """
    *others, last = (_fields(column, name) for name, column in zip(batch.schema.names, batch.columns, strict=True))
    lines = _joined([*others, _joined([last, ""], "\n", _NULL)], "\t", _NULL)
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int64)
    return b"" if data is None else bytes(data[int(ends[0]) : int(ends[len(lines)])])


def _joined(parts: list[Any], between: str, null: str | None = None) -> Any:
    """Return texts put together, row by row; a row with a null is null, unless something stands for it."""
    text = pa.large_string()
    parts = [pa.scalar(part, text) if isinstance(part, str) else part.cast(text) for part in parts]
    handling = {} if null is None else {"null_handling": "replace", "null_replacement": null}
    return pc.binary_join_element_wise(*parts, pa.scalar(between, text), **handling)


def _fields(column: Any, name: str) -> Any:
    """Return the values of a column as text; null stays null."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return _fields(column.cast(type_.value_type), name)
    if pa.types.is_nested(type_):
        return _escaped(json_columns.encode(column, name, "to_sink").cast(pa.large_string()))
    if json_columns.is_bytes(type_):
        return _hexadecimal(column.cast(pa.large_binary()))
    if json_columns.is_text(type_):
        return _escaped(column)
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return _joined([column.cast(pa.timestamp(type_.unit)).cast(pa.string()), "Z"], "")
    if pa.types.is_duration(type_):
        return _joined([column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string()), "us"], " ")
    return column.cast(pa.string())


def _escaped(column: Any) -> Any:
    column = column.cast(pa.large_string())
    data = column.buffers()[2]
    found = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    for character, escape in _ESCAPES.items():
        if (found == ord(character)).any():
            column = pc.replace_substring(column, character, escape)
    return column


def _hexadecimal(column: Any) -> Any:
    """Return bytes as text: two backslashes, as COPY reads them as one, an x, and the digits."""
    validity, offsets, data = column.buffers()
    count = column.offset + len(column)
    starts = np.frombuffer(offsets, np.int64)[: count + 1] * 2
    digits = _HEX[np.frombuffer(data, np.uint8)] if data is not None else np.empty(0, np.uint16)
    buffers = pa.py_buffer(starts), pa.py_buffer(digits)
    text = pa.LargeStringArray.from_buffers(count, *buffers, validity).slice(column.offset)
    return _joined(["\\\\x", text], "")

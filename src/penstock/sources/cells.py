"""Keys and columns of text as the types of a program have them. A cell that does not fit stays text, and fails where
the program decodes it."""

from __future__ import annotations

from datetime import date, datetime
from functools import cache
from math import isfinite
from typing import Any, get_type_hints

import msgspec
import pyarrow as pa

from penstock.arrays import binary
from penstock.serdes import STR, Serde, json_columns, plain_type
from penstock.serdes.json import JsonSerde
from penstock.serdes.json_columns import text_of
from penstock.values.decoding import json_decoder

_KINDS = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), datetime: pa.timestamp("us"), date: pa.date32()}
"""The types of fields as which columns of text are read; all others stay text."""


def keys_of(values: list[Any], serde: Serde) -> Any:
    """Return keys as bytes. One that does not fit the type is the bytes of its JSON.

    >>> from penstock.serdes import INT
    >>> keys_of(["ann", None, 5], STR).to_pylist(), keys_of([1, "x"], INT).to_pylist()
    ([b'ann', None, b'5'], [b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01', b'"x"'])
    """
    try:
        return serde.encode_all(values)
    except Exception:
        return binary([None if value is None else _key_of(value, serde) for value in values])


def _key_of(value: Any, serde: Serde) -> bytes:
    try:
        return serde.encode_to_bytes(value)
    except Exception:
        if isinstance(value, str) and serde is STR:
            return value.encode()
        text = msgspec.json.encode(value)
        return text + b" " if serde.plain in (int, float) and _is_read(text, serde) else text


def _is_read(text: bytes, serde: Serde) -> bool:
    """Return whether text has as many bytes as numbers of a type, and so would be taken for one of them."""
    try:
        serde.decode(text)
    except Exception:
        return False
    return True


def keys_in_lines(lines: Any, field: str, serde: Serde) -> Any:
    """Return the keys that are a field of JSON objects; null for what is no object, or lacks the field."""
    return keys_of([field_in_line(line, field) for line in lines.to_pylist()], serde)


def field_in_line(line: bytes, field: str) -> Any:
    """Return a field of a JSON object; None for what is no object, or lacks the field.

    >>> field_in_line(b'{"id": 7}', "id"), field_in_line(b"no json", "id")
    (7, None)
    """
    try:
        return json_decoder(_with_key(field)).decode(line).key
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the record fails where its value is decoded
        return None


@cache
def _with_key(field: str) -> type:
    return msgspec.defstruct("Line", [("key", Any, msgspec.field(name=field, default=None))])


def keys_of_text(column: Any, serde: Serde) -> Any:
    """Return the keys in a column of text."""
    if serde is STR:
        return column.cast(pa.binary())
    kind = _KINDS.get(serde.plain) if serde.plain is not None else None
    return keys_of(_cells(column, kind), serde)


def keys_of_column(column: Any, serde: Serde) -> Any:
    """Return the keys in a column of any type."""
    if serde is STR and not pa.types.is_nested(column.type):
        return column.cast(pa.string()).cast(pa.binary())
    if isinstance(serde, JsonSerde):
        return json_columns.encode(column, "key", "source")
    return keys_of(column.to_pylist(), serde)


def objects_of_text(batch: Any, serde: Serde, where: str) -> Any:
    """Return rows of text as JSON objects, with the types that the fields of the values have."""
    kinds = _fields_of(serde)
    columns = {name: _cast(batch.column(name), kinds.get(name)) for name in batch.schema.names}
    if all(one is not None for one in columns.values()):
        return json_columns.encode_rows(pa.record_batch(list(columns.values()), names=list(columns)), where)
    return _one_by_one(batch, kinds)


def _one_by_one(batch: Any, kinds: dict[str, Any]) -> Any:
    """The objects of rows some of which do not fit: their cells stay text."""
    columns = {name: _as_json(_cells(batch.column(name), kinds.get(name))) for name in batch.schema.names}
    names = list(columns)
    return binary(
        [msgspec.json.encode(dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    )


def _as_json(cells: list[Any]) -> list[Any]:
    """Return cells with text in place of floats that JSON does not have."""
    return [text_of(one) if type(one) is float and not isfinite(one) else one for one in cells]


def _cells(column: Any, kind: Any) -> list[Any]:
    whole = _cast(column, kind)
    if whole is not None:
        return whole.to_pylist()  # type: ignore[no-any-return]
    found = []
    for cell in column.to_pylist():
        one = _cast(pa.array([cell], pa.string()), kind)
        found.append(cell if one is None else one[0].as_py())
    return found


def _cast(column: Any, kind: Any) -> Any:
    """Return a column of text as another type; None if a cell does not fit. Cells without text are nulls."""
    if kind is None:
        return column
    import pyarrow.compute as pc

    try:
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column).cast(kind)
    except pa.ArrowException:
        return None


def _fields_of(serde: Serde) -> dict[str, Any]:
    """The Arrow types of the fields of values that are read as other types than text."""
    return _fields_of_type(serde.type) if isinstance(serde, JsonSerde) else {}


@cache
def _fields_of_type(type_: Any) -> dict[str, Any]:
    try:
        hints = get_type_hints(type_)
    except Exception:  # a type without fields
        return {}
    names = getattr(type_, "__struct_fields__", ()), getattr(type_, "__struct_encode_fields__", ())
    renamed = dict(zip(*names, strict=True)) if any(names) else {}
    found = {renamed.get(name, name): _KINDS.get(_plainly(hint)) for name, hint in hints.items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def _plainly(hint: Any) -> Any:
    """A type without Optional and names."""
    import types
    import typing

    found = plain_type(hint)
    if typing.get_origin(found) in (typing.Union, types.UnionType):
        others = [one for one in typing.get_args(found) if one is not type(None)]
        found = others[0] if len(others) == 1 else found
    try:
        hash(found)
    except TypeError:
        return None
    return found

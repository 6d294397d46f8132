"""The Python types of Arrow's: what JSON that ``json_columns`` wrote is read into.

whole numbers, floats, text     int, float, str
booleans, bytes, null           bool, bytes, None
decimals, UUIDs                 Decimal, UUID
timestamps                      datetime, with a zone where the column has one
dates, times of day, durations  date, time, timedelta
structs, lists                  dict, list
maps                            dict; with keys of booleans, structs, lists or maps a list of (key, value)
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypedDict
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.types as is_

from penstock.serdes import json_columns
from penstock.serdes.json_columns import is_bytes, is_list, is_named, is_text

_INT64 = range(-(2**63), 2**63)


class _Floats(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, float)


class Float(metaclass=_Floats):
    """A float that may be text in JSON: NaN and the infinities. ``msgspec`` asks ``as_float`` for it."""


def as_float(kind: Any, value: Any) -> float:
    """A float, for the ``dec_hook`` of ``msgspec``."""
    if kind is Float and type(value) in (int, float):
        return float(value)
    if kind is Float and value in NON_FINITE:
        return NON_FINITE[value]
    raise ValueError(f"Expected `float`, got {value!r}")


NON_FINITE = {json_columns.text_of(number): number for number in map(float, ("nan", "inf", "-inf"))}
"""The floats that JSON has as text."""


def python_type(kind: Any, float_: Any = float) -> Any:
    """The type that JSON of an Arrow type is read into; values may be null.

    >>> python_type(pa.list_(pa.date32()))
    list[datetime.date | None] | None
    """
    return _python_type(kind, float_) | None


def _python_type(kind: Any, float_: Any) -> Any:
    if is_.is_struct(kind):
        return TypedDict("Row", {_known(field.name): python_type(field.type, float_) for field in kind})  # type: ignore
    if is_.is_map(kind):
        item = python_type(kind.item_type, float_)
        if is_named(kind.key_type):
            return dict[_python_type(kind.key_type, float), item]  # type: ignore[misc]
        return list[tuple[python_type(kind.key_type, float_), item]]  # type: ignore[misc]
    if is_list(kind):
        return list[python_type(kind.value_type, float_)]  # type: ignore[misc]
    if is_.is_floating(kind):
        return float_
    if is_.is_integer(kind):
        least, most = limits(kind)
        return Annotated[int, msgspec.Meta(ge=least, le=most if most in _INT64 else None)]
    if is_.is_timestamp(kind):
        return Annotated[datetime, msgspec.Meta(tz=kind.tz is not None)]
    return next(type_ for fits, type_ in _PLAIN if fits(kind))


def _known(name: str) -> str:
    """The name of a field, with its UTF-8 made, which ``msgspec`` looks for in TypedDicts and does not make."""
    msgspec.json.encode(name)
    return name


_PLAIN: tuple[tuple[Callable[[Any], bool], Any], ...] = (
    (is_text, str),
    (is_bytes, bytes),
    (is_.is_boolean, bool),
    (is_.is_decimal, Decimal),
    (is_.is_date, date),
    (is_.is_time, time),
    (is_.is_duration, timedelta),
    (is_.is_null, type(None)),
    (lambda kind: isinstance(kind, pa.UuidType), UUID),
)


def limits(kind: Any) -> tuple[int, int]:
    """The least and the greatest number of a type of whole numbers.

    >>> limits(pa.int8()), limits(pa.uint16())
    ((-128, 127), (0, 65535))
    """
    bits = kind.bit_width
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_.is_signed_integer(kind) else (0, (1 << bits) - 1)


def plain(kind: Any) -> Any:
    """The type as it comes back: everything but keys may be null, categories are what they stand for, and views of
    lists are lists."""
    return mapped(kind, lambda one: plain(one.value_type) if is_.is_dictionary(one) else one)


def stored(kind: Any) -> Any:
    """The type of which Arrow makes arrays of Python values, and which it casts to the type: it makes no UUIDs."""
    return mapped(kind, lambda one: one.storage_type if isinstance(one, pa.UuidType) else one)


def mapped(kind: Any, change: Callable[[Any], Any]) -> Any:
    """The type with all that is not nested changed, and may be null."""

    def field(one: Any) -> Any:
        return pa.field(one.name, mapped(one.type, change), metadata=one.metadata)

    if is_.is_struct(kind):
        return pa.struct([field(one) for one in kind])
    if is_.is_map(kind):
        return pa.map_(mapped(kind.key_type, change), field(kind.item_field), keys_sorted=kind.keys_sorted)
    if is_.is_fixed_size_list(kind):
        return pa.list_(field(kind.value_field), kind.list_size)
    if is_.is_large_list(kind) or is_.is_large_list_view(kind):
        return pa.large_list(field(kind.value_field))
    return pa.list_(field(kind.value_field)) if is_list(kind) else change(kind)

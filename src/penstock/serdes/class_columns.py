"""Columns of classes that have fields without an Arrow type, such as ``Decimal``: these fields are columns of text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

import msgspec
import msgspec.inspect as kinds
import pyarrow as pa

from penstock.errors import SerdeError
from penstock.serdes.arrow_types import arrow_type
from penstock.serdes.json import JsonSerde
from penstock.values.decoding import json_decoder

_CLASSES = kinds.DataclassType | kinds.StructType | kinds.TypedDictType
_TEXTS = (
    kinds.DateTimeType,
    kinds.DateType,
    kinds.TimeType,
    kinds.TimeDeltaType,
    kinds.DecimalType,
    kinds.UUIDType,
)
"""Types that JSON has as text."""


@dataclass(frozen=True)
class ClassField:
    """A field of a class, and its column.

    Attributes:
        name: its name in Python.
        column: the column, a ``pyarrow.Field``.
        text: makes the text of a value that has no Arrow type; None if it has one.
    """

    name: str
    column: Any
    text: Callable[[Any], str] | None

    def values(self, objects: list[Any]) -> list[Any]:
        """Return its value in some objects."""
        return [None if one is None else _get(one, self.name) for one in objects]

    def of(self, objects: list[Any]) -> Any:
        """Return the column of some objects."""
        found = self.values(objects)
        if self.text is not None:
            return pa.array([None if one is None else self.text(one) for one in found], pa.string())
        plain = found if self.column.type == pa.binary() else msgspec.to_builtins(found)
        try:
            return pa.array(plain, self.column.type)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise SerdeError(f"field {self.name!r} does not go into a column of {self.column.type}: {error}") from None


def _get(one: Any, name: str) -> Any:
    return one.get(name) if isinstance(one, dict) else getattr(one, name)


def class_fields(serde: JsonSerde) -> tuple[ClassField, ...] | None:
    """Return the fields of a class some of which have no Arrow type; None for all other types.

    >>> from decimal import Decimal
    >>> Order = msgspec.defstruct("Order", [("pieces", int), ("price", Decimal)])
    >>> [str(one.column.type) for one in class_fields(JsonSerde(Order))]
    ['int64', 'string']
    """
    return None if arrow_type(serde.type) is not None else _fields(serde.type)


@cache
def _fields(type_: Any) -> tuple[ClassField, ...] | None:
    kind = kinds.type_info(type_)
    if not isinstance(type_, type) or not isinstance(kind, _CLASSES) or not kind.fields:
        return None
    if getattr(kind, "array_like", False) or getattr(kind, "tag", None):
        return None
    try:
        hints = get_type_hints(type_, include_extras=True)
    except NameError:  # a class inside a function that names itself
        return None
    return tuple(_field(one, hints[one.name]) for one in kind.fields)


def _field(field: Any, hint: Any) -> ClassField:
    kind = arrow_type(hint)
    if kind is None and isinstance(_plainly(field.type), kinds.BytesType):
        kind = pa.binary()
    column = pa.field(field.encode_name, pa.string() if kind is None else kind)
    return ClassField(field.name, column, None if kind is not None else _writer(field.type, hint))


def _writer(kind: Any, hint: Any) -> Callable[[Any], str]:
    """Return what writes a value as text: as JSON, without quotes if it is text in any case."""
    encode = JsonSerde(hint).encode
    if not _is_text(_plainly(kind)):
        return lambda value: encode(value).decode()
    read = json_decoder(str).decode
    return lambda value: read(encode(value))


def _plainly(kind: Any) -> Any:
    """Return a type without None."""
    if isinstance(kind, kinds.UnionType):
        others = [one for one in kind.types if not isinstance(one, kinds.NoneType)]
        return others[0] if len(others) == 1 else kind
    return kind


def _is_text(kind: Any) -> bool:
    if isinstance(kind, kinds.EnumType):
        return all(isinstance(one.value, str) for one in kind.cls)
    if isinstance(kind, kinds.LiteralType):
        return all(isinstance(one, str) for one in kind.values)
    return isinstance(kind, _TEXTS)

"""NaN and the infinities in JSON: text where the type says float, ``"NaN"``; refused where nothing says so."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec.inspect as kinds

from penstock.errors import SerdeError
from penstock.serdes.json_columns import text_of
from penstock.serdes.json_types import NON_FINITE

Change = Callable[[Any, bool], Any]
"""Changes a value that is not nested; the flag says whether the type has a float there."""


def may_hold_floats(type_: Any) -> bool:
    """Whether there is a float somewhere in a type.

    >>> may_hold_floats(dict[str, float]), may_hold_floats(list[int])
    (True, False)
    """
    return _has_float(kinds.type_info(type_), ())


def _has_float(kind: kinds.Type, within: tuple[Any, ...]) -> bool:
    if isinstance(kind, kinds.FloatType):
        return True
    cls = getattr(kind, "cls", kind)
    return cls not in within and any(_has_float(inner, (*within, cls)) for inner in inner_types(kind))


def inner_types(kind: kinds.Type) -> list[kinds.Type]:
    """The types of what values of a type contain, apart from the keys of dicts."""
    if isinstance(kind, kinds.UnionType):
        return list(kind.types)
    if isinstance(kind, kinds.DictType):
        return [kind.value_type]
    if isinstance(kind, kinds.TupleType):
        return list(kind.item_types)
    if hasattr(kind, "fields"):
        return [field.type for field in kind.fields]
    return [kind.item_type] if hasattr(kind, "item_type") else []


def with_text(value: Any, type_: Any) -> Any:
    """A value of ``msgspec.to_builtins`` of a type, with text for floats that JSON does not have.

    Raises:
        SerdeError: there is one where the type has no float.
    """

    def change(one: Any, is_float: bool) -> Any:
        if not isinstance(one, float) or isfinite(one):
            return one
        if is_float:
            return text_of(one)
        raise SerdeError(f"JSON has no number {one}; use None or text instead, or the type float")

    return _changed(value, kinds.type_info(type_), change)


def with_floats(value: Any, type_: Any) -> Any:
    """Return a value of JSON for ``msgspec.convert``, with floats in place of text where the type has floats."""

    def change(one: Any, is_float: bool) -> Any:
        return NON_FINITE.get(one, one) if is_float and type(one) is str else one

    return _changed(value, kinds.type_info(type_), change)


def _changed(value: Any, kind: kinds.Type, change: Change) -> Any:
    if isinstance(value, dict):
        return {key: _changed(one, _field(kind, key), change) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(one, _item(kind, place), change) for place, one in enumerate(value)]
    return change(value, any(isinstance(one, kinds.FloatType) for one in _members(kind)))


def _members(kind: kinds.Type) -> list[kinds.Type]:
    return list(kind.types) if isinstance(kind, kinds.UnionType) else [kind]


def _field(kind: kinds.Type, name: Any) -> kinds.Type:
    """The type of what stands under a name in an object; anything where the type does not say."""
    for one in _members(kind):
        if isinstance(one, kinds.DictType):
            return one.value_type
        for field in getattr(one, "fields", ()):
            if field.encode_name == name:
                return field.type  # type: ignore[no-any-return]
    return kinds.AnyType()


def _item(kind: kinds.Type, place: int) -> kinds.Type:
    """The same of an element of an array."""
    for one in _members(kind):
        if hasattr(one, "item_type"):
            return one.item_type  # type: ignore[no-any-return]
        types = getattr(one, "item_types", None) or [field.type for field in getattr(one, "fields", ())]
        if place < len(types):
            return types[place]  # type: ignore[no-any-return]
    return kinds.AnyType()

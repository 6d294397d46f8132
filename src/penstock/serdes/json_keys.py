"""Keys of JSON objects are text. Two keys of a dict that are the same text would be one when they are read."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache
from itertools import chain
from typing import Any
from uuid import UUID

import msgspec.inspect as kinds

from penstock.errors import SerdeError
from penstock.messages import show
from penstock.serdes.non_finite import inner_types

_PLAIN = frozenset((str, int, float, bool, bytes, type(None)))
_DISTINCT = frozenset((str, int, float, bytes, date, UUID))
"""Types of keys: two of one of them are never the same text."""


def may_hold_other_keys(type_: Any) -> bool:
    """Whether values of a type may contain a dict whose keys are of several types.

    >>> may_hold_other_keys(dict), may_hold_other_keys(list[int])
    (True, False)
    """
    return _has_dict(kinds.type_info(type_), ())


def _has_dict(kind: kinds.Type, within: tuple[Any, ...]) -> bool:
    if isinstance(kind, kinds.AnyType | kinds.DictType):
        return True
    cls = getattr(kind, "cls", kind)
    return cls not in within and any(_has_dict(inner, (*within, cls)) for inner in inner_types(kind))


def check_keys(value: Any, data: bytes) -> None:
    """Raise ``SerdeError`` if two keys of a dict in a value are the same text in its JSON.

    >>> check_keys({1: "a", "b": "c"}, b'{"1":"a","b":"c"}')
    """
    if not are_distinct(value):
        json.loads(data, object_pairs_hook=_refuse_twins)


def all_distinct(values: list[Any], data: bytes) -> bool:
    """Whether ``are_distinct`` is true of all values.

    Dicts with nothing nested in them are found by their JSON, and joined keys are text: that costs little.

    Args:
        data: the JSON of the values.
    """
    if data.count(b"{") == len(values) and b"[" not in data and set(map(type, values)) == {dict}:
        try:
            "".join(chain.from_iterable(values))
        except TypeError:
            pass
        else:
            return True
    return all(map(are_distinct, values))


def are_distinct(value: Any) -> bool:
    """Whether all dicts in a value have keys of one type; other ones may have two that are the same text.

    >>> are_distinct({"a": [{"b": 1}]}), are_distinct({"a": {1: 2, "1": 3}})
    (True, False)
    """
    kind: Any = type(value)
    if kind is dict:
        for key, part in value.items():  # a loop takes half the time of what is nested in functions
            if type(key) is not str:
                return _of_one_type(value)
            if type(part) not in _PLAIN and not are_distinct(part):
                return False
        return True
    if kind in _PLAIN:
        return True
    if isinstance(value, dict):
        return _of_one_type(value)
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(are_distinct, value))
    return all(are_distinct(getattr(value, name, None)) for name in _fields(kind))


def _of_one_type(value: dict[Any, Any]) -> bool:
    found = set(map(type, value))
    return len(found) <= 1 and found <= _DISTINCT and all(map(are_distinct, value.values()))


@cache
def _fields(type_: type) -> tuple[str, ...]:
    """The names of a class's fields, as ``msgspec`` writes them."""
    if is_dataclass(type_):
        return tuple(field.name for field in fields(type_))
    struct: tuple[str, ...] = getattr(type_, "__struct_fields__", ())
    return struct or tuple(field.name for field in getattr(type_, "__attrs_attrs__", ()))


def _refuse_twins(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise SerdeError(
                f"two keys of a dict in it are both the text {show(key)} in JSON, and one would be lost; give all of "
                "its keys one type"
            )
        seen.add(key)

"""Finds the fields of JSON that a type does not have, and that reading it therefore leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec
from msgspec import inspect


class Finder(Protocol):
    """Finds such fields in plain JSON data."""

    def find(self, plain: Any, path: str) -> Iterator[str]:
        """Yield their names, with those of the fields around them in front."""


def finder_of(type_: Any) -> Finder | None:
    """Return the finder of a type; None if reading it leaves nothing out, as it has no fields or takes any.

    >>> class Order(msgspec.Struct):
    ...     cents: int
    >>> list(finder_of(list[Order]).find([{"cents": 5, "shop": "a"}], ""))
    ['shop']
    >>> finder_of(dict[str, int])
    """
    known: dict[int, _Fields] = {}
    return _finder(inspect.type_info(type_), known)


def _finder(info: inspect.Type, known: dict[int, _Fields]) -> Finder | None:
    if isinstance(info, inspect.StructType | inspect.DataclassType | inspect.TypedDictType):
        if id(info) not in known:  # a type may have fields of itself
            known[id(info)] = _Fields(info, known)
        return known[id(info)]
    if isinstance(info, inspect.UnionType):
        found = [one for one in (_finder(kind, known) for kind in info.types) if one is not None]
        return _OneOf(found) if len(found) > 1 else found[0] if found else None
    if isinstance(info, inspect.CollectionType):
        item = _finder(info.item_type, known)
        return None if item is None else _Items(item)
    if isinstance(info, inspect.TupleType):
        places = [_finder(kind, known) for kind in info.item_types]
        return _Places(places) if any(places) else None
    if isinstance(info, inspect.DictType):
        value = _finder(info.value_type, known)
        return None if value is None else _Values(value)
    return None


class _Fields:
    """The fields of a class."""

    def __init__(
        self, info: inspect.StructType | inspect.DataclassType | inspect.TypedDictType, known: dict[int, _Fields]
    ):
        known[id(info)] = self
        self.fields = {one.encode_name: _finder(one.type, known) for one in info.fields}
        tag = getattr(info, "tag_field", None)
        self.tag = None if tag is None else (tag, getattr(info, "tag", None))
        if tag is not None:
            self.fields[tag] = None
        self._is_array = bool(getattr(info, "array_like", False))

    def find(self, plain: Any, path: str) -> Iterator[str]:
        if self._is_array or not isinstance(plain, dict):
            return
        for name, value in plain.items():
            if name not in self.fields:
                yield path + name
            elif (within := self.fields[name]) is not None:
                yield from within.find(value, f"{path}{name}.")


class _OneOf:
    """Several types, of which a value is one: the one that its tag names, or else the one that leaves out least."""

    def __init__(self, finders: list[Finder]):
        self._finders = finders

    def find(self, plain: Any, path: str) -> Iterator[str]:
        tagged = [one for one in self._finders if isinstance(one, _Fields) and _is_tagged(plain, one)]
        yield from min((list(one.find(plain, path)) for one in tagged or self._finders), key=len)


def _is_tagged(plain: Any, fields: _Fields) -> bool:
    return fields.tag is not None and isinstance(plain, dict) and plain.get(fields.tag[0]) == fields.tag[1]


class _Items:
    def __init__(self, item: Finder):
        self._item = item

    def find(self, plain: Any, path: str) -> Iterator[str]:
        for one in plain if isinstance(plain, list) else ():
            yield from self._item.find(one, path)


class _Places:
    def __init__(self, places: list[Finder | None]):
        self._places = places

    def find(self, plain: Any, path: str) -> Iterator[str]:
        for one, place in zip(plain if isinstance(plain, list) else (), self._places, strict=False):
            if place is not None:
                yield from place.find(one, path)


class _Values:
    def __init__(self, value: Finder):
        self._value = value

    def find(self, plain: Any, path: str) -> Iterator[str]:
        for one in plain.values() if isinstance(plain, dict) else ():
            yield from self._value.find(one, f"{path}*.")


def unknown_fields_of(finder: Finder, text: bytes) -> list[str]:
    """Return the names of such fields in JSON text, each one once."""
    return list(dict.fromkeys(finder.find(msgspec.json.decode(text), "")))

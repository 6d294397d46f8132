"""Reads a field of each record for an aggregate, or a function's result, or the value itself; and tells its type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, itemgetter, or_
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from penstock.errors import TopologyError
from penstock.messages import nearest, show
from penstock.plan.fields import MISSING, found_at
from penstock.plan.functions import UserFunction, user_function
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde

_FORMS = (("value",), ("key", "value"))
_METHOD = "aggregate"


@dataclass(frozen=True)
class Reading:
    """Reads one thing of each record.

    ``type`` is the type of what is read, without its None, which may always come; ``Any`` if nothing tells it.
    """

    path: tuple[str, ...] | None
    function: UserFunction | None
    type: Any

    @property
    def functions(self) -> list[UserFunction]:
        """The user's functions that it calls."""
        return [] if self.function is None else [self.function]

    @property
    def number(self) -> str | None:
        """The name of the field that it reads, if that has numbers of one type."""
        is_number = self.function is None and self.path is not None and self.type in (int, float)
        return self.path[0] if is_number and self.path is not None and len(self.path) == 1 else None

    def of(self, key: Any, value: Any) -> Any:
        """Return what is read of one record; None for a record without a value."""
        if value is None:
            return None
        if self.function is not None:
            return self.function.call(value) if self.function.arity == 1 else self.function.call(key, value)
        if self.path is None:
            return value
        found = found_at(value, self.path)
        return None if found is MISSING else found

    def column(self, keys: Callable[[], Sequence[Any]], values: list[Any]) -> list[Any]:
        """Return what is read of many records."""
        if self.path is None and self.function is None:
            return values
        if None in values:
            return list(map(self.of, keys(), values))
        if self.function is not None:
            arguments = [values] if self.function.arity == 1 else [keys(), values]
            return list(map(self.function.call, *arguments))
        assert self.path is not None
        (kind, *others) = set(map(type, values)) or {NoneType}
        if len(self.path) == 1 and not others and self.path[0] in _attributes(kind):
            return list(map(attrgetter(self.path[0]), values))
        if len(self.path) == 1 and kind is dict and not others:
            try:
                return list(map(itemgetter(self.path[0]), values))
            except KeyError:
                pass
        return [self.of(None, value) for value in values]


@dataclass(frozen=True)
class RankedReading(Reading):
    """Reads a pair of each record: its rank, and what the reading itself reads."""

    rank: Reading

    @property
    def number(self) -> None:
        return None

    def of(self, key: Any, value: Any) -> Any:
        return None if value is None else (self.rank.of(key, value), super().of(key, value))

    def column(self, keys: Callable[[], Sequence[Any]], values: list[Any]) -> list[Any]:
        return list(map(self.of, keys(), values))

    @property
    def functions(self) -> list[UserFunction]:
        return [*super().functions, *self.rank.functions]


def _attributes(kind: type) -> Iterable[str]:
    """The fields of a class that every value of it has."""
    return getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None) or ()


def reading_of(what: Any, called: str, value: Serde, where: str) -> Reading:
    """Return what an aggregate reads of values of a type.

    Args:
        what: the name of a field, a function of (value) or (key, value), or None for the value itself.
        called: the aggregate as the user wrote it, for errors.

    Raises:
        TopologyError: values of the type have no such field.
    """
    if what is None:
        return Reading(None, None, without_none(value.type if isinstance(value, JsonSerde) else value.plain or Any))
    if isinstance(what, str):
        return _field(what, called, value, where)
    function = user_function(what, _METHOD, *_FORMS)
    return Reading(None, function, without_none(function.returns()))


def _field(name: str, called: str, value: Serde, where: str) -> Reading:
    names, type_ = field_type(name, f"{_METHOD} at {where}: {called}", value)
    return Reading(names, None, type_)


def field_type(name: str, begin: str, value: Serde) -> tuple[tuple[str, ...], Any]:
    """Return the names on the way to a field, and its type without None; ``Any`` if nothing tells it.

    Args:
        begin: begins errors.

    Raises:
        TopologyError: values of the type have no such field.
    """
    names = tuple(name.split("."))
    if not all(names):
        raise TopologyError(f'{begin}: {name!r} names no field; write it like "amount" or "payload.amount"')
    if value.plain is not None:
        raise TopologyError(
            f"{begin}: values of type {value.name} have no fields; leave the field out for the value itself, or give a "
            "function of (value)"
        )
    kind = without_none(value.type) if isinstance(value, JsonSerde) else Any
    return names, _type_at(kind, names, begin)


def _type_at(kind: Any, names: tuple[str, ...], begin: str) -> Any:
    """Return the type of a field, or of a field of a field; ``Any`` if the type does not tell."""
    for number, name in enumerate(names):
        fields = fields_of_class(kind)
        if fields is None:
            if kind in _PLAIN:
                raise TopologyError(f"{begin}: values of type {shown_type(kind)} have no field {name!r}")
            return _item(kind)
        if ".".join(names[number:]) in fields:  # a name with dots in it
            return without_none(fields[".".join(names[number:])])
        if name not in fields:
            if isinstance(getattr(kind, name, None), property):
                return Any
            raise TopologyError(
                f"{begin}: {shown_type(kind)} has no field {name!r}{nearest(name, fields)}; its fields are "
                f"{', '.join(fields)}"
            )
        kind = without_none(fields[name])
    return kind


_PLAIN = (str, int, float, bool, bytes)


def fields_of_class(kind: Any) -> dict[str, Any] | None:
    """Return the fields of a class with their types; None for other types."""
    if not (hasattr(kind, "__struct_fields__") or dataclasses.is_dataclass(kind) or is_typeddict(kind)):
        return None
    try:
        hints = get_type_hints(kind)
    except NameError:  # a class inside a function that names itself
        hints = {}
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", hints)
    return {name: hints.get(name, Any) for name in names}


def _item(kind: Any) -> Any:
    return without_none(get_args(kind)[1]) if get_origin(kind) is dict and len(get_args(kind)) == 2 else Any


def without_none(kind: Any) -> Any:
    """Return a type without its None, and without what is annotated on it."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if kind is None or isinstance(kind, str):
        return Any
    if get_origin(kind) in (Union, UnionType):
        others = [without_none(one) for one in get_args(kind) if one is not NoneType]
        return reduce(or_, dict.fromkeys(others)) if others else Any
    return kind


def shown_type(kind: Any) -> str:
    """Return a type as users write it."""
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else show(kind).replace("typing.", "")

"""Fields of values, given by name instead of by function: ``"event_id"``, ``"payload.id"``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import TopologyError
from penstock.plan.functions import UserFunction, caller
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde
from penstock.values.times import UNITS, Unit, parsed

JSON_TYPES = frozenset((dict, list, str, int, float, bool, type(None)))
"""The types that plain JSON decodes to; their attributes are not fields."""


@dataclass(frozen=True)
class Field:
    """A field of the value, or a nested field, found by ``found_at``; a missing field is None."""

    path: tuple[str, ...]
    where: str
    """The user's file and line of the DSL call that received it."""

    def of(self, value: Any) -> Any:
        """Return the field of one value."""
        found = found_at(value, self.path)
        return None if found is MISSING else found


def field(path: str, method: str, value: Serde) -> Field:
    """Return the field that a text names, for values of this type.

    Raises:
        TopologyError: the text names no field, or values of this type have none.
    """
    where = caller()
    names = tuple(path.split("."))
    if not all(names):
        raise TopologyError(f'{method} at {where}: {path!r} names no field; write it like "id" or "payload.id"')
    if not isinstance(value, JsonSerde):
        raise TopologyError(
            f"{method} at {where}: values of type {value.name} have no field {path!r}; give a function of "
            "(key, value), or read the values as JSON"
        )
    return Field(names, where)


class _Missing:
    """The mark below. A class is one and the same in every process."""


MISSING: Any = _Missing
"""Marks that nothing was found."""


def found_at(value: Any, names: Sequence[str]) -> Any:
    """Find the value under a path of names. A name in the value may contain dots itself, as in ECS; nested fields take
    precedence.

    >>> found_at({"log": {"level": 1}, "log.level": 2}, ["log", "level"]), found_at({"log.level": 2}, ["log", "level"])
    (1, 2)
    >>> found_at({"a": 1}, ["b"]) is MISSING
    True
    """
    for count in range(1, len(names) + 1):
        name = ".".join(names[:count])
        found = value.get(name, MISSING) if type(value) is dict else _attribute(value, name)
        if found is not MISSING and count < len(names):
            found = found_at(found, names[count:])
        if found is not MISSING:
            return found
    return MISSING


def _attribute(value: Any, name: str) -> Any:
    return MISSING if type(value) in JSON_TYPES else getattr(value, name, MISSING)


def time_field(path: str, value: Serde, unit: Unit) -> UserFunction:
    """Return a function of (value) that reads the time field that a text names; raises like ``field``.

    Args:
        unit: the unit of times given as numbers.
    """
    named = field(path, "timestamp", value)

    def read(value: Any) -> Any:
        found = found_at(value, named.path)
        if isinstance(found, int | float) and unit is not UNITS["ms"]:
            return parsed(found, unit)
        if found is MISSING:
            raise LookupError(f"the value has no field {path!r}, which timestamp= names")
        return found

    read.__qualname__ = f"the field {path!r}"
    return UserFunction(read, 1, columnar=False, where=named.where)

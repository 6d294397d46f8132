"""Fields of values, named instead of written as functions: ``"event_id"``, ``"payload.id"``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import TopologyError
from penstock.plan.functions import UserFunction, caller
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde

JSON_TYPES = frozenset((dict, list, str, int, float, bool, type(None)))
"""What plain JSON decodes to; the attributes of these are not fields."""


@dataclass(frozen=True)
class Field:
    """A field of the value, or a field of a field of it; what is not there is None."""

    path: tuple[str, ...]
    where: str
    """The user's file and line of the DSL call it was given to."""

    def of(self, value: Any) -> Any:
        """The field of one value."""
        for name in self.path:
            if type(value) is dict:
                value = value.get(name)
            else:
                value = None if type(value) in JSON_TYPES else getattr(value, name, None)
        return value


def field(path: str, method: str, value: Serde) -> Field:
    """The field that a text names, for values of this type.

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


def field_function(path: str, method: str, value: Serde) -> UserFunction:
    """A function of (value) that gives the field that a text names; raises as ``field`` does."""
    named = field(path, method, value)

    def read(value: Any) -> Any:
        return named.of(value)

    read.__qualname__ = f"the field {path!r}"
    return UserFunction(read, 1, columnar=False, where=named.where)

"""The classes of what aggregates keep, and of their results: Structs that are made for their fields."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

import msgspec

from penstock.serdes.json import JsonSerde
from penstock.serdes.json_flat import flat_fields

Fields = tuple[tuple[str, Any], ...]
"""Names and types."""


class StructSerde(JsonSerde):
    """JSON of a Struct that is made for its fields, wherever the serde gets to.

    >>> serde = StructSerde((("orders", int), ("mean", float | None)))
    >>> serde.encode(serde.type(2, 0.5)), serde.decode(b'{"orders":2,"mean":0.5}')
    (b'{"orders":2,"mean":0.5}', Aggregates(orders=2, mean=0.5))
    """

    def __init__(self, fields: Fields):
        self.fields = fields
        super().__init__(struct_of(fields))

    @cached_property
    def is_flat(self) -> bool:
        return flat_fields(self.type) is not None

    def __reduce__(self) -> Any:
        return StructSerde, (self.fields,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructSerde) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash((StructSerde, tuple(name for name, _ in self.fields)))


def struct_of(fields: Fields) -> Any:
    """Return the Struct of these fields, the same one each time if the types can be looked up."""
    try:
        return _known(fields)
    except TypeError:  # a type without a hash
        return _made(fields)


def _made(fields: Fields) -> Any:
    def reduced(one: Any) -> Any:
        return _again, (fields, tuple(getattr(one, name) for name, _ in fields))

    names = {name: name.replace("__", ".") for name, _ in fields}
    return msgspec.defstruct(
        "Aggregates", list(fields), frozen=True, rename=names, namespace={"__reduce__": reduced}, module=__name__
    )


_known = cache(_made)


def _again(fields: Fields, values: tuple[Any, ...]) -> Any:
    return struct_of(fields)(*values)

"""Fields of a column of values, read without a Python call per record."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn, Column, ValuesColumn
from penstock.ops.core.context import Context
from penstock.plan.fields import JSON_TYPES, Field
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde
from penstock.values.decoding import json_decoder

_NAME = "found"
_PLAIN: tuple[Any, ...] = (Any, dict)


class FieldReader:
    """Reads one field of the values of a batch; a missing field reads as None.

    JSON that no other step decodes is parsed only up to the field.
    """

    def __init__(self, node: str, field: Field, context: Context):
        self._node = node
        self._field = field
        self._context = context
        self._decode = _decoder(field.path)
        self._get_decoded = attrgetter(".".join([_NAME] * len(field.path)))
        self._get = attrgetter(".".join(field.path))

    def column(self, batch: Batch, serde: Serde) -> tuple[Batch, Column]:
        """The field of each value as a column, and the batch without the records that do not decode."""
        values = batch.value
        if isinstance(values, BytesColumn) and isinstance(values.serde, JsonSerde) and values.serde.type in _PLAIN:
            found = self._from_json(values)
            if found is not None:
                return batch, ValuesColumn(found, serde)
        batch = self._context.decoded(self._node, batch, "value")
        return batch, ValuesColumn(self._from_values(batch.value.decoded()), serde)

    def _from_json(self, values: BytesColumn) -> list[Any] | None:
        """The fields, read straight from the bytes; None if some value is no object along the path."""
        decode, get, data = self._decode, self._get_decoded, values.encoded()
        items = data.to_pylist()
        try:
            if not data.null_count:
                found = list(map(get, map(decode, items)))
            else:
                found = [None if item is None else get(decode(item)) for item in items]
            if len(self._field.path) > 1 and None in found:  # the field's name may contain dots itself
                of = self._field.of
                for row in [row for row, one in enumerate(found) if one is None]:
                    found[row] = None if items[row] is None else of(msgspec.json.decode(items[row]))
            return found
        except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
            return None

    def _from_values(self, values: list[Any]) -> list[Any]:
        if JSON_TYPES.isdisjoint(map(type, values)):
            try:
                return list(map(self._get, values))
            except AttributeError:
                pass
        return [self._field.of(value) for value in values]


def _decoder(path: tuple[str, ...]) -> Callable[[bytes], Any]:
    """Make a decoder of JSON objects that reads one path and returns nested objects with one field each.

    The objects hold no cycles and are hidden from the garbage collector, which saves a third of the time.
    """
    type_: Any = Any
    default: Any = {"default": None}
    for name in reversed(path):
        type_ = msgspec.defstruct("Found", [(_NAME, type_, msgspec.field(name=name, **default))], gc=False)
        default = {"default_factory": type_}
    return json_decoder(type_).decode

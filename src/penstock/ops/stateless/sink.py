"""The end of a sub-topology: records in the types of the topic they go to."""

from __future__ import annotations

from dataclasses import replace

from penstock.batch import Batch, Changes
from penstock.columns import Column, ValuesColumn
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Operator
from penstock.serdes import Serde


class Sink(Operator):
    """Makes sure that keys and values can be written; records that cannot are left out as the context says."""

    def __init__(self, node: str, context: Context, key: Serde, value: Serde):
        self._node = node
        self._context = context
        self._key = key
        self._value = value

    def step(self, batch: Batch) -> Batch:
        batch = replace(batch, key=as_type(batch.key, self._key), value=as_type(batch.value, self._value))
        if isinstance(batch, Changes) and batch.old is not None:
            batch = replace(batch, old=as_type(batch.old, self._value))
        return self._context.encoded(self._node, batch, "key", "value", "old")


def as_type(column: Column, serde: Serde) -> Column:
    """A column as it is to be written in a type."""
    return column if column.serde == serde else ValuesColumn(column.decoded(), serde)

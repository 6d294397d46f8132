"""Changes of the left table that go past the right table, ahead of all responses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.batch import Batch, Changes
from penstock.columns import BytesColumn
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.tables.lookup import UNKNOWN
from penstock.serdes import Serde


class Announce(Operator):
    """Changes of the left table on their way to where results are made, ahead of all responses.

    Args:
        subscribe: the step that knows what changes in the table and is not sent; None where all is.
        key: the type of the table's keys.
        value: that of its values.
    """

    def __init__(self, context: Context, subscribe: str | None, key: Serde, value: Serde):
        self._context = context
        self._subscribe = subscribe
        self._key = key
        self._value = value

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        if self._context.facts.roots is not None:
            out.emit(replace(batch.as_stream(), timestamp=np.full(len(batch), UNKNOWN)))

    def flush(self, out: Collector) -> None:
        self.end_of_chunk(out)

    def end_of_chunk(self, out: Collector) -> None:
        """Emit what a chunk has changed in silence, such as the windows that it lets expire."""
        changes = None if self._subscribe is None else self._context.chunk.left_changes.get(self._subscribe)
        if changes is None or self._context.facts.roots is None:
            return
        rows = np.argsort(changes.position, kind="stable")
        key, value = BytesColumn(changes.key, self._key).take(rows), BytesColumn(changes.value, self._value).take(rows)
        out.emit(Batch(key, value, np.full(len(rows), UNKNOWN), (changes.position[rows],)))

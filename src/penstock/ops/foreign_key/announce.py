"""Announcements: changes of the left table that bypass the right table and arrive before all responses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.columns.batch import Batch, Changes
from penstock.columns.column import BytesColumn
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.tables.lookup import UNKNOWN
from penstock.serdes import Serde


class Announce(Operator):
    """Sends changes of the left table straight to the step that makes results, ahead of all responses.

    Args:
        subscribe: the step that knows the table's silent changes; None if the table sends all of its changes.
        key: the type of the table's keys.
        value: the type of its values.
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
        """Emit the chunk's silent changes, such as windows that expire."""
        changes = None if self._subscribe is None else self._context.chunk.left_changes.get(self._subscribe)
        if changes is None or self._context.facts.roots is None:
            return
        rows = np.argsort(changes.position, kind="stable")
        key, value = BytesColumn(changes.key, self._key).take(rows), BytesColumn(changes.value, self._value).take(rows)
        out.emit(Batch(key, value, np.full(len(rows), UNKNOWN), (changes.position[rows],)))

"""Looking values up in suppressed tables."""

from __future__ import annotations

import numpy as np

from penstock.batch import Batch
from penstock.columns import BytesColumn, windows_of
from penstock.ops.core.context import Context
from penstock.ops.core.groups import group_keys
from penstock.ops.suppress.operator import HELD, held_before
from penstock.ops.tables.lookup import UNKNOWN, Found, Lookup, values_as_of
from penstock.state.kinds.buffer import TimeOrderedBuffer


class SuppressLookup(Lookup):
    """In a suppressed table: a key that is held back has the value that was sent on last (KIP-328)."""

    def __init__(self, above: Lookup, context: Context, buffer: TimeOrderedBuffer, until_close: bool):
        self._above = above
        self._context = context
        self._buffer = buffer
        self._until_close = until_close

    def find(self, batch: Batch) -> Found:
        found = self._above.find(batch)
        keys, codes = group_keys(found.batch.key.encoded())
        times = np.zeros(len(keys), np.int64)
        if self._until_close:
            times[codes] = windows_of(found.batch.key)[1]
        current = held_before(self._buffer, keys, times)
        prior = values_as_of(self._context, self._buffer.name, current, keys, codes, found.batch)
        held = prior.timestamps == HELD
        if not held.any():
            return found
        every = found.value.join([BytesColumn(prior.data, found.value.serde)])
        rows = np.arange(len(held))
        return found._replace(
            value=every.take(np.where(held, rows + len(held), rows)),
            timestamp=np.where(held, UNKNOWN, found.timestamp),
        )

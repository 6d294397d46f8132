"""Look-ups in suppressed tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray, nulls
from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn, windows_of
from penstock.ops.core.context import Context
from penstock.ops.core.groups import group_keys
from penstock.ops.core.written import PriorValues
from penstock.ops.tables.lookup import UNKNOWN, Found, Lookup
from penstock.state.columns.rows import Keys
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.kinds.held import unpack


class SuppressLookup(Lookup):
    """Looks up values of a suppressed table: a key that is held back has the value that was emitted last (KIP-328)."""

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
        prior = self._prior_values(keys, codes, times, found.batch)
        if not prior.is_held.any():
            return found
        every = found.value.join([BytesColumn(prior.values, found.value.serde)])
        rows = np.arange(len(codes))
        return found.with_columns(
            value=every.take(np.where(prior.is_held, rows + len(rows), rows)),
            timestamp=np.where(prior.is_held, UNKNOWN, found.timestamp),
        )

    def _prior_values(self, keys: Keys, codes: IntArray, times: IntArray, batch: Batch) -> PriorValues:
        """The prior values at the time when the records of a batch are processed."""
        at, values = self._buffer.held(keys, times)
        is_held = at >= 0
        prior = unpack(values.data.drop_null()).prior if is_held.any() else nulls(0)
        current = PriorValues(prior.take(pa.array(np.cumsum(is_held) - 1, mask=~is_held)), is_held)
        written = self._context.chunk.prior.get(self._buffer.name)
        if written is None or not len(written.codes):
            return current.take(codes)
        return written.as_of(current, keys, codes, batch.order)

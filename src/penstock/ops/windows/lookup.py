"""Look-ups in windowed tables."""

from __future__ import annotations

import numpy as np

from penstock.arrays import IntArray, last_numbers, without_last
from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn
from penstock.ops.core.context import Context
from penstock.ops.core.groups import group_keys
from penstock.ops.tables.lookup import UNKNOWN, Found, Lookup, times_of, values_as_of
from penstock.serdes import Serde
from penstock.serdes.nullable import NullableSerde, unmark_nulls
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.window import WindowStore


class WindowLookup(Lookup):
    """Looks up values of a table of windows, as long as the store keeps them."""

    def __init__(self, context: Context, store: WindowStore | SlidingStore, value: Serde):
        self._context = context
        self._store = store
        self._value = value

    def find(self, batch: Batch) -> Found:
        data, codes = group_keys(batch.key.encoded())
        keys = Keys(without_last(data.data, 8), last_numbers(data.data))
        current = self._store.look_up(keys)
        values = without_marks(values_as_of(self._context, self._store.name, current, keys, codes, batch), self._value)
        assert keys.times is not None
        is_kept = keys.times[codes] > self._stream_time(batch) - self._store.retention
        value = BytesColumn(values.data, unmarked(self._value)).where(is_kept)
        return Found(batch, value, np.where(is_kept, times_of(values), UNKNOWN))

    def _stream_time(self, batch: Batch) -> IntArray | int:
        """The stream time of the store when each record is processed."""
        written = self._context.chunk.written.get(self._store.name)
        return self._store.observed_stream_time if written is None else written.stream_time(batch.order, len(batch))


class SessionLookup(Lookup):
    """Looks up values of a table of sessions, as long as the store keeps them."""

    def __init__(self, context: Context, store: SessionStore, value: Serde):
        self._context = context
        self._store = store
        self._value = value

    def find(self, batch: Batch) -> Found:
        keys, codes = group_keys(batch.key.encoded())
        current = self._store.look_up_sessions(keys.data)
        values = values_as_of(self._context, self._store.name, current, keys, codes, batch)
        values = without_marks(values, self._value)
        written = self._context.chunk.written.get(self._store.name)
        now = self._store.observed_stream_time if written is None else written.stream_time(batch.order, len(batch))
        is_kept = current.timestamps[codes] > now - self._store.retention
        value = BytesColumn(values.data, unmarked(self._value)).where(is_kept)
        return Found(batch, value, np.where(is_kept, times_of(values), UNKNOWN))


def without_marks(values: Values, serde: Serde) -> Values:
    """Values as the table shows them: the marked null of a distinct store (KIP-655) is no value."""
    return values.with_columns(data=unmark_nulls(values.data)) if isinstance(serde, NullableSerde) else values


def unmarked(serde: Serde) -> Serde:
    """The type of values without the marks for nulls."""
    return serde.inner if isinstance(serde, NullableSerde) else serde

"""Silent changes in the left table of a foreign-key join: changes that the table does not send.

An inner join without a store, of two tables derived from the same table, sends nothing when a record deletes a row on
both sides: each side finds nothing on the other. Joins after it then report a wrong old row. Windows, too, expire
without a change. As in Kafka Streams, subscriptions to such rows may stay, and responses to them are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray, concat
from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn, Column, null_column
from penstock.columns.rows import Rows
from penstock.ops.core.context import Context
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.left_changes import LeftChanges, differ
from penstock.ops.tables.lookup import UNKNOWN, Lookup
from penstock.ops.tables.table import row_numbers_of
from penstock.serdes import BYTES, Serde
from penstock.state.clock import StreamTime
from penstock.state.kinds.segments import SegmentedStore
from penstock.state.store import StateStore
from penstock.state.transactional import physical_keys

_FIRST, _LAST = -1, 2**62
"""Before and after everything that a record causes."""


@dataclass(frozen=True, slots=True)
class Touched(Rows):
    """Rows before and after records that may have changed them, in processing order."""

    key: Column
    before: Column
    after: Column
    position: IntArray

    def changed(self) -> Touched:
        """The rows that differ from what they were before the record."""
        return self.keep(differ(self.before.encoded(), self.after.encoded()))


class SilentTable:
    """A table with silent changes. Finds them by reading the table before and after each record.

    Args:
        table: the left table.
        stores: the stores that the table is read from.
        expired: for each store with expiring windows, the stream time up to which its expired windows have been found.
        key: the type of its keys.
    """

    def __init__(
        self,
        context: Context,
        table: Lookup,
        stores: Sequence[StateStore],
        expired: Sequence[StreamTime],
        key: Serde,
    ):
        self._context = context
        self._table = table
        self._stores = stores
        self._expired = expired
        self._key = key

    def touched(self, sent: LeftChanges) -> Touched:
        """Every left row that this chunk may have changed, one entry for each row and input record. ``sent`` holds the
        changes that are already on their way."""
        asked = self._asked(sent)
        place = np.arange(len(asked))
        before, after = (self._table.find(_at(asked, order, place)) for order in (_FIRST, _LAST))
        both = np.intersect1d(row_numbers_of(before.batch), row_numbers_of(after.batch))
        old = before.keep(np.isin(row_numbers_of(before.batch), both)).value
        new = after.keep(np.isin(row_numbers_of(after.batch), both)).value
        asked = asked.take(both)
        return Touched(asked.key, old, new, asked.position)

    def _asked(self, sent: LeftChanges) -> Batch:
        """The keys that are sent, written or expire, each once for each record."""
        parts = [(sent.key, sent.position)]
        for store, expired in zip(self._stores, self._expired, strict=True):
            written = self._context.chunk.sent.get(store.name) or self._context.chunk.written.get(store.name)
            if written is not None and len(written.codes):
                position = _position(written.order[0])
                keys = physical_keys(written.keys)
                parts.append((keys.take(pa.array(written.codes)), position))
                if isinstance(store, SegmentedStore) and written.stream_times is not None:
                    parts.append(_expiring(store, expired, keys, written.stream_times, position))
        keys, positions = concat([keys for keys, _ in parts]), np.concatenate([position for _, position in parts])
        if len(keys):
            records, record = np.unique(positions, return_inverse=True)
            groups = Groups.by_number(group_keys(keys)[1] * len(records) + record)
            rows = groups.last_rows[np.argsort(positions[groups.last_rows], kind="stable")]
            keys, positions = keys.take(pa.array(rows)), positions[rows]
        unknown = np.full(len(keys), UNKNOWN)
        return Batch(BytesColumn(keys, self._key), null_column(len(keys), BYTES), unknown, (positions,))


def _expiring(
    store: SegmentedStore, expired: StreamTime, written: Binary, stream_times: IntArray, position: IntArray
) -> tuple[Binary, IntArray]:
    """The windows that expire by a chunk's writes, and the positions of the records that cause it.

    Args:
        written: the written windows.
        stream_times: the store's stream time before the first write and after each write.
        position: the positions of the writes.
    """
    earliest = expired.now - store.retention + 1
    expired.advance(stream_times[-1:])
    latest = expired.now - store.retention
    windows = concat([store.windows_between(earliest, latest), written])
    times = store.times_of(windows)
    gone = np.flatnonzero((times >= earliest) & (times <= latest))
    at = np.searchsorted(stream_times[1:], times[gone] + store.retention)
    return windows.take(pa.array(gone)), position[np.minimum(at, len(position) - 1)]


def _at(asked: Batch, order: int, place: IntArray) -> Batch:
    """Place the looked-up keys before or after everything that their records cause, with their numbers."""
    return Batch(asked.key, asked.value, asked.timestamp, (asked.position, order, place))


def _position(column: IntArray | int) -> IntArray:
    assert isinstance(column, np.ndarray)
    return column

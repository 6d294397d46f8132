"""What records change in the left table of a foreign-key join, where what is sent does not tell.

An inner join of two tables that are made from one, kept nowhere, says nothing when a record deletes a row on both
sides: either side finds nothing on the other one. Joins behind it say that there was another row than there was. As in
Kafka Streams, subscriptions to such rows may stay, and responses to them are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray, concat
from penstock.batch import Batch
from penstock.columns import BytesColumn, Column, null_column
from penstock.ops.context import Context
from penstock.ops.groups import Groups, group_keys
from penstock.ops.left_changes import differ
from penstock.ops.lookup import Lookup
from penstock.ops.table import row_numbers_of
from penstock.serdes import BYTES, Serde
from penstock.state.transactional import physical_keys

_FIRST, _LAST = -1, 2**62
"""Before and behind all that a record causes."""


class Touched(NamedTuple):
    """Rows before and after records that may have changed them, in processing order."""

    key: Column
    before: Column
    after: Column
    position: IntArray
    timestamp: IntArray

    def changed(self) -> Touched:
        """Those that are not what they were before the record."""
        rows = np.flatnonzero(differ(self.before.encoded(), self.after.encoded()))
        position, timestamp = self.position[rows], self.timestamp[rows]
        return Touched(self.key.take(rows), self.before.take(rows), self.after.take(rows), position, timestamp)


class SilentTable:
    """A table that changes in silence: finds the rows, by looking at it before and after each record.

    Args:
        table: the left table.
        stores: the names of the stores that it is looked up in.
        key: the type of its keys.
    """

    def __init__(self, context: Context, table: Lookup, stores: Sequence[str], key: Serde):
        self._context = context
        self._table = table
        self._stores = stores
        self._key = key

    def touched(self) -> Touched:
        """All rows that the present chunk may have changed, once for each record that did."""
        asked = self._asked()
        place = np.arange(len(asked))
        before, after = (self._table.find(_at(asked, order, place)) for order in (_FIRST, _LAST))
        both = np.intersect1d(row_numbers_of(before.batch), row_numbers_of(after.batch))
        old = before.keep(np.isin(row_numbers_of(before.batch), both)).value
        new = after.keep(np.isin(row_numbers_of(after.batch), both)).value
        asked = asked.take(both)
        return Touched(asked.key, old, new, asked.position, asked.timestamp)

    def _asked(self) -> Batch:
        """The keys that records wrote, each once for each record."""
        every = [self._context.written[store] for store in self._stores if store in self._context.written]
        if not sum(len(written.codes) for written in every):
            return _rows(pa.array([], pa.binary()), np.zeros(0, np.int64), np.zeros(0, np.int64), self._key)
        keys = concat([physical_keys(written.keys).take(pa.array(written.codes)) for written in every])
        positions = np.concatenate([_position(written.order[0]) for written in every])
        times = np.concatenate([written.values.timestamps for written in every])
        records, record = np.unique(positions, return_inverse=True)
        groups = Groups.by_number(group_keys(keys)[1] * len(records) + record)
        rows = groups.last_rows[np.argsort(positions[groups.last_rows], kind="stable")]
        return _rows(keys.take(pa.array(rows)), positions[rows], times[rows], self._key)


def _rows(keys: Binary, positions: IntArray, times: IntArray, key: Serde) -> Batch:
    return Batch(BytesColumn(keys, key), null_column(len(keys), BYTES), times, (positions,))


def _at(asked: Batch, order: int, place: IntArray) -> Batch:
    """The same rows before or behind all that their records cause, with their numbers."""
    return Batch(asked.key, asked.value, asked.timestamp, (asked.position, order, place))


def _position(column: IntArray | int) -> IntArray:
    assert isinstance(column, np.ndarray)
    return column

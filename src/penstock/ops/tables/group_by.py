"""``group_by`` on tables: each change is subtracted from one group and added to another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import BoolArray, IntArray
from penstock.columns.batch import Batch, Changes, take_order
from penstock.columns.column import BytesColumn, Column
from penstock.ops.core.functions import Caller
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.tables.table import present_rows, row_numbers_of
from penstock.serdes import Serde


class _Side:
    """The new keys and values of one side of some changes: of their old values or of their new ones, where these
    exist."""

    def __init__(self, caller: Caller, batch: Changes, values: Column, key: Serde, value: Serde):
        _, part = present_rows(batch, values)
        part, keys, mapped = caller.pairs(part, key, value)
        part = caller.context.encoded(caller.node, part.with_key(keys).with_value(mapped), "key", "value")
        missing = [mask for mask in (part.key.null_mask(), part.value.null_mask()) if mask is not None]
        if missing:
            part = part.keep(~np.logical_or.reduce(missing))
        self.keys = part.key
        self.values = part.value
        self.rows = row_numbers_of(part)

    def has(self, size: int) -> BoolArray:
        mask = np.zeros(size, np.bool_)
        mask[self.rows] = True
        return mask

    def place_of(self, size: int) -> IntArray:
        """The index of each changed row in this side; -1 if it is not included."""
        places = np.full(size, -1, np.int64)
        places[self.rows] = np.arange(len(self.rows))
        return places


class TableGroupBy(Operator):
    """Turns one change of a row into a removal from its old group and an addition to its new group, in this order; they
    are one change if the group stays the same. Null keys and null values are left out. Changes of a versioned table
    count only if they are the latest of their keys (KIP-914)."""

    def __init__(self, caller: Caller, key: Serde, value: Serde, is_versioned: bool = False):
        self._caller = caller
        self._key = key
        self._value = value
        self._is_versioned = is_versioned

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        if self._is_versioned:
            batch = batch.only_latest()
        assert batch.old is not None
        size = len(batch)
        new = _Side(self._caller, batch, batch.value, self._key, self._value)
        old = _Side(self._caller.of_old_values(), batch, batch.old, self._key, self._value)
        in_new, in_old = new.place_of(size), old.place_of(size)
        stays = self._same_group(old, new, in_old, in_new)
        leaves = np.flatnonzero((in_old >= 0) & ~stays)
        comes = np.flatnonzero(in_new >= 0)
        rows = np.concatenate([leaves, comes])
        sub = np.concatenate([np.zeros(len(leaves), np.int64), np.ones(len(comes), np.int64)])
        order = np.lexsort((sub, rows))
        added = np.concatenate([np.full(len(leaves), -1), in_new[comes]])[order]
        removed = np.concatenate([in_old[leaves], np.where(stays, in_old, -1)[comes]])[order]
        rows, sub = rows[order], sub[order]
        keys = new.keys.join([old.keys]).take(np.where(added >= 0, added, len(new.keys) + removed))
        changes = Changes(
            keys,
            _take_or_null(new.values, added),
            batch.timestamp[rows],
            (*take_order(batch.order, rows), sub),
            None if batch.headers is None else batch.headers.take(pa.array(rows)),
            old=_take_or_null(old.values, removed),
        )
        out.emit(changes)

    def _same_group(self, old: _Side, new: _Side, in_old: IntArray, in_new: IntArray) -> BoolArray:
        both = np.flatnonzero((in_old >= 0) & (in_new >= 0))
        same = np.zeros(len(in_old), np.bool_)
        if both.size:
            old_keys = old.keys.take(in_old[both]).encoded()
            equal = pc.equal(old_keys, new.keys.take(in_new[both]).encoded())
            same[both] = equal.to_numpy(zero_copy_only=False)
        return same


def _take_or_null(values: Column, places: IntArray) -> Column:
    """The values at these places; null where the place is -1."""
    return BytesColumn(values.encoded().take(pa.array(places, mask=places < 0)), values.serde)

"""``distinct``: emits only the first record of each new window (KIP-655)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import IntArray, is_missing, nulls
from penstock.columns.batch import Batch, Changes, take_order
from penstock.columns.column import BytesColumn, Column
from penstock.ops.core.fold import Fold, Folded, FoldRows
from penstock.ops.core.groups import Groups
from penstock.ops.windows.time_windows import WindowAggregate
from penstock.serdes.nullable import mark_nulls
from penstock.state.columns.rows import Keys, Values


class NoFold(Fold):
    """Keeps the first value of a distinct window unchanged."""

    def fold(self, groups: Groups, before: Values, rows: FoldRows) -> Folded:
        raise AssertionError("nothing is folded")


class WindowDistinct(WindowAggregate):
    """Emits the first record of each key and window that is not in the store yet."""

    def _apply(self, groups: Groups, keys: Keys, rows: FoldRows, result: Batch) -> Changes | None:
        before = self._store.locate(keys).get()
        first = groups.order[groups.starts]
        in_order = np.argsort(first)
        new = in_order[is_missing(before.data)[in_order]]
        first = first[new]
        values = Values(mark_nulls(rows.add.take(first).encoded()), rows.timestamps[first])
        if not len(first):
            return None
        if self._store.name in self._context.facts.looked_up:
            self._note(keys, before, new, values, take_order(result.order, first))
        self._store.put(self._store.locate(keys.take(new)), values)
        return first_records(result, rows.add, first, rows.timestamps, self._sends_old)


def first_records(
    result: Batch, values: Column, rows: IntArray, timestamps: IntArray, sends_old: bool
) -> Changes | None:
    """Turn some rows into changes of a table that insert them."""
    if not len(rows):
        return None
    old = BytesColumn(nulls(len(rows)), values.serde) if sends_old else None
    return result.take(rows).as_changes(values.take(rows), timestamps[rows], old)

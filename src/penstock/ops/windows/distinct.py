"""``distinct``: the first record of each new window, and no other (KIP-655)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray, binary, concat, is_missing, nulls
from penstock.batch import Batch, Changes, take_order
from penstock.columns import BytesColumn, Column
from penstock.ops.core.fold import Fold, Folded, Rows
from penstock.ops.core.groups import Groups
from penstock.ops.windows.sessions.fold import FoldedMerges, FoldedRuns, SessionFold
from penstock.ops.windows.sessions.merges import Merges
from penstock.ops.windows.sessions.operator import SessionAggregate
from penstock.ops.windows.sessions.outcome import Outcome
from penstock.ops.windows.sessions.runs import Runs
from penstock.ops.windows.time_windows import WindowAggregate
from penstock.serdes import BYTES
from penstock.serdes.nullable import mark_nulls
from penstock.state.columns.rows import Keys, Values


class NoFold(Fold):
    """Distinct windows keep their first value as it is."""

    def fold(self, groups: Groups, before: Values, rows: Rows) -> Folded:
        raise AssertionError("nothing is folded")


class WindowDistinct(WindowAggregate):
    """The first record of each key and window that is not in the store yet."""

    def _apply(self, groups: Groups, keys: Keys, rows: Rows, result: Batch) -> Changes | None:
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


class FirstOfSession(SessionFold):
    """The value of a session's first record to arrive, marked, so that null is a value like any other."""

    def initial(self) -> Any:
        return None

    def add(self, key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else aggregate

    def fold(self, key: Any, value: Any, found: list[Any]) -> Any:
        return found[0] if found else value

    def along(self, runs: Runs, stored: Binary, batch: Batch) -> FoldedRuns:
        values = concat([stored, mark_nulls(batch.value.encoded())])
        first = np.flatnonzero(runs.number == 1)[np.cumsum(runs.number == 1) - 1]
        source = np.where(runs.base >= 0, runs.base, len(stored) + runs.row[first])
        kept = BytesColumn(values.take(pa.array(source)), BYTES)
        return FoldedRuns(kept, kept)

    def numbers(self, data: Binary) -> IntArray:
        return np.zeros(len(data), np.int64)

    def along_merges(self, merges: Merges, stored: Binary, batch: Batch) -> FoldedMerges:
        """Right for the last records of sessions: nobody asks for the values in between."""
        values = concat([mark_nulls(batch.value.encoded()), stored])
        source = merges.record.copy()
        source[merges.last] = np.where(merges.seed >= 0, merges.seed, len(batch) - 1 - merges.seed)
        found = BytesColumn(nulls(len(merges.found.record)), BYTES)
        return FoldedMerges(BytesColumn(values.take(pa.array(source)), BYTES), found)

    def keys(self, batch: Batch) -> Sequence[Any]:
        return range(len(batch))

    def values(self, batch: Batch) -> Sequence[Any]:
        marked: list[bytes] = mark_nulls(batch.value.encoded()).to_pylist()
        return marked

    def load(self, data: Binary) -> list[Any]:
        return data.to_pylist()  # type: ignore[no-any-return]

    def column(self, results: list[Any]) -> Column:
        return BytesColumn(binary(results), BYTES)


class SessionDistinct(SessionAggregate):
    """The records that begin a session; those that extend or merge sessions are none of them."""

    def _changes(self, batch: Batch, outcome: Outcome) -> Changes | None:
        rows = np.sort(outcome.fresh)
        if not len(rows):
            return None
        wide = batch.take(rows)
        key = self._windowed(wide.key, wide.timestamp, wide.timestamp)
        return first_records(wide.with_key(key), wide.value, np.arange(len(rows)), wide.timestamp, self._sends_old)


def first_records(
    result: Batch, values: Column, rows: IntArray, timestamps: IntArray, sends_old: bool
) -> Changes | None:
    """Some rows as changes of a table in which they are new."""
    if not len(rows):
        return None
    old = BytesColumn(nulls(len(rows)), values.serde) if sends_old else None
    return result.take(rows).as_changes(values.take(rows), timestamps[rows], old)

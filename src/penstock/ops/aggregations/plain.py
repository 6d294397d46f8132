"""``count``, ``reduce`` and ``aggregate``: on grouped streams and on grouped tables.

All of them fold values into the aggregates of a store. They differ only in the rows that they fold, and in the keys.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import IntArray, is_missing
from penstock.columns.batch import Batch, Changes, Order
from penstock.columns.column import BytesColumn, Column
from penstock.ops.aggregations.versioned import VersionedAggregateStore
from penstock.ops.core.context import Context
from penstock.ops.core.fold import Fold, Folded, FoldRows
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.nulls import complete
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.written import Written
from penstock.ops.tables.update_cache import EmitCache, values_before
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore
from penstock.state.store import StateStore


class Aggregate(Operator):
    """The common part of all aggregations: fold, write to the store, emit.

    Args:
        sends_old: True if a later step needs old values.
        caching: emit the last update of each key and commit, instead of every one.
        tells_stored: emit every update with the previous value of the store as its old value, as with caching.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        fold: Fold,
        store: StateStore,
        sends_old: bool,
        caching: bool,
        tells_stored: bool = False,
    ):
        self._node = node
        self._context = context
        self._fold = fold
        self._store = store
        self._sends_old = sends_old
        self._cache = EmitCache(sends_old, context, store, tells_stored) if caching or tells_stored else None
        self._versions: VersionedAggregateStore | None = None
        if isinstance(store, VersionedStore):
            self._versions = VersionedAggregateStore(node, context, fold, store, sends_old)

    @property
    def flushes(self) -> bool:
        return self._cache is not None and not self._cache.each

    def flush(self, out: Collector) -> None:
        if self._cache is not None:
            out.emit(self._cache.flush())

    def _changed(self, batch: Batch, subtract: Column | None) -> Changes | None:
        """Update the aggregates of the records' keys and return the changes."""
        if not len(batch):
            return None
        keys, codes = group_keys(batch.key.encoded())
        rows = FoldRows(batch.key.decoded, batch.value, subtract, batch.timestamp, batch, np.arange(len(batch)))
        return self._apply(Groups.by_number(codes), keys, rows, batch)

    def _apply(self, groups: Groups, keys: Keys, rows: FoldRows, result: Batch) -> Changes | None:
        """Fold rows into the store; ``result`` holds the emitted record of each row, apart from its value."""
        if self._versions is not None:
            return self._versions.apply(groups, keys, rows, result)
        located = self._store.locate(keys)
        before = located.get()
        folded = self._fold.fold(groups, before, rows)
        if self._store.name in self._context.facts.looked_up:
            values = Values(folded.new.encoded(), folded.timestamps)
            self._note(keys, before, groups.unsort(groups.group), values, result.order)
        last = groups.last_rows
        stored = folded.new.take(last).encoded()
        self._store.put(located, Values(stored, np.where(is_missing(stored), -1, folded.timestamps[last])))
        if self._cache is not None and not self._cache.wants_every:
            self._cache.add(self._last_of_each(groups, before, folded, result))
            return None
        if self._cache is not None:
            return self._cache.take(self._each(groups, before, folded, result))
        changes = result.as_changes(folded.new, folded.timestamps, folded.old if self._sends_old else None)
        return changes if folded.kept is None else changes.keep(folded.kept)

    def _note(self, keys: Keys, before: Values, codes: IntArray, values: Values, order: Order) -> None:
        """Note the writes for steps that look up this store. Call this before the store is written."""
        times = None
        if isinstance(self._store, WindowStore) and keys.times is not None:
            now = self._store.observed_stream_time
            times = np.maximum.accumulate(np.concatenate([[now], keys.times[codes]]))
        self._context.chunk.note(self._store.name, Written(keys, before, codes, values, order, times))

    def _each(self, groups: Groups, before: Values, folded: Folded, result: Batch) -> Changes:
        """All updates as a cache sends them on: the old value is the store's, never the initial aggregate."""
        times = _times_of_deletions(folded.new, result, folded.timestamps)
        changes = result.as_changes(folded.new, times, values_before(groups, before, folded.new))
        return changes if folded.kept is None else changes.keep(folded.kept)

    def _last_of_each(self, groups: Groups, before: Values, folded: Folded, result: Batch) -> Changes:
        """The last update of each key, with the store's previous value as its old value."""
        last = groups.last_rows
        chosen = np.argsort(last)
        if folded.kept is not None:  # a key whose rows all failed has no update
            updates = groups.running_sum(folded.kept[groups.order].astype(np.int64))[groups.ends]
            chosen = chosen[updates[chosen] > 0]
        rows = last[chosen]
        old, new = BytesColumn(before.data, folded.new.serde).take(chosen), folded.new.take(rows)
        updates = result.take(rows)
        return updates.as_changes(new, _times_of_deletions(new, updates, folded.timestamps[rows]), old)


def _times_of_deletions(new: Column, updates: Batch, times: IntArray) -> IntArray:
    """The times of updates that leave a cache: a deletion has the time of its record, as in Kafka Streams."""
    gone = new.null_mask()
    return times if gone is None else np.where(gone, updates.timestamp, times)


class StreamAggregate(Aggregate):
    """Aggregation of a grouped stream: one aggregate for each key. Records without key or value are dropped."""

    def step(self, batch: Batch, out: Collector) -> None:
        batch = complete(self._node, self._context, batch, "key", "value")
        out.emit(self._changed(batch, None))


class TableAggregate(Aggregate):
    """Aggregation of a grouped table: subtracts the old value of each change from the aggregate and adds the new
    one."""

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        assert batch.old is not None
        out.emit(self._changed(batch, batch.old))

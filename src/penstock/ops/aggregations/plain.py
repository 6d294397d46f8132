"""``count``, ``reduce`` and ``aggregate``: on grouped streams, on windows of them, and on grouped tables.

All three fold values into the aggregates of a store. What differs is which rows they fold, and under which keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from penstock.arrays import BoolArray, IntArray, nulls
from penstock.batch import Batch, Changes, Order, merge
from penstock.columns import BytesColumn, Column, WindowedColumn, null_column
from penstock.dsl.windows import UnlimitedWindows
from penstock.durations import MAX_MS
from penstock.ops.aggregations.versioned import VersionedAggregateStore
from penstock.ops.core.context import CLOSED_WINDOW, Context
from penstock.ops.core.fold import Fold, Folded, Rows
from penstock.ops.core.functions import row_numbers
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.operator import Operator
from penstock.ops.tables.update_cache import EmitCache, values_before
from penstock.ops.tables.written import Written
from penstock.ops.windows.cogroup import ObservedTime, SideTimes
from penstock.ops.windows.on_window_close import Closing
from penstock.serdes.windowed import TimeWindowedSerde
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore
from penstock.state.store import StateStore


class Aggregate(Operator):
    """What the three have in common: fold, write to the store, emit.

    Args:
        sends_old: whether somebody downstream needs old values.
        caching: emit the last update of each key and commit, instead of every one.
        tells_stored: emit every update with the old value that the store had, as with caching.
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

    def flush(self) -> Changes | None:
        return None if self._cache is None else self._cache.flush()

    def _apply(self, groups: Groups, keys: Keys, rows: Rows, result: Batch) -> Changes | None:
        """Fold rows into the store; ``result`` has what goes out for each of them, but for its value."""
        if self._versions is not None:
            return self._versions.apply(groups, keys, rows, result)
        located = self._store.locate(keys)
        before = located.get()
        folded = self._fold.fold(groups, before, rows)
        if self._store.name in self._context.looked_up:
            values = Values(folded.new.encoded(), folded.timestamps)
            self._note(keys, before, groups.unsort(groups.group), values, result.order)
        last = groups.last_rows
        stored = folded.new.take(last).encoded()
        self._store.put(located, Values(stored, np.where(_is_null(stored), -1, folded.timestamps[last])))
        if self._cache is not None and not self._cache.each:
            self._cache.add(self._last_of_each(groups, before, folded, result))
            return None
        if self._cache is not None:
            return self._cache.at_once(self._each(groups, before, folded, result))
        changes = result.as_changes(folded.new, folded.timestamps, folded.old if self._sends_old else None)
        return changes if folded.kept is None else changes.keep(folded.kept)

    def _note(self, keys: Keys, before: Values, codes: IntArray, values: Values, order: Order) -> None:
        """Note the writes for those who look things up in the store; the store has not been written yet."""
        times = None
        if isinstance(self._store, WindowStore) and keys.times is not None:
            now = self._store.observed_stream_time
            times = np.maximum.accumulate(np.concatenate([[now], keys.times[codes]]))
        self._context.written[self._store.name] = Written(keys, before, codes, values, order, times)

    def _each(self, groups: Groups, before: Values, folded: Folded, result: Batch) -> Changes:
        """All updates as a cache sends them on: old is what the store had, and not what an aggregate begins with."""
        times = _times_of_deletions(folded.new, result, folded.timestamps)
        changes = result.as_changes(folded.new, times, values_before(groups, before, folded.new))
        return changes if folded.kept is None else changes.keep(folded.kept)

    def _last_of_each(self, groups: Groups, before: Values, folded: Folded, result: Batch) -> Changes:
        """The last update of each key, with the value that the store had before as the old one."""
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
    """The times of updates out of a cache: a deletion has the time of its record, as in Kafka Streams."""
    gone = new.null_mask()
    return times if gone is None else np.where(gone, updates.timestamp, times)


class StreamAggregate(Aggregate):
    """On a grouped stream: one aggregate for each key; records without key or value are dropped."""

    def step(self, batch: Batch) -> Changes | None:
        batch = self._context.encoded(self._node, batch, "key", "value")
        batch = drop_nulls(self._node, self._context, batch, "key", "value")
        if not len(batch):
            return None
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        rows = Rows(batch.key.decoded, batch.value, None, batch.timestamp, batch, np.arange(len(batch)))
        return self._apply(groups, keys, rows, batch)


class WindowAggregate(Aggregate):
    """On windows of a grouped stream: one aggregate for each key and window.

    A record goes into every window that covers its time and is still open at the operator's stream time; each closed
    one counts as a drop.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        fold: Fold,
        store: WindowStore,
        sends_old: bool,
        caching: bool,
        windows: Any,
        serde: TimeWindowedSerde,
        time: ObservedTime,
        closing: Closing | None,
        tells_stored: bool = False,
    ):
        super().__init__(node, context, fold, store, sends_old, caching, tells_stored)
        self._window_store = store
        self._windows = windows
        self._serde = serde
        self._time = time
        self._closing = closing

    def step(self, batch: Batch) -> Changes | None:
        batch = self._context.encoded(self._node, batch, "key", "value")
        batch = drop_nulls(self._node, self._context, batch, "key")
        if not len(batch):
            return None
        closed_at = self._time.observe(batch) - self._windows.grace_period_ms
        changes = self._update(batch, closed_at)
        return changes if self._closing is None else self._close(self._closing, batch, closed_at)

    def _update(self, batch: Batch, closed_at: IntArray) -> Changes | None:
        row, start, within = self._assign(batch.timestamp)
        is_open = self._ends(start) > closed_at[row]
        if not is_open.all():
            self._context.drop(self._node, batch.position[row[~is_open]], CLOSED_WINDOW)
            row, start, within = row[is_open], start[is_open], within[is_open]
        if not len(row):
            return None
        return self._fold_windows(batch, row, start, within)

    def _assign(self, timestamps: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """All windows of all records: the record's row, the window's start, its number within the record's."""
        if isinstance(self._windows, UnlimitedWindows):
            row = np.flatnonzero(timestamps >= self._windows.start_ms)
            return row, np.full(len(row), self._windows.start_ms), np.zeros(len(row), np.int64)
        size, advance = self._windows.size_ms, self._windows.advance_ms
        if size == advance:
            return np.arange(len(timestamps)), timestamps - timestamps % size, np.zeros(len(timestamps), np.int64)
        first = np.maximum(timestamps - size + advance, 0) // advance * advance
        row, within = row_numbers((timestamps - first) // advance + 1)
        return row, first[row] + within * advance, within

    def _close(self, closing: Closing, batch: Batch, closed_at: IntArray) -> Changes | None:
        """The results of the windows that the records close; those cannot change any more, so the store has them."""
        if not closing.is_due():
            return None
        size = self._windows.size_ms
        earliest = max(closing.closed_before - size + 1, 0)
        closing.done(closed_at)
        found = self._window_store.between(earliest, int(closed_at[-1]) - size)
        if found is None:
            return None
        keys, values = found
        assert keys.times is not None
        ends = keys.times + size
        row = closing.closed_by(closed_at, ends)
        return closing.results(batch, row, keys.data, keys.times, ends, *values)

    def _ends(self, start: IntArray) -> IntArray:
        ends: IntArray = np.minimum(start, MAX_MS - self._windows.size_ms) + self._windows.size_ms
        return ends

    def _fold_windows(self, batch: Batch, row: IntArray, start: IntArray, within: IntArray) -> Changes | None:
        every = len(row) == len(batch) and self._windows.size_ms == self._windows.advance_ms
        wide = batch if every else batch.take(row)
        if self._windows.size_ms != self._windows.advance_ms:
            wide = replace(wide, order=(*wide.order, within))
        if isinstance(self._time, SideTimes):
            unseen = self._unseen(wide, start)
            if unseen.any():
                return self._fold_unseen(batch, wide, row, start, unseen)
        return self._fold_seen(batch, wide, row, start)

    def _unseen(self, wide: Batch, start: IntArray) -> BoolArray:
        """Which windows the store shows no more when their records come: another side's time may be far ahead."""
        store = self._window_store
        after = np.maximum(np.maximum.accumulate(start), store.observed_stream_time)
        before = np.append(store.observed_stream_time, after[:-1])
        refused = start < store.refused_before(after)
        self._context.drop(self._node, wide.position[refused], "expired-window-of-store")
        self._context.expired(store.name, "window", int(np.count_nonzero(refused)))
        unseen: BoolArray = start <= before - store.retention
        return unseen

    def _fold_unseen(
        self, batch: Batch, wide: Batch, row: IntArray, start: IntArray, unseen: BoolArray
    ) -> Changes | None:
        """Records of windows that are not seen any more begin a window anew, each its own, and it is not seen later."""
        seen = np.flatnonzero(~unseen)
        changes = self._fold_seen(batch, wide.take(seen), row[seen], start[seen]) if len(seen) else None
        lost = np.flatnonzero(unseen)
        alone, count = wide.take(lost), len(lost)
        rows = Rows(alone.key.decoded, alone.value, None, alone.timestamp, batch, row[lost])
        groups = Groups.by_number(np.arange(count))
        folded = self._fold.fold(groups, Values(nulls(count), np.full(count, -1, np.int64)), rows)
        key = WindowedColumn(alone.key, start[lost], self._ends(start[lost]), self._serde)
        old = folded.old if self._sends_old else None
        if self._cache is not None:
            old = null_column(count, folded.new.serde)
        results = alone.with_key(key).as_changes(folded.new, folded.timestamps, old)
        results = results if folded.kept is None else results.keep(folded.kept)
        if self._cache is not None:
            if not self._cache.each:
                self._cache.add(results)
                return None
            results = self._cache.at_once(results)
        merged = merge([results] if changes is None else [changes, results])
        assert isinstance(merged, Changes)
        return merged

    def _fold_seen(self, batch: Batch, wide: Batch, row: IntArray, start: IntArray) -> Changes | None:
        keys, codes = group_keys(wide.key.encoded())
        numbers = (start - start.min()) // self._windows.advance_ms
        span = int(numbers.max()) + 1
        groups = Groups.by_number(numbers * len(keys) + codes if span * len(keys) < 2**62 else _dense(numbers, codes))
        representative = groups.order[groups.starts]
        located_keys = keys.at(codes[representative], start[representative])
        rows = Rows(wide.key.decoded, wide.value, None, wide.timestamp, batch, row)
        windowed = WindowedColumn(wide.key, start, self._ends(start), self._serde)
        return self._apply(groups, located_keys, rows, wide.with_key(windowed))


def _dense(numbers: IntArray, codes: IntArray) -> IntArray:
    """Numbers for pairs that are too far apart to be multiplied out."""
    _, dense = np.unique(numbers, return_inverse=True)
    return dense.astype(np.int64) * (int(codes.max()) + 1) + codes


class TableAggregate(Aggregate):
    """On a grouped table: takes the old value of each change out of the aggregate and adds the new one."""

    def step(self, batch: Batch) -> Changes | None:
        assert isinstance(batch, Changes)
        assert batch.old is not None
        if not len(batch):
            return None
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        rows = Rows(batch.key.decoded, batch.value, batch.old, batch.timestamp, batch, np.arange(len(batch)))
        return self._apply(groups, keys, rows, batch)


def drop_nulls(node: str, context: Context, batch: Batch, *columns: str) -> Batch:
    """The batch without the records in which one of these columns is null; they are counted as dropped."""
    for name in columns:
        missing = getattr(batch, name).null_mask()
        if missing is not None:
            context.drop(node, batch.position[missing], f"null-{name}")
            batch = batch.keep(~missing)
    return batch


def _is_null(data: Any) -> BoolArray:
    if not data.null_count:
        return np.zeros(len(data), np.bool_)
    return data.is_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

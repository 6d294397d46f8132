"""``count``, ``reduce`` and ``aggregate`` in time windows of all kinds; ``windowing.py`` says which."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.arrays import BoolArray, IntArray, nulls
from penstock.columns.batch import Batch, Changes, merge
from penstock.columns.column import WindowedColumn, null_column
from penstock.ops.aggregations.plain import Aggregate
from penstock.ops.core.context import CLOSED_WINDOW
from penstock.ops.core.fold import Fold, FoldRows
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.nulls import complete
from penstock.ops.core.operator import Collector
from penstock.ops.core.seen import CLOSED, TAKEN, Seen
from penstock.ops.windows.cogroup import SideTimes
from penstock.ops.windows.on_window_close import Closing
from penstock.ops.windows.windowed_table import WindowedTable
from penstock.ops.windows.windowing import windowing_of
from penstock.plan.own_windows import OwnWindows
from penstock.plan.windows import TimeWindows, UnlimitedWindows
from penstock.state.columns.rows import Values
from penstock.state.kinds.window import WindowStore


class WindowAggregate(Aggregate):
    """Aggregation of a grouped stream in windows: one aggregate for each key and window.

    A record is added to every window that covers its time and is still open at the operator's stream time; each closed
    window counts as a drop.
    """

    def __init__(
        self,
        table: WindowedTable,
        windows: TimeWindows | UnlimitedWindows | OwnWindows,
        store: WindowStore,
        fold: Fold,
    ):
        super().__init__(table.node, table.context, fold, store, table.sends_old, table.caching, table.tells_stored)
        self._window_store = store
        self._windows = windows
        self._windowing = windowing_of(windows)
        self._is_of_one_size = not isinstance(windows, OwnWindows)
        self._serde = table.serde
        self._time = table.time
        self._closing = table.closing

    def release(self, out: Collector) -> None:
        if self._cache is not None:
            out.emit(self._cache.release())

    def step(self, batch: Batch, out: Collector) -> None:
        batch = complete(self._node, self._context, batch, "key")
        if not len(batch):
            return
        closed_at = self._time.observe(batch) - self._windows.grace_period_ms
        row, start, within = self._open_windows(batch, closed_at)
        at_once = 1 if out.is_seen else max(len(row), 1)
        for first in range(0, len(row), at_once):
            part = slice(first, first + at_once)
            changes = self._fold_windows(batch, row[part], start[part], within[part])
            if self._closing is None:
                out.emit(changes)
        if self._closing is not None:
            out.emit(self._close(self._closing, batch, closed_at))
        elif self._cache is not None and not isinstance(self._time, SideTimes):
            self._cache.closed_before = int(closed_at[-1]) + 1

    def _open_windows(self, batch: Batch, closed_at: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The windows of all records that are still open: the record's row, the window's start, and its number within
        the record's windows. Closed ones count as drops."""
        row, start, within, failed = self._windowing.assign(batch.timestamp)
        for number, error in failed:
            assert isinstance(self._windows, OwnWindows)
            self._context.failed(self._node, int(batch.position[number]), error, self._windows.function)
        is_open = self._windowing.is_open(start, closed_at[row])
        if (watching := self._context.commit.watching) is not None:
            times, fate = closed_at + self._windows.grace_period_ms, np.where(is_open, TAKEN, CLOSED)
            watching(Seen(self._node, batch, times, row, start, self._windowing.ends(start), fate))
        if not is_open.all():
            self._context.drop(self._node, batch.position[row[~is_open]], CLOSED_WINDOW)
            row, start, within = row[is_open], start[is_open], within[is_open]
        return row, start, within

    def _close(self, closing: Closing, batch: Batch, closed_at: IntArray) -> Changes | None:
        """The results of the windows that the records close. These windows no longer change, so the store has their
        results."""
        if not closing.is_due():
            return None
        before, now = closing.closed_before, int(closed_at[-1])
        closing.done(closed_at)
        longest = self._windowing.longest
        latest = now - longest if self._is_of_one_size else now - 1
        found = self._window_store.between(max(before - longest + 1, 0), latest)
        if found is None:
            return None
        keys, values = found
        assert keys.times is not None
        starts, ends = keys.times, self._windowing.ends(keys.times)
        if not self._is_of_one_size:
            closes = np.flatnonzero((ends > before) & (ends <= now))
            keys, values, starts, ends = keys.take(closes), values.take(closes), starts[closes], ends[closes]
        row = closing.closed_by(closed_at, ends)
        return closing.results(batch, row, keys.data, starts, ends, values.data, values.timestamps)

    def _fold_windows(self, batch: Batch, row: IntArray, start: IntArray, within: IntArray) -> Changes | None:
        every = len(row) == len(batch) and not self._windowing.overlap
        wide = batch if every else batch.take(row)
        if self._windowing.overlap:
            wide = replace(wide, order=(*wide.order, within))
        if isinstance(self._time, SideTimes):
            unseen = self._unseen(wide, start)
            if unseen.any():
                return self._fold_unseen(batch, wide, row, start, unseen)
        return self._fold_seen(batch, wide, row, start)

    def _unseen(self, wide: Batch, start: IntArray) -> BoolArray:
        """True for windows that are no longer visible in the store when their records arrive: another side's time may
        be far ahead."""
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
        """Fold the records of invisible windows: each begins its window again, and is not visible later."""
        seen = np.flatnonzero(~unseen)
        changes = self._fold_seen(batch, wide.take(seen), row[seen], start[seen]) if len(seen) else None
        lost = np.flatnonzero(unseen)
        alone, count = wide.take(lost), len(lost)
        rows = FoldRows(alone.key.decoded, alone.value, None, alone.timestamp, batch, row[lost])
        groups = Groups.by_number(np.arange(count))
        folded = self._fold.fold(groups, Values(nulls(count), np.full(count, -1, np.int64)), rows)
        key = WindowedColumn(alone.key, start[lost], self._windowing.ends(start[lost]), self._serde)
        old = folded.old if self._sends_old else None
        if self._cache is not None:
            old = null_column(count, folded.new.serde)
        results = alone.with_key(key).as_changes(folded.new, folded.timestamps, old)
        results = results if folded.kept is None else results.keep(folded.kept)
        if self._cache is not None:
            sent = self._cache.take(results)
            if sent is None:
                return None
            results = sent
        merged = merge([results] if changes is None else [changes, results])
        assert isinstance(merged, Changes)
        return merged

    def _fold_seen(self, batch: Batch, wide: Batch, row: IntArray, start: IntArray) -> Changes | None:
        keys, codes = group_keys(wide.key.encoded())
        numbers = self._windowing.numbers(start, len(keys))
        groups = Groups.by_number(numbers * len(keys) + codes)
        representative = groups.order[groups.starts]
        located_keys = keys.at(codes[representative], start[representative])
        rows = FoldRows(wide.key.decoded, wide.value, None, wide.timestamp, batch, row)
        windowed = WindowedColumn(wide.key, start, self._windowing.ends(start), self._serde)
        return self._apply(groups, located_keys, rows, wide.with_key(windowed))

"""``count``, ``reduce`` and ``aggregate`` in sessions: find, merge, aggregate, remove, put (KIP-94).

The sessions of all keys of a chunk are looked up at once. Where records only extend sessions, and where no user's
function merges them, what comes of them is worked out at once too; where users' aggregates merge, each key's records
are processed in order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray, concat
from penstock.batch import Batch, Changes
from penstock.columns import Column, WindowedColumn
from penstock.ops.core.context import CLOSED_WINDOW
from penstock.ops.core.failures import blamed
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.nulls import drop_nulls
from penstock.ops.core.operator import Operator
from penstock.ops.core.written import written_windows
from penstock.ops.windows.on_window_close import Closing
from penstock.ops.windows.sessions.fold import SessionFold
from penstock.ops.windows.sessions.loop import Updates, live_sessions, of_updates, process
from penstock.ops.windows.sessions.merges import merges_of
from penstock.ops.windows.sessions.outcome import KeptSessions, Outcome, of_merges, of_runs
from penstock.ops.windows.sessions.runs import Bounds, runs_of
from penstock.ops.windows.windowed_table import WindowedTable
from penstock.plan.windows import SessionWindows
from penstock.state.columns.packed import Entries
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.packed import Loaded
from penstock.state.kinds.session import SessionStore


class SessionAggregate(Operator):
    """One aggregate for each key and session; a record joins, extends and merges the sessions within the gap.

    Sessions that a record merges are removed first, with their old values, in the order of their ends.
    """

    def __init__(self, table: WindowedTable, windows: SessionWindows, store: SessionStore, fold: SessionFold):
        self._node = table.node
        self._context = table.context
        self._fold = fold
        self._store = store
        self._sends_old = table.sends_old
        self._tells_stored = table.tells_stored
        self._cache = table.cache(store)
        self._windows = windows
        self._gap: int = windows.inactivity_gap_ms
        self._serde = table.serde
        self._time = table.time
        self._closing = table.closing

    def step(self, batch: Batch) -> Changes | None:
        batch = self._context.encoded(self._node, batch, "key", "value")
        batch = drop_nulls(self._node, self._context, batch, "key")
        if not len(batch):
            return None
        bounds = self._bounds(batch)
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        earliest = np.minimum.reduceat(batch.timestamp[groups.order], groups.starts) - self._gap
        unseen_from = None if self._closing is None else self._closing.closed_before
        loaded = self._store.load(keys, earliest, unseen_from)
        outcome = self._outcome(batch, keys, codes, groups, loaded, bounds)
        time_before = self._store.observed_stream_time
        removed = np.zeros(len(loaded.entries), np.bool_)
        removed[outcome.removed] = True
        self._store.write(loaded, removed, outcome.entries, unseen_from)
        self._store.advance(int(bounds.timestamps.max()))
        changes = self._changes(batch, outcome)
        if changes is not None and self._store.name in self._context.facts.looked_up:
            self._note(loaded, changes, bounds, batch, time_before)
        if self._closing is None:
            return self._emit(changes)
        return self._close(self._closing, batch, bounds.closed_at, outcome)

    def flush(self) -> Changes | None:
        return None if self._cache is None else self._cache.flush()

    def _bounds(self, batch: Batch) -> Bounds:
        times = self._time.observe(batch)
        closed_at = times - (self._windows.grace_period_ms + self._gap)
        if not self._windows.closes:
            closed_at = np.full(len(times), np.iinfo(np.int64).min)
        after = np.maximum(np.maximum.accumulate(batch.timestamp), self._store.observed_stream_time)
        before = np.append(self._store.observed_stream_time, after[:-1])
        stored_from = after - self._store.retention + 1
        if self._closing is not None:  # what was not sent on yet is kept, seen or not
            stored_from = np.minimum(stored_from, closed_at)
        counted_from = self._store.refused_before(after) if self._windows.closes else stored_from - 1
        return Bounds(batch.timestamp, closed_at, before - self._store.retention + 1, stored_from, counted_from)

    def _outcome(
        self, batch: Batch, keys: Keys, codes: IntArray, groups: Groups, loaded: Loaded, bounds: Bounds
    ) -> Outcome:
        """What comes of all records: at once where sessions are only extended, or no user's function merges them."""
        with_replaced = self._cache is not None
        runs = runs_of(groups, loaded.entries, bounds, self._gap, keeps_unseen=self._closing is not None)
        folded = self._fold.along(runs, loaded.entries.data, batch)
        parts = [] if folded is None else [of_runs(runs, folded, with_replaced)]
        is_left = np.ones(len(keys), np.bool_) if folded is None else ~runs.is_simple
        rows = np.flatnonzero(is_left[codes])
        fold = self._fold
        if fold.merges_at_once:
            parts += self._merged(batch, codes, rows, loaded.entries, bounds)
        elif rows.size or not parts:
            updates, live = Updates(with_replaced), live_sessions(fold, loaded, np.flatnonzero(is_left))
            others = np.flatnonzero(is_left[groups.group])
            process(fold, self._gap, groups, others, live, batch, bounds, updates)
            for row, error in sorted(updates.failed, key=lambda failure: failure[0]):
                self._context.failed(self._node, int(batch.position[row]), error, blamed(error, fold.function))
            parts.append(of_updates(fold, updates, live))
        outcome = Outcome.join(parts)
        if len(outcome.late):
            self._context.drop(self._node, batch.position[outcome.late], CLOSED_WINDOW)
        if len(outcome.not_stored):
            self._context.drop(self._node, batch.position[outcome.not_stored], "expired-window-of-store")
            self._context.expired(self._store.name, "session", len(outcome.not_stored))
        return outcome

    def _merged(self, batch: Batch, codes: IntArray, rows: IntArray, loaded: Entries, bounds: Bounds) -> list[Outcome]:
        """What comes of some rows, in which sessions may merge, at once, or in a few steps for some keys."""
        kept = KeptSessions(loaded)
        while rows.size:
            stored = kept.entries()
            numbers = self._fold.numbers(stored.data)
            merges = merges_of(codes[rows], bounds.take(rows), stored, numbers, self._gap)
            merged = self._fold.along_merges(merges, stored.data, batch.take(rows))
            kept.update(of_merges(merges, merged, rows, codes[rows], bounds, self._cache is not None))
            assert not merges.waits.all(), "the first record of a key sees all sessions on the line"
            rows = rows[merges.waits]
        return kept.steps()

    def _close(self, closing: Closing, batch: Batch, closed_at: IntArray, outcome: Outcome) -> Changes | None:
        """The results of the sessions that the records close: of those in the store, and of those that went later."""
        if not closing.is_due():
            return None
        closed_before = closing.closed_before
        closing.done(closed_at)
        went = np.flatnonzero(outcome.gone_end >= closed_before)
        row = closing.closed_by(closed_at, outcome.gone_end[went])
        went = went[row < outcome.gone_row[went]]
        start, end = outcome.gone_start[went], outcome.gone_end[went]
        row = closing.closed_by(closed_at, end)
        keys = batch.key.encoded().take(pa.array(outcome.gone_row[went]))
        data = outcome.gone.take(went).encoded()
        found = self._store.of_times(max(closed_before, 0), int(closed_at[-1]) - 1)
        if found is not None:
            entries = found.entries
            row = np.concatenate([row, closing.closed_by(closed_at, entries.first)])
            end, start = np.concatenate([end, entries.first]), np.concatenate([start, entries.second])
            keys = concat([keys, found.keys.data.take(pa.array(entries.row))])
            data = concat([data, entries.data])
        return closing.results(batch, row, keys, start, end, data, end)

    def _windowed(self, key: Column, start: IntArray, end: IntArray) -> WindowedColumn:
        return WindowedColumn(key, start, end, self._serde)

    def _changes(self, batch: Batch, outcome: Outcome) -> Changes | None:
        """All updates in order, old values with them."""
        if not len(outcome.row):
            return None
        order = np.argsort(outcome.row, kind="stable")
        rows, start, end = outcome.row[order], outcome.start[order], outcome.end[order]
        first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
        number = np.arange(len(rows)) - np.repeat(first, np.diff(np.append(first, len(rows))))
        wide = batch.take(rows)
        wide = replace(wide.with_key(self._windowed(wide.key, start, end)), order=(*wide.order, number))
        return wide.as_changes(outcome.new.take(order), end, outcome.old.take(order))

    def _emit(self, changes: Changes | None) -> Changes | None:
        if changes is None:
            return None
        if self._cache is not None:
            if self._tells_stored:
                return self._cache.at_once(changes)
            self._cache.add(changes)
            return None
        return changes if self._sends_old else replace(changes, old=None)

    def _note(self, loaded: Loaded, changes: Changes, bounds: Bounds, batch: Batch, time_before: int) -> None:
        """Note the writes, and what there was before, for those who look things up in the store."""
        old = loaded.entries
        there = self._serde.encode_windows(loaded.keys.data.take(pa.array(old.row)), old.second, old.first)
        now = np.maximum.accumulate(bounds.timestamps)[np.searchsorted(batch.position, changes.position)]
        times = np.maximum(np.concatenate([[time_before], now]), time_before)
        written = written_windows(there, Values(old.data, old.first), changes, times, by_start=False)
        self._context.chunk.written[self._store.name] = written

"""``count``, ``reduce`` and ``aggregate`` in sessions: find, merge, aggregate, remove, put (KIP-94)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray, concat
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import Column, WindowedColumn
from penstock.ops.core.context import CLOSED_WINDOW
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.operator import Collector
from penstock.ops.core.seen import CLOSED, GONE, TAKEN, Seen, by_fate
from penstock.ops.windows.on_window_close import Closing
from penstock.ops.windows.packed_aggregate import PackedAggregate, Singly
from penstock.ops.windows.sessions.fold import SessionFold
from penstock.ops.windows.sessions.processing import Bounds, SessionOutcome, process_records
from penstock.ops.windows.windowed_table import WindowedTable
from penstock.plan.windows import SessionWindows
from penstock.state.kinds.packed import Loaded
from penstock.state.kinds.session import SessionStore


class SessionAggregate(PackedAggregate):
    """One aggregate for each key and session; a record joins, extends and merges the sessions within the gap.

    Sessions that a record merges are removed first, with their old values, in the order of their ends.
    """

    _finds_by_start = False
    _needed = ("key",)

    def __init__(self, table: WindowedTable, windows: SessionWindows, store: SessionStore, fold: SessionFold):
        super().__init__(table, store, fold)
        self._store = store
        self._windows = windows
        self._gap: int = windows.inactivity_gap_ms

    def _write_together(self, batch: Batch, out: Collector) -> None:
        bounds, loaded, outcome = self._process(batch)
        time_before, time = self._store.observed_stream_time, int(bounds.timestamps.max())
        self._write(loaded, outcome.removed, outcome.entries, self._unseen_from, time)
        changes = self._changes(batch, outcome)
        if changes is not None and self._is_looked_up:
            now = np.maximum.accumulate(bounds.timestamps)[np.searchsorted(batch.position, changes.position)]
            start, end = loaded.entries.second, loaded.entries.first
            self._note(loaded, start, end, end, changes, np.append(time_before, now))
        if self._closing is None:
            self._emit(changes, out)
            self._note_closed(bounds.closed_at)
        else:
            out.emit(self._close(self._closing, batch, bounds.closed_at, outcome))

    def _singly(self, record: Batch) -> Singly:
        bounds, loaded, outcome = self._process(record)
        time, nothing = int(bounds.timestamps.max()), outcome.entries.take(np.zeros(0, np.int64))

        def write(number: int) -> None:
            removed = outcome.removed[: number + 1]
            self._write(loaded, removed, nothing, None, self._store.observed_stream_time)

        def write_all() -> None:
            self._write(loaded, outcome.removed, outcome.entries, None, time)

        return Singly(self._changes(record, outcome), write, write_all)

    @property
    def _unseen_from(self) -> int | None:
        """The earliest end of the sessions that are kept, visible or not, until they are emitted at their close."""
        return None if self._closing is None else self._closing.closed_before

    def _process(self, batch: Batch) -> tuple[Bounds, Loaded, SessionOutcome]:
        """Process records and return their results and the sessions involved; writes nothing yet."""
        bounds = self._bounds(batch)
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        earliest = np.minimum.reduceat(batch.timestamp[groups.order], groups.starts) - self._gap
        loaded = self._store.load(keys, earliest, self._unseen_from)
        return bounds, loaded, self._outcome(batch, codes, loaded, bounds)

    def _bounds(self, batch: Batch) -> Bounds:
        times = self._time.observe(batch)
        closed_at = times - (self._windows.grace_period_ms + self._gap)
        if not self._windows.closes:
            closed_at = np.full(len(times), np.iinfo(np.int64).min)
        after = np.maximum(np.maximum.accumulate(batch.timestamp), self._store.observed_stream_time)
        before = np.append(self._store.observed_stream_time, after[:-1])
        stored_from = after - self._store.retention + 1
        if self._closing is not None:  # results that are not emitted yet are kept, visible or not
            stored_from = np.minimum(stored_from, closed_at)
        counted_from = self._store.refused_before(after) if self._windows.closes else stored_from - 1
        return Bounds(batch.timestamp, times, closed_at, before - self._store.retention + 1, stored_from, counted_from)

    def _outcome(self, batch: Batch, codes: IntArray, loaded: Loaded, bounds: Bounds) -> SessionOutcome:
        """Run the rules on all records, and report drops and failures."""
        keys, entries = len(loaded.keys), loaded.entries
        told = self._cache is not None
        outcome = process_records(self._fold, self._gap, batch, codes, keys, bounds, entries, told)
        self._tell_failures(batch, outcome.failed)
        if self._context.commit.watching is not None:
            self._context.commit.watching(self._seen(batch, bounds, outcome))
        if len(outcome.late):
            self._context.drop(self._node, batch.position[outcome.late], CLOSED_WINDOW)
        if len(outcome.not_stored):
            self._context.drop(self._node, batch.position[outcome.not_stored], "expired-window-of-store")
            self._context.expired(self._store.name, "session", len(outcome.not_stored))
        return outcome

    def _seen(self, batch: Batch, bounds: Bounds, outcome: SessionOutcome) -> Seen:
        """The fate of each record, for those who watch."""
        rows, start, end = np.arange(len(batch)), outcome.made_start, outcome.made_end
        made = np.setdiff1d(rows, [*outcome.late.tolist(), *(row for row, _ in outcome.failed)]).astype(np.int64)
        windows = by_fate(
            (GONE, outcome.gone_row, outcome.gone_start, outcome.gone_end),
            (TAKEN, made, start[made], end[made]),
            (CLOSED, outcome.late, start[outcome.late], end[outcome.late]),
        )
        return Seen(self._node, batch, bounds.times, *windows)

    def _close(self, closing: Closing, batch: Batch, closed_at: IntArray, outcome: SessionOutcome) -> Changes | None:
        """The results of the sessions that the records close: the stored ones, and the ones removed later."""
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

    def _changes(self, batch: Batch, outcome: SessionOutcome) -> Changes | None:
        """All updates in order, with their old values."""
        if not len(outcome.row):
            return None
        order = np.argsort(outcome.row, kind="stable")
        rows, start, end = outcome.row[order], outcome.start[order], outcome.end[order]
        first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
        number = np.arange(len(rows)) - np.repeat(first, np.diff(np.append(first, len(rows))))
        wide = batch.take(rows)
        wide = replace(wide.with_key(self._windowed(wide.key, start, end)), order=(*wide.order, number))
        return wide.as_changes(outcome.new.take(order), end, outcome.old.take(order))

"""``count``, ``reduce`` and ``aggregate`` in sliding windows.

Each record ends one window (its left window). It begins another one right after itself (its right window) as soon as a
later record falls into that. It is added to every window that covers it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray, shifted
from penstock.columns.batch import Batch, Changes, take_order
from penstock.columns.column import WindowedColumn
from penstock.ops.core.context import CLOSED_WINDOW
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.operator import Collector
from penstock.ops.core.seen import CLOSED, TAKEN, Seen, by_fate
from penstock.ops.windows.on_window_close import Closing
from penstock.ops.windows.packed_aggregate import PackedAggregate, Singly
from penstock.ops.windows.sessions.fold import SessionFold
from penstock.ops.windows.sliding.processing import SlidingOutcome, process_records, records_of
from penstock.ops.windows.sliding.rules import Rules
from penstock.ops.windows.windowed_table import WindowedTable
from penstock.plan.windows import SlidingWindows
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.packed import Loaded
from penstock.state.kinds.sliding import SlidingStore

_MOST_PUTS = 1 << 19
"""The most updates that are processed together, unless a single record has more."""
NO_LIMIT = 1 << 62


class _Work(NamedTuple):
    """Records, and their results."""

    batch: Batch
    rows: IntArray
    """The rows of records that are in time for a window."""
    loaded: Loaded
    """The windows around them."""
    outcome: SlidingOutcome


class SlidingAggregate(PackedAggregate):
    """One aggregate for each key and sliding window, created and updated as in Kafka Streams."""

    _finds_by_start = True
    _needed = ("key", "value")

    def __init__(self, table: WindowedTable, windows: SlidingWindows, store: SlidingStore, fold: SessionFold):
        super().__init__(table, store, fold)
        self._store = store
        self._windows = windows
        self._difference: int = windows.time_difference_ms
        self._rules = Rules(self._difference, store.retention, table.closing is not None)

    def _singly(self, record: Batch) -> Singly:
        work = self._work(record, self._time.observe(record) - self._windows.grace_period_ms, NO_LIMIT)
        changes = self._changes(work.batch, work.rows, work.outcome)
        key, start, new = record.key.encoded(), work.outcome.updates.start, work.outcome.updates.new

        def write(number: int) -> None:
            assert changes is not None
            value = Values(new.slice(number, number + 1).encoded(), changes.timestamp[number : number + 1])
            self._store.put_windows(Keys(key, start[number : number + 1]), value)

        return Singly(changes, write, lambda: self._write_all(work))

    def _write_together(self, batch: Batch, out: Collector) -> None:
        closed_at = self._time.observe(batch) - self._windows.grace_period_ms
        self._note_closed(closed_at)
        most = NO_LIMIT if self._is_looked_up else _MOST_PUTS  # writes are noted for the chunk as a whole
        while len(batch):
            done = self._process(batch, closed_at, most, out)
            rest = np.arange(done, len(batch))
            batch, closed_at = batch.take(rest), closed_at[rest]

    def _process(self, batch: Batch, closed_at: IntArray, most: int, out: Collector) -> int:
        """Process records until there are ``most`` updates, and emit their changes. Return the number of processed
        records."""
        work, time_before = self._work(batch, closed_at, most), self._store.observed_stream_time
        batch, rows, outcome = work.batch, work.rows, work.outcome
        self._write_all(work)
        changes = None
        if self._closing is None or self._is_looked_up:
            changes = self._changes(batch, rows, outcome)
            if changes is not None and self._is_looked_up:
                start, timestamp = work.loaded.entries.first, work.loaded.entries.second
                times = np.append(time_before, outcome.updates.start)
                self._note(work.loaded, start, shifted(start, self._difference), timestamp, changes, times)
        if self._closing is None:
            self._emit(changes, out)
        else:
            out.emit(self._close(self._closing, batch, closed_at[: len(batch)], rows))
        return len(batch)

    def _work(self, batch: Batch, closed_at: IntArray, most: int) -> _Work:
        """Process records until there are ``most`` updates. Writes nothing yet."""
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        times = batch.timestamp[groups.order]
        earliest = np.minimum.reduceat(times, groups.starts) - 2 * self._difference
        loaded = self._store.load_range(keys, earliest, shifted(np.maximum.reduceat(times, groups.starts), 1))
        in_time = batch.timestamp >= closed_at - self._difference
        rows = np.flatnonzero(in_time)
        records = records_of(codes[rows], batch.timestamp[rows], closed_at[rows])
        time = self._store.observed_stream_time
        outcome, failed = process_records(
            self._rules, self._fold, records, batch.take(rows), loaded.entries, len(keys), time, most
        )
        if outcome.records < len(rows):
            done = int(rows[outcome.records])
            batch, in_time = batch.take(np.arange(done)), in_time[:done]
            rows = rows[: outcome.records]
        self._count(batch, rows, np.flatnonzero(~in_time), outcome)
        if self._context.commit.watching is not None:
            self._context.commit.watching(self._seen(batch, closed_at, rows, outcome))
        self._tell_failures(batch, ((int(rows[i]), error) for i, error in failed))
        return _Work(batch, rows, loaded, outcome)

    def _write_all(self, work: _Work) -> None:
        unseen_from = None if self._closing is None else self._closing.closed_before - self._difference
        outcome = work.outcome
        self._write(work.loaded, outcome.removed, outcome.entries, unseen_from, outcome.stream_time)

    def _seen(self, batch: Batch, closed_at: IntArray, rows: IntArray, outcome: SlidingOutcome) -> Seen:
        """The fate of each record, for those who watch: if any of its windows has closed, its left window has."""
        late = np.append(np.setdiff1d(np.arange(len(batch)), rows), rows[outcome.closed > 0])
        left = np.maximum(batch.timestamp[late] - self._difference, 0)
        row, start = rows[outcome.updates.record], outcome.updates.start
        windows = by_fate(
            (TAKEN, row, start, shifted(start, self._difference)),
            (CLOSED, late, left, shifted(left, self._difference)),
        )
        times = closed_at[: len(batch)] + self._windows.grace_period_ms
        return Seen(self._node, batch, times, *windows)

    def _count(self, batch: Batch, rows: IntArray, late: IntArray, outcome: SlidingOutcome) -> None:
        """Count the drops: records too late for all of their windows, for some of them, and for the store."""
        late = np.sort(np.concatenate([late, np.repeat(rows, outcome.closed)]))
        if len(late):
            self._context.drop(self._node, batch.position[late], CLOSED_WINDOW)
        if not outcome.expired:
            return
        record, start = outcome.updates.record, outcome.updates.start
        times = np.maximum(np.maximum.accumulate(start), self._store.observed_stream_time)
        expired = start < np.minimum(times - self._store.retention + 1, self._store.refused_before(times))
        if expired.any():
            self._context.drop(self._node, batch.position[rows[record[expired]]], "expired-window-of-store")
            self._context.expired(self._store.name, "window", int(expired.sum()))

    def _changes(self, batch: Batch, rows: IntArray, outcome: SlidingOutcome) -> Changes | None:
        """All updates, with old values if a later step needs them."""
        record, start, timestamp, is_there, new, old = outcome.updates
        if not len(record):
            return None
        row = record if len(rows) == len(batch) else rows[record]
        before = None
        if self._sends_old or self._cache is not None:
            before = old()
            if self._cache is not None:  # shows the value of the store, not the initial one
                before = before.where(is_there)
        return Changes(
            WindowedColumn(batch.key.take(row), start, shifted(start, self._difference), self._serde),
            new,
            timestamp,
            (*take_order(batch.order, row), np.arange(len(row))),
            None if batch.headers is None else batch.headers.take(pa.array(row)),
            batch.placed,
            before,
            held=None if batch.held is None else batch.held.take(row),
        )

    def _close(self, closing: Closing, batch: Batch, closed_at: IntArray, in_time: IntArray) -> Changes | None:
        """The results of the windows that the records close. These windows no longer change, so the store has their
        results.

        As in Kafka Streams, records that are too late, or earlier than the time difference, do not check for closed
        windows.
        """
        looking = in_time[batch.timestamp[in_time] >= self._difference]
        if not looking.size or not closing.is_due():
            return None
        closed_at = closed_at[looking]
        earliest = max(closing.closed_before - self._difference, 0)
        closing.done(closed_at)
        found = self._store.of_times(earliest, int(closed_at[-1]) - self._difference - 1)
        if found is None:
            return None
        keys, entries = found
        ends = shifted(entries.first, self._difference)
        row = looking[closing.closed_by(closed_at, ends)]
        data = keys.take(entries.row).data
        return closing.results(batch, row, data, entries.first, ends, entries.data, entries.second)

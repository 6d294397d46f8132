"""``count``, ``reduce`` and ``aggregate`` in sliding windows.

Each record ends one window (its left one), and begins another one right behind it as soon as a later record falls into
that (its right one); it is added to every window that covers it. The windows around all records of a chunk are looked
up at once. What the records of most keys come to is then worked out at once as well; those of keys with gaps among
their windows are processed one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import BoolArray, IntArray, distinct
from penstock.batch import Batch, Changes
from penstock.columns import WindowedColumn
from penstock.ops.aggregate import drop_nulls
from penstock.ops.base import Operator
from penstock.ops.closing import Closing
from penstock.ops.cogroup import ObservedTime, OneTime
from penstock.ops.context import CLOSED_WINDOW, Context
from penstock.ops.emit import EmitCache
from penstock.ops.groups import Groups, group_keys
from penstock.ops.session_fold import SessionFold
from penstock.ops.sliding_fold import Disturbed, Folded, fold_plan, is_early
from penstock.ops.sliding_loop import KeyWindows, Processing, Updates
from penstock.ops.sliding_runs import Plan, Records, plan_of
from penstock.ops.written import written_windows
from penstock.serdes import TimeWindowedSerde
from penstock.state.kinds.packed import Loaded
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.packed import Entries
from penstock.state.rows import Keys, Values

_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class AtOnce:
    """What came of the records of the keys that could be worked out at once."""

    rows: IntArray
    """The chunk's row of each update."""
    plan: Plan
    folded: Folded
    stored: IntArray
    """The places of the keys' windows among all that were loaded."""
    is_done: BoolArray
    """Which rows of the chunk these are."""


class SlidingAggregate(Operator):
    """One aggregate for each key and sliding window, as Kafka Streams makes and updates them."""

    def __init__(
        self,
        node: str,
        context: Context,
        fold: SessionFold,
        store: SlidingStore,
        sends_old: bool,
        caching: bool,
        windows: Any,
        serde: TimeWindowedSerde,
        time: ObservedTime,
        closing: Closing | None,
    ):
        self._node = node
        self._context = context
        self._fold = fold
        self._store = store
        self._sends_old = sends_old
        self._cache = EmitCache(sends_old) if caching else None
        self._windows = windows
        self._difference: int = windows.time_difference_ms
        self._serde = serde
        self._time = time
        self._closing = closing
        self._disturbed = Disturbed(self._difference)

    def step(self, batch: Batch) -> Changes | None:
        batch = self._context.encoded(self._node, batch, "key", "value")
        batch = drop_nulls(self._node, self._context, batch, "key", "value")
        if not len(batch):
            return None
        if isinstance(self._time, OneTime):
            self._disturbed.begin(self._time.now)
        closed_at = self._time.observe(batch) - self._windows.grace_period_ms
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        times = batch.timestamp[groups.order]
        earliest = np.minimum.reduceat(times, groups.starts) - 2 * self._difference
        loaded = self._store.load_range(keys, earliest, np.maximum.reduceat(times, groups.starts) + 1)
        in_time = batch.timestamp + self._difference >= closed_at
        at_once = self._at_once(batch, keys, codes, closed_at, in_time, loaded)
        left = in_time if at_once is None else in_time & ~at_once.is_done
        held = self._held(loaded, distinct(codes[left]), len(keys))
        updates = Updates(late=np.flatnonzero(~in_time).tolist())
        process = Processing(self._fold, self._difference, self._store, self._closing is not None, updates)
        process.run(batch, np.flatnonzero(left), codes, held, closed_at, self._start_times(at_once, len(batch)))
        self._count(batch, updates)
        if isinstance(self._time, OneTime):
            taken = [row for row, new in zip(updates.row, updates.new, strict=True) if new is None]
            self._disturbed.add(keys.data.take(pa.array(codes[taken])), batch.timestamp[taken])
            self._disturbed.end(self._time.now, int(closed_at[-1]))
        unseen_from = None if self._closing is None else self._closing.closed_before - self._difference
        time_before = self._store.observed_stream_time
        self._write(loaded, held, at_once, unseen_from)
        changes = self._changes(batch, updates, at_once)
        if changes is not None:
            assert isinstance(changes.key, WindowedColumn)
            self._store.advance(int(changes.key.start.max()))
            if self._store.name in self._context.looked_up:
                self._note(loaded, changes, time_before)
        if self._closing is None:
            return self._emit(changes)
        return self._close(self._closing, batch, closed_at)

    def flush(self) -> Changes | None:
        return None if self._cache is None else self._cache.flush()

    # --- what can be worked out at once --------------------------------------------------------------------------

    def _at_once(
        self, batch: Batch, keys: Keys, codes: IntArray, closed_at: IntArray, in_time: BoolArray, loaded: Loaded
    ) -> AtOnce | None:
        if not isinstance(self._time, OneTime):
            return None
        is_fit = self._are_fit(batch, keys, codes, closed_at, in_time)
        rows = np.flatnonzero(is_fit[codes] & in_time)
        stored = np.flatnonzero(is_fit[loaded.entries.row])
        records, entries = Records(codes[rows], batch.timestamp[rows]), loaded.entries.take(stored)
        if not len(rows) or self._span(records, entries) * len(keys) >= _LIMIT:
            return None
        plan = plan_of(records, entries, self._difference)
        every_key, every_value = self._fold.keys(batch), self._fold.values(batch)
        some_keys, some_values = [every_key[row] for row in rows.tolist()], [every_value[row] for row in rows.tolist()]
        folded = fold_plan(self._fold, plan, entries.data, some_keys, some_values)
        if folded is None:
            return None
        is_done = np.zeros(len(batch), np.bool_)
        is_done[rows] = True
        return AtOnce(rows[plan.record], plan, folded, stored, is_done)

    def _span(self, records: Records, entries: Entries) -> int:
        """How much time there is between the earliest and the latest window."""
        times = np.concatenate([records.time, entries.first])
        return int(times.max()) - int(times.min()) + 5 * (self._difference + 2)

    def _are_fit(self, batch: Batch, keys: Keys, codes: IntArray, closed_at: IntArray, in_time: BoolArray) -> BoolArray:
        """For which keys all windows are there, and all records come in time for all of theirs."""
        times = batch.timestamp
        stream_time = np.maximum(np.maximum.accumulate(times), self._store.observed_stream_time)
        disturbs = (times < closed_at) | (times - 2 * self._difference <= stream_time - self._store.retention)
        bad = np.flatnonzero(disturbs & in_time)
        until = self._disturbed.until(keys)
        self._disturbed.add(keys.data.take(pa.array(codes[bad])), np.maximum(times, closed_at)[bad])
        unfit = in_time & (disturbs | is_early(times, self._difference) | (times < until[codes]))
        return np.bincount(codes[unfit], minlength=len(keys)) == 0  # type: ignore[no-any-return]

    def _start_times(self, at_once: AtOnce | None, count: int) -> IntArray:
        """The store's stream time before each record, from what was worked out at once."""
        times = np.full(count + 1, self._store.observed_stream_time)
        if at_once is not None:
            np.maximum.at(times, at_once.rows + 1, at_once.plan.windows.start[at_once.plan.window])
        return np.maximum.accumulate(times)[:-1]

    # --- writing and sending on ----------------------------------------------------------------------------------

    def _held(self, loaded: Loaded, owners: IntArray, count: int) -> dict[int, KeyWindows]:
        """The windows of some keys."""
        held = {owner: KeyWindows() for owner in owners.tolist()}
        chosen = np.zeros(count, np.bool_)
        chosen[owners] = True
        entries = loaded.entries.take(np.flatnonzero(chosen[loaded.entries.row]))
        columns = (entries.row, entries.first, entries.second)
        aggregates = self._fold.load(entries.data)
        for owner, start, timestamp, aggregate in zip(*(c.tolist() for c in columns), aggregates, strict=True):
            held[owner].starts.append(start)
            held[owner].windows[start] = (aggregate, timestamp)
        return held

    def _count(self, batch: Batch, updates: Updates) -> None:
        """Count the drops, and deal with the records that failed."""
        if updates.late:
            self._context.drop(self._node, batch.position[sorted(updates.late)], CLOSED_WINDOW)
        if updates.not_stored:
            self._context.drop(self._node, batch.position[updates.not_stored], "expired-window-of-store")
            self._context.expired(self._store.name, "window", len(updates.not_stored))
        for row, error in updates.failed:
            self._context.failed(self._node, int(batch.position[row]), error, self._fold.function)

    def _write(
        self, loaded: Loaded, held: dict[int, KeyWindows], at_once: AtOnce | None, unseen_from: int | None
    ) -> None:
        entries = loaded.entries
        removed = np.zeros(len(entries), np.bool_)
        owners = np.fromiter(held, np.int64, len(held))
        others = np.flatnonzero(np.isin(entries.row, owners))
        pairs = zip(entries.row[others].tolist(), entries.first[others].tolist(), strict=True)
        removed[others] = [start in held[owner].changed for owner, start in pairs]
        rows = [
            (owner, start, *reversed(windows.windows[start]))
            for owner, windows in held.items()
            for start in sorted(windows.changed)
            if start in windows.windows
        ]
        owner, start, timestamp, aggregates = zip(*rows, strict=True) if rows else ((), (), (), ())
        data = self._fold.column(list(aggregates)).encoded()
        new = Entries(_ints(owner), _ints(start), _ints(timestamp), data)
        if at_once is not None:
            windows, touched = at_once.plan.windows, at_once.folded.touched
            places = windows.place[touched]
            removed[at_once.stored[places[places >= 0]]] = True
            last, data = at_once.folded.timestamps, at_once.folded.last.encoded()
            new = new.join(Entries(windows.owner[touched], windows.start[touched], last, data))
        self._store.write(loaded, removed, new, unseen_from)

    def _changes(self, batch: Batch, updates: Updates, at_once: AtOnce | None) -> Changes | None:
        """All updates, old values with them."""
        rows, start, timestamp = _ints(updates.row), _ints(updates.start), _ints(updates.timestamp)
        new, old = self._fold.column(updates.new), self._fold.column(updates.old)
        if at_once is not None:
            plan = at_once.plan
            rows = np.concatenate([at_once.rows, rows])
            start = np.concatenate([plan.windows.start[plan.window], start])
            timestamp = np.concatenate([plan.timestamp, timestamp])
            new, old = at_once.folded.new.join([new]), at_once.folded.old.join([old])
            if len(updates.row):
                order = np.argsort(rows, kind="stable")
                rows, start, timestamp = rows[order], start[order], timestamp[order]
                new, old = new.take(order), old.take(order)
        if not len(rows):
            return None
        wide = batch.take(rows)
        key = WindowedColumn(wide.key, start, start + self._difference, self._serde)
        wide = replace(wide.with_key(key), order=(*wide.order, np.arange(len(rows))))
        return wide.as_changes(new, timestamp, old)

    def _emit(self, changes: Changes | None) -> Changes | None:
        if changes is None or self._cache is None:
            return changes if changes is None or self._sends_old else replace(changes, old=None)
        self._cache.add(changes)
        return None

    def _note(self, loaded: Loaded, changes: Changes, time_before: int) -> None:
        """Note the writes, and what there was before, for those who look things up in the store."""
        old = loaded.entries
        assert isinstance(changes.key, WindowedColumn)
        times = np.maximum.accumulate(np.concatenate([[time_before], changes.key.start]))
        owners = loaded.keys.data.take(pa.array(old.row))
        there = self._serde.encode_windows(owners, old.first, old.first + self._difference)
        written = written_windows(there, Values(old.data, old.second), changes, times, by_start=True)
        self._context.written[self._store.name] = written

    def _close(self, closing: Closing, batch: Batch, closed_at: IntArray) -> Changes | None:
        """The results of the windows that the records close; those cannot change any more, so the store has them."""
        if not closing.is_due():
            return None
        earliest = max(closing.closed_before - self._difference, 0)
        closing.done(closed_at)
        found = self._store.of_times(earliest, int(closed_at[-1]) - self._difference - 1)
        if found is None:
            return None
        keys, entries = found
        ends = entries.first + self._difference
        row = closing.closed_by(closed_at, ends)
        data = keys.take(entries.row).data
        return closing.results(batch, row, data, entries.first, ends, entries.data, entries.second)


def _ints(numbers: Any) -> IntArray:
    return np.array(numbers, np.int64)

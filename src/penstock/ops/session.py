"""``count``, ``reduce`` and ``aggregate`` in sessions: find, merge, aggregate, remove, put (KIP-94).

The sessions of all keys of a chunk are looked up at once; then each key's records are processed in order.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray, concat
from penstock.batch import Batch, Changes
from penstock.columns import Column, WindowedColumn
from penstock.ops.aggregate import drop_nulls
from penstock.ops.base import Operator
from penstock.ops.closing import Closing
from penstock.ops.cogroup import ObservedTime
from penstock.ops.context import CLOSED_WINDOW, Context
from penstock.ops.emit import EmitCache
from penstock.ops.groups import Groups, group_keys
from penstock.ops.session_fold import FoldedRuns, SessionFold
from penstock.ops.session_runs import Bounds, Runs, runs_of
from penstock.ops.written import written_windows
from penstock.serdes import SessionWindowedSerde
from penstock.state.kinds.packed import Loaded
from penstock.state.kinds.session import SessionStore
from penstock.state.packed import Entries
from penstock.state.rows import Values

Session = list[Any]
"""A session while its key is processed: end, start, aggregate, and its place among those that were loaded, or -1."""


@dataclass(slots=True)
class Updates:
    """What came of a chunk's records, in the order of processing."""

    with_replaced: bool
    """Whether a session that is replaced at its very bounds is told as the old value; Kafka Streams does so only out of
    its cache."""
    row: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    new: list[Any] = field(default_factory=list)
    old: list[Any] = field(default_factory=list)
    gone: list[tuple[int, Session]] = field(default_factory=list)
    """Sessions that went away, and the rows at which they did."""
    fresh: list[int] = field(default_factory=list)
    """Rows of records that began a session."""
    late: list[int] = field(default_factory=list)
    """Rows of records for closed sessions."""
    not_stored: list[int] = field(default_factory=list)
    """Rows of records whose sessions are too old for the store."""
    failed: list[tuple[int, Exception]] = field(default_factory=list)

    def add(self, row: int, start: int, end: int, new: Any, old: Any) -> None:
        self.row.append(row)
        self.start.append(start)
        self.end.append(end)
        self.new.append(new)
        self.old.append(old)


@dataclass(frozen=True, slots=True)
class AtOnce:
    """What came of the records of the keys that could be worked out at once."""

    runs: Runs
    folded: FoldedRuns

    def entries(self) -> Entries:
        """The sessions that there are now and are new."""
        runs, last = self.runs, self.runs.last
        return Entries(runs.owner, runs.end[last], runs.start[last], self.folded.new.take(last).encoded())

    def bounds(self, removes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """For each session that goes, then for each that comes: the row, the start, the end."""
        runs = self.runs
        return (
            np.concatenate([runs.row[removes], runs.row]),
            np.concatenate([runs.start_before[removes], runs.start]),
            np.concatenate([runs.end_before[removes], runs.end]),
        )

    def values(self, removes: IntArray, with_replaced: bool) -> tuple[Column, Column]:
        """For each session that goes, then for each that comes: the new and the old value."""
        runs, every = self.runs, np.arange(len(self.runs.row))
        is_replaced = runs.goes_on & (runs.start == runs.end) & with_replaced
        gone = np.ones(len(removes), np.bool_)
        places = np.concatenate([removes, every])
        new = self.folded.new.take(places).where(np.concatenate([~gone, np.ones(len(every), np.bool_)]))
        return new, self.folded.before.take(places).where(np.concatenate([gone, is_replaced]))


class SessionAggregate(Operator):
    """One aggregate for each key and session; a record joins, extends and merges the sessions within the gap.

    Sessions that a record merges are removed first, with their old values, in the order of their ends.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        fold: SessionFold,
        store: SessionStore,
        sends_old: bool,
        caching: bool,
        windows: Any,
        serde: SessionWindowedSerde,
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
        self._gap: int = windows.inactivity_gap_ms
        self._serde = serde
        self._time = time
        self._closing = closing

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
        updates = Updates(self._cache is not None)
        at_once = self._at_once(batch, groups, loaded, bounds)
        is_simple = np.zeros(len(groups), np.bool_)
        if at_once is not None:
            updates.late += at_once.runs.dropped.tolist()
            is_simple = at_once.runs.is_simple
        others = np.flatnonzero(~is_simple[groups.group])
        live = self._live(loaded, np.flatnonzero(~is_simple))
        process(self._fold, self._gap, groups, others, live, batch, bounds, updates)
        self._count(batch, updates)
        time_before = self._store.observed_stream_time
        self._write(loaded, updates, live, at_once, unseen_from)
        self._store.advance(int(bounds.timestamps.max()))
        changes = self._changes(batch, updates, at_once)
        if changes is not None and self._store.name in self._context.looked_up:
            self._note(loaded, changes, bounds, batch, time_before)
        if self._closing is None:
            return self._emit(changes)
        return self._close(self._closing, batch, bounds.closed_at, updates, at_once)

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

    def _at_once(self, batch: Batch, groups: Groups, loaded: Loaded, bounds: Bounds) -> AtOnce | None:
        runs = runs_of(groups, loaded.entries, bounds, self._gap, self._closing is not None)
        folded = self._fold.along(runs, loaded.entries.data, batch)
        return None if folded is None else AtOnce(runs, folded)

    def _live(self, loaded: Loaded, numbers: IntArray) -> dict[int, list[Session]]:
        """The sessions that keys of these numbers have in the store."""
        live: dict[int, list[Session]] = {number: [] for number in numbers.tolist()}
        chosen = np.zeros(len(loaded.keys), np.bool_)
        chosen[numbers] = True
        places = np.flatnonzero(chosen[loaded.entries.row])
        entries = loaded.entries.take(places)
        ends, starts = entries.first.tolist(), entries.second.tolist()
        columns = (entries.row.tolist(), ends, starts, self._fold.load(entries.data), places.tolist())
        for owner, *session in zip(*columns, strict=True):
            live[owner].append(session)
        return live

    def _count(self, batch: Batch, updates: Updates) -> None:
        """Count the drops, and deal with the records that failed."""
        if updates.late:
            self._context.drop(self._node, batch.position[updates.late], CLOSED_WINDOW)
        if updates.not_stored:
            self._context.drop(self._node, batch.position[updates.not_stored], "expired-window-of-store")
            self._context.expired(self._store.name, "session", len(updates.not_stored))
        for row, error in sorted(updates.failed, key=lambda failure: failure[0]):
            self._context.failed(self._node, int(batch.position[row]), error, self._fold.function)

    def _write(
        self,
        loaded: Loaded,
        updates: Updates,
        live: dict[int, list[Session]],
        at_once: AtOnce | None,
        unseen_from: int | None,
    ) -> None:
        removed = np.zeros(len(loaded.entries), np.bool_)
        removed[[session[3] for _, session in updates.gone if session[3] >= 0]] = True
        rows = [(number, *session[:3]) for number, sessions in live.items() for session in sessions if session[3] < 0]
        owner, end, start, aggregates = zip(*rows, strict=True) if rows else ((), (), (), ())
        new = Entries(_ints(owner), _ints(end), _ints(start), self._fold.column(list(aggregates)).encoded())
        if at_once is not None:
            removed[at_once.runs.removed] = True
            new = new.join(at_once.entries())
        self._store.write(loaded, removed, new, unseen_from)

    def _close(
        self, closing: Closing, batch: Batch, closed_at: IntArray, updates: Updates, at_once: AtOnce | None
    ) -> Changes | None:
        """The results of the sessions that the records close: of those in the store, and of those that went later."""
        if not closing.is_due():
            return None
        closed_before = closing.closed_before
        closing.done(closed_at)
        rows, start, end, data = self._gone(updates, at_once, closed_before)
        row = closing.closed_by(closed_at, end)
        places = np.flatnonzero(row < rows)
        row, start, end, data = row[places], start[places], end[places], data.take(pa.array(places))
        keys = batch.key.encoded().take(pa.array(rows[places]))
        found = self._store.of_times(max(closed_before, 0), int(closed_at[-1]) - 1)
        if found is not None:
            entries = found.entries
            row = np.concatenate([row, closing.closed_by(closed_at, entries.first)])
            end, start = np.concatenate([end, entries.first]), np.concatenate([start, entries.second])
            keys = concat([keys, found.keys.data.take(pa.array(entries.row))])
            data = concat([data, entries.data])
        return closing.results(batch, row, keys, start, end, data, end)

    def _gone(
        self, updates: Updates, at_once: AtOnce | None, since: int
    ) -> tuple[IntArray, IntArray, IntArray, Binary]:
        """The sessions that went away and ended at some time or later: rows, starts, ends, aggregates."""
        gone = [(row, session) for row, session in updates.gone if session[0] >= since]
        rows = _ints([row for row, _ in gone])
        start, end = _ints([session[1] for _, session in gone]), _ints([session[0] for _, session in gone])
        data = self._fold.column([session[2] for _, session in gone]).encoded()
        if at_once is None:
            return rows, start, end, data
        runs = at_once.runs
        went = np.flatnonzero(runs.goes_on & (runs.end_before >= since))
        return (
            np.concatenate([rows, runs.row[went]]),
            np.concatenate([start, runs.start_before[went]]),
            np.concatenate([end, runs.end_before[went]]),
            concat([data, at_once.folded.before.take(went).encoded()]),
        )

    def _windowed(self, key: Column, start: IntArray, end: IntArray) -> WindowedColumn:
        return WindowedColumn(key, start, end, self._serde)

    def _changes(self, batch: Batch, updates: Updates, at_once: AtOnce | None) -> Changes | None:
        """All updates in order, old values with them."""
        rows, start, end = _ints(updates.row), _ints(updates.start), _ints(updates.end)
        new, old = self._fold.column(updates.new), self._fold.column(updates.old)
        if at_once is not None:
            removes = at_once.runs.removes()
            some_rows, some_start, some_end = at_once.bounds(removes)
            rows = np.concatenate([some_rows, rows])
            start, end = np.concatenate([some_start, start]), np.concatenate([some_end, end])
            some_new, some_old = at_once.values(removes, updates.with_replaced)
            new, old = some_new.join([new]), some_old.join([old])
        if not len(rows):
            return None
        order = np.argsort(rows, kind="stable")
        rows, start, end = rows[order], start[order], end[order]
        first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
        number = np.arange(len(rows)) - np.repeat(first, np.diff(np.append(first, len(rows))))
        wide = batch.take(rows)
        wide = replace(wide.with_key(self._windowed(wide.key, start, end)), order=(*wide.order, number))
        return wide.as_changes(new.take(order), end, old.take(order))

    def _emit(self, changes: Changes | None) -> Changes | None:
        if changes is None:
            return None
        if self._cache is not None:
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
        self._context.written[self._store.name] = written


def process(
    fold: SessionFold,
    gap: int,
    groups: Groups,
    places: IntArray,
    live_of: dict[int, list[Session]],
    batch: Batch,
    bounds: Bounds,
    updates: Updates,
) -> None:
    """Process records, by key and in order, and bring the keys' sessions up to date.

    Args:
        places: which records, as places in the order of the groups.
    """
    if not len(places):
        return
    times, closed_at, visible_from = bounds.timestamps.tolist(), bounds.closed_at.tolist(), bounds.visible_from.tolist()
    keys, values = fold.keys(batch), fold.values(batch)
    for row, number in zip(groups.order[places].tolist(), groups.group[places].tolist(), strict=True):
        time = start = end = times[row]
        live = live_of[number]
        low, high = max(time - gap, visible_from[row]), time + gap
        found = [session for session in live if session[0] >= low and session[1] <= high]
        for session in found:
            start, end = min(start, session[1]), max(end, session[0])
        if end < closed_at[row]:
            updates.late.append(row)
            continue
        try:
            aggregate = fold.fold(keys[row], values[row], [session[2] for session in found])
        except Exception as error:
            updates.failed.append((row, error))
            continue
        old = None
        for session in found:
            live.remove(session)
            updates.gone.append((row, session))
            if start == end:  # a session of this very time: it is replaced
                old = session[2] if updates.with_replaced else None
            else:
                updates.add(row, session[1], session[0], None, session[2])
        updates.add(row, start, end, aggregate, old)
        if not found:
            updates.fresh.append(row)
        if end < bounds.stored_from[row]:
            if end < bounds.counted_from[row]:
                updates.not_stored.append(row)
        elif aggregate is not None:
            for session in live:
                if session[0] == end and session[1] == start:  # it was not visible any more, and is replaced
                    live.remove(session)
                    updates.gone.append((row, session))
                    break
            insort(live, [end, start, aggregate, -1], key=_bounds_of)


def _bounds_of(session: Session) -> tuple[int, int]:
    return session[0], session[1]


def _ints(numbers: Any) -> IntArray:
    return np.array(numbers, np.int64)

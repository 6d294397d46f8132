"""``count``, ``reduce`` and ``aggregate`` in sessions: find, merge, aggregate, remove, put (KIP-94).

The sessions of all keys of a chunk are looked up at once; then each key's records are processed in order.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import BoolArray, IntArray, concat
from penstock.batch import Batch, Changes
from penstock.columns import Column, NumberColumn, WindowedColumn
from penstock.ops.aggregate import drop_nulls
from penstock.ops.base import Operator
from penstock.ops.closing import Closing
from penstock.ops.cogroup import ObservedTime
from penstock.ops.context import CLOSED_WINDOW, Context
from penstock.ops.emit import EmitCache
from penstock.ops.groups import Groups, group_keys
from penstock.ops.session_fold import CountSessions, SessionFold
from penstock.ops.session_runs import Bounds, Runs, count_runs
from penstock.ops.written import written_windows
from penstock.serdes import INT, SessionWindowedSerde
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
        updates, runs = Updates(self._cache is not None), None
        if isinstance(self._fold, CountSessions) and self._closing is None:
            counts = self._fold.numbers(loaded.entries.data)
            runs = count_runs(groups, loaded.entries, counts, bounds, self._gap, self._cache is not None)
            updates.late += runs.dropped.tolist()
        others = np.arange(len(batch)) if runs is None else np.flatnonzero(~runs.is_simple[groups.group])
        live = self._live(loaded, None if runs is None else ~runs.is_simple)
        process(self._fold, self._gap, groups, others, live, batch, bounds, updates)
        self._count(batch, updates)
        time_before = self._store.observed_stream_time
        self._write(loaded, updates, live, runs, unseen_from)
        self._store.advance(int(bounds.timestamps.max()))
        changes = self._changes(batch, updates, runs)
        if changes is not None and self._store.name in self._context.looked_up:
            self._note(loaded, changes, bounds, batch, time_before)
        if self._closing is None:
            return self._emit(changes)
        return self._close(self._closing, batch, bounds.closed_at, updates)

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

    def _live(self, loaded: Loaded, chosen: BoolArray | None) -> dict[int, list[Session]]:
        """The sessions that chosen keys, or all, have in the store, by the numbers of the keys."""
        numbers = np.arange(len(loaded.keys)) if chosen is None else np.flatnonzero(chosen)
        live: dict[int, list[Session]] = {number: [] for number in numbers.tolist()}
        entries, places = loaded.entries, np.arange(len(loaded.entries))
        if chosen is not None:
            places = np.flatnonzero(chosen[entries.row])
            entries = entries.take(places)
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
        runs: Runs | None,
        unseen_from: int | None,
    ) -> None:
        removed = np.zeros(len(loaded.entries), np.bool_)
        removed[[session[3] for _, session in updates.gone if session[3] >= 0]] = True
        rows = [(number, *session[:3]) for number, sessions in live.items() for session in sessions if session[3] < 0]
        owner, end, start, aggregates = zip(*rows, strict=True) if rows else ((), (), (), ())
        new = Entries(_ints(owner), _ints(end), _ints(start), self._fold.column(list(aggregates)).encoded())
        if runs is not None:
            removed[runs.removed] = True
            new = new.join(Entries(runs.owner, runs.end, runs.start, INT.encode_numbers(runs.count, None)))
        self._store.write(loaded, removed, new, unseen_from)

    def _close(self, closing: Closing, batch: Batch, closed_at: IntArray, updates: Updates) -> Changes | None:
        """The results of the sessions that the records close: of those in the store, and of those that went later."""
        if not closing.is_due():
            return None
        closed_before = closing.closed_before
        closing.done(closed_at)
        gone = [(row, session) for row, session in updates.gone if session[0] >= closed_before]
        rows, ends = _ints([row for row, _ in gone]), _ints([session[0] for _, session in gone])
        closed_by = closing.closed_by(closed_at, ends)
        places = np.flatnonzero(closed_by < rows)
        row, end, start = closed_by[places], ends[places], _ints([gone[place][1][1] for place in places.tolist()])
        keys = batch.key.encoded().take(pa.array(rows[places]))
        data = self._fold.column([gone[place][1][2] for place in places.tolist()]).encoded()
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

    def _changes(self, batch: Batch, updates: Updates, runs: Runs | None) -> Changes | None:
        """All updates in order, old values with them."""
        rows, start, end = _ints(updates.row), _ints(updates.start), _ints(updates.end)
        new, old = self._fold.column(updates.new), self._fold.column(updates.old)
        if runs is not None:
            counted = runs.updates
            rows = np.concatenate([counted.row, rows])
            start, end = np.concatenate([counted.start, start]), np.concatenate([counted.end, end])
            new = NumberColumn(counted.new, INT, counted.has_new).join([new])
            old = NumberColumn(counted.old, INT, counted.has_old).join([old])
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

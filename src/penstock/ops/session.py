"""``count``, ``reduce`` and ``aggregate`` in sessions: find, merge, aggregate, remove, put (KIP-94).

The sessions of all keys of a chunk are looked up at once. Where records only extend sessions, and where no user's
function merges them, what comes of them is worked out at once too; where users' aggregates merge, each key's records
are processed in order.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray, concat
from penstock.batch import Batch, Changes
from penstock.columns import Column, WindowedColumn
from penstock.ops.aggregate import drop_nulls
from penstock.ops.base import Operator
from penstock.ops.closing import Closing
from penstock.ops.cogroup import ObservedTime
from penstock.ops.context import CLOSED_WINDOW, Context
from penstock.ops.emit import EmitCache
from penstock.ops.groups import Groups, group_keys
from penstock.ops.session_fold import FoldedMerges, FoldedRuns, SessionFold
from penstock.ops.session_merges import Merges, merges_of
from penstock.ops.session_runs import Bounds, Runs, runs_of
from penstock.ops.written import written_windows
from penstock.serdes import SessionWindowedSerde
from penstock.state.kinds.packed import Loaded
from penstock.state.kinds.session import SessionStore
from penstock.state.packed import Entries
from penstock.state.rows import Keys, Values

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
class Outcome:
    """What came of some keys' records: all updates, and what that changes in the store."""

    row: IntArray
    """Of each update; a session that goes comes before the one that takes its place."""
    start: IntArray
    end: IntArray
    new: Column
    old: Column
    fresh: IntArray
    """Rows of records that began a session."""
    gone_row: IntArray
    """The rows at which sessions went away."""
    gone_start: IntArray
    gone_end: IntArray
    gone: Column
    """Their aggregates."""
    removed: IntArray
    """The places of stored sessions that went away."""
    entries: Entries
    """The sessions that there are now and are new."""
    late: IntArray
    """Rows of records for closed sessions."""
    not_stored: IntArray
    """Rows of records whose sessions are too old for the store."""

    @classmethod
    def join(cls, parts: list[Outcome]) -> Outcome:
        """Those of several groups of keys."""
        if len(parts) == 1:
            return parts[0]
        first, rest = parts[0], parts[1:]
        joined: dict[str, Any] = {}
        for field_ in fields(cls):
            own, others = getattr(first, field_.name), [getattr(part, field_.name) for part in rest]
            if isinstance(own, np.ndarray):
                joined[field_.name] = np.concatenate([own, *others])
            elif isinstance(own, Entries):
                joined[field_.name] = reduce(Entries.join, others, own)
            else:
                joined[field_.name] = own.join(others)
        return cls(**joined)


def of_runs(runs: Runs, folded: FoldedRuns, with_replaced: bool) -> Outcome:
    """The outcome of records that only extend sessions."""
    removes, every, last = runs.removes(), np.arange(len(runs.row)), runs.last
    is_replaced = runs.goes_on & (runs.start == runs.end) & with_replaced
    gone, places = np.ones(len(removes), np.bool_), np.concatenate([removes, every])
    went = np.flatnonzero(runs.goes_on)
    return Outcome(
        np.concatenate([runs.row[removes], runs.row]),
        np.concatenate([runs.start_before[removes], runs.start]),
        np.concatenate([runs.end_before[removes], runs.end]),
        folded.new.take(places).where(np.concatenate([~gone, np.ones(len(every), np.bool_)])),
        folded.before.take(places).where(np.concatenate([gone, is_replaced])),
        runs.row[~runs.goes_on],
        runs.row[went],
        runs.start_before[went],
        runs.end_before[went],
        folded.before.take(went),
        runs.removed,
        Entries(runs.owner, runs.end[last], runs.start[last], folded.new.take(last).encoded()),
        runs.dropped,
        np.zeros(0, np.int64),
    )


def of_merges(
    merges: Merges, folded: FoldedMerges, rows: IntArray, owner: IntArray, bounds: Bounds, with_replaced: bool
) -> Outcome:
    """The outcome of records for which it is known at once what sessions they merge.

    Args:
        rows: the row of each record.
        owner: the number of its key.
        bounds: of all rows.
    """
    found, row, every = merges.found, rows[merges.record], np.arange(len(merges.record))
    place = np.searchsorted(merges.record, found.record)
    is_replaced = merges.start[place] == merges.end[place]
    goes, replaced = np.flatnonzero(~is_replaced), np.flatnonzero(is_replaced & with_replaced)
    is_new = np.repeat([False, True], [len(goes), len(row)])
    before, has_before = np.full(len(row), len(found.record)), ~is_new
    before[place[replaced]] = replaced
    has_before[len(goes) + place[replaced]] = True
    begins = np.ones(len(row), np.bool_)
    begins[place] = False
    is_stored = merges.end >= bounds.stored_from[row]
    last = merges.last[is_stored[merges.last]]
    return Outcome(
        np.concatenate([rows[found.record[goes]], row]),
        np.concatenate([found.start[goes], merges.start]),
        np.concatenate([found.end[goes], merges.end]),
        folded.new.take(np.concatenate([place[goes], every])).where(is_new),
        folded.found.join([folded.new]).take(np.concatenate([goes, before])).where(has_before),
        row[begins],
        rows[found.record],
        found.start,
        found.end,
        folded.found,
        merges.removed,
        Entries(owner[merges.record[last]], merges.end[last], merges.start[last], folded.new.take(last).encoded()),
        rows[merges.is_late],
        row[~is_stored & (merges.end < bounds.counted_from[row])],
    )


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
        outcome = self._outcome(batch, keys, codes, groups, loaded, bounds)
        time_before = self._store.observed_stream_time
        removed = np.zeros(len(loaded.entries), np.bool_)
        removed[outcome.removed] = True
        self._store.write(loaded, removed, outcome.entries, unseen_from)
        self._store.advance(int(bounds.timestamps.max()))
        changes = self._changes(batch, outcome)
        if changes is not None and self._store.name in self._context.looked_up:
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
        keeps_unseen, with_replaced = self._closing is not None, self._cache is not None
        runs = runs_of(groups, loaded.entries, bounds, self._gap, keeps_unseen)
        folded = self._fold.along(runs, loaded.entries.data, batch)
        parts = [] if folded is None else [of_runs(runs, folded, with_replaced)]
        is_left = np.ones(len(keys), np.bool_) if folded is None else ~runs.is_simple
        rows = np.flatnonzero(is_left[codes])
        numbers = self._fold.numbers(loaded.entries.data)
        if len(rows) and numbers is not None:
            merges = merges_of(codes[rows], bounds.take(rows), loaded.entries, numbers, self._gap, keeps_unseen)
            merged = self._fold.along_merges(merges, loaded.entries.data, batch.take(rows))
            parts.append(of_merges(merges, merged, rows, codes[rows], bounds, with_replaced))
            is_left[codes[rows[merges.is_fit]]] = False
        if is_left.any() or not parts:
            updates, live = Updates(with_replaced), self._live(loaded, np.flatnonzero(is_left))
            others = np.flatnonzero(is_left[groups.group])
            process(self._fold, self._gap, groups, others, live, batch, bounds, updates)
            self._fail(batch, updates)
            parts.append(self._of_updates(updates, live))
        outcome = Outcome.join(parts)
        if len(outcome.late):
            self._context.drop(self._node, batch.position[outcome.late], CLOSED_WINDOW)
        if len(outcome.not_stored):
            self._context.drop(self._node, batch.position[outcome.not_stored], "expired-window-of-store")
            self._context.expired(self._store.name, "session", len(outcome.not_stored))
        return outcome

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

    def _fail(self, batch: Batch, updates: Updates) -> None:
        """Deal with the records that failed."""
        for row, error in sorted(updates.failed, key=lambda failure: failure[0]):
            self._context.failed(self._node, int(batch.position[row]), error, self._fold.function)

    def _of_updates(self, updates: Updates, live: dict[int, list[Session]]) -> Outcome:
        """The outcome of records that were processed one by one."""
        new = [(number, *session[:3]) for number, sessions in live.items() for session in sessions if session[3] < 0]
        owner, new_end, new_start, aggregates = zip(*new, strict=True) if new else ((), (), (), ())
        gone = [session for _, session in updates.gone]
        return Outcome(
            _ints(updates.row),
            _ints(updates.start),
            _ints(updates.end),
            self._fold.column(updates.new),
            self._fold.column(updates.old),
            _ints(updates.fresh),
            _ints([row for row, _ in updates.gone]),
            _ints([session[1] for session in gone]),
            _ints([session[0] for session in gone]),
            self._fold.column([session[2] for session in gone]),
            _ints([session[3] for session in gone if session[3] >= 0]),
            Entries(_ints(owner), _ints(new_end), _ints(new_start), self._fold.column(list(aggregates)).encoded()),
            _ints(updates.late),
            _ints(updates.not_stored),
        )

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

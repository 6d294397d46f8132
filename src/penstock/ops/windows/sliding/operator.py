"""``count``, ``reduce`` and ``aggregate`` in sliding windows.

Each record ends one window (its left one), and begins another one right behind it as soon as a later record falls into
that (its right one); it is added to every window that covers it. The windows around all records of a chunk are looked
up at once. What the records of most keys come to is then worked out at once as well; those of keys with gaps among
their windows are processed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import BoolArray, IntArray, distinct
from penstock.batch import Batch, Changes, join
from penstock.columns import WindowedColumn
from penstock.ops.core.context import CLOSED_WINDOW
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.nulls import drop_nulls
from penstock.ops.core.operator import Operator
from penstock.ops.core.written import written_windows
from penstock.ops.windows.on_window_close import Closing
from penstock.ops.windows.sessions.fold import SessionFold
from penstock.ops.windows.sliding.fold import Folded, fold_plan
from penstock.ops.windows.sliding.loop import KeyWindows, Processing, Updates
from penstock.ops.windows.sliding.plan import UPDATE, Plan, Records, Rules, fits, plan_of
from penstock.ops.windows.windowed_table import WindowedTable
from penstock.plan.windows import SlidingWindows
from penstock.state.columns.packed import Entries
from penstock.state.columns.rows import Values
from penstock.state.kinds.packed import Loaded
from penstock.state.kinds.sliding import SlidingStore

_AT_ONCE = 8192
"""How many records are worked out together."""
_MOST_PAIRS = 2_000_000
"""How many pairs of a record and a window that it may be in are worked out together, unless one record has more."""


@dataclass(frozen=True, slots=True)
class AtOnce:
    """What came of the records of the keys that could be worked out at once."""

    rows: IntArray
    """The chunk's row of each update."""
    plan: Plan
    folded: Folded


class SlidingAggregate(Operator):
    """One aggregate for each key and sliding window, as Kafka Streams makes and updates them."""

    def __init__(self, table: WindowedTable, windows: SlidingWindows, store: SlidingStore, fold: SessionFold):
        self._node = table.node
        self._context = table.context
        self._fold = fold
        self._store = store
        self._sends_old = table.sends_old
        self._tells_stored = table.tells_stored
        self._cache = table.cache(store)
        self._windows = windows
        self._difference: int = windows.time_difference_ms
        self._serde = table.serde
        self._time = table.time
        self._closing = table.closing

    def step(self, batch: Batch) -> Changes | None:
        changes = [piece for piece in self.pieces(batch) if piece is not None]
        return join(changes) if changes else None

    def pieces(self, batch: Batch) -> Iterator[Changes | None]:
        batch = self._context.encoded(self._node, batch, "key", "value")
        batch = drop_nulls(self._node, self._context, batch, "key", "value")
        if not len(batch):
            return
        closed_at = self._time.observe(batch) - self._windows.grace_period_ms
        size = len(batch) if self._is_looked_up else _AT_ONCE  # what it writes is told of the chunk as a whole
        for first in range(0, len(batch), size):
            rows = np.arange(first, min(first + size, len(batch)))
            yield from self._pieces(batch.take(rows), closed_at[rows])

    @property
    def _is_looked_up(self) -> bool:
        return self._store.name in self._context.facts.looked_up

    def _pieces(self, batch: Batch, closed_at: IntArray) -> Iterator[Changes | None]:
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        times = batch.timestamp[groups.order]
        earliest = np.minimum.reduceat(times, groups.starts) - 2 * self._difference
        loaded = self._store.load_range(keys, earliest, np.maximum.reduceat(times, groups.starts) + 1)
        in_time = batch.timestamp + self._difference >= closed_at
        rules = self._rules(batch, np.flatnonzero(in_time), codes, closed_at, loaded)
        is_too_much = in_time.any() if rules is None else rules.pairs > _MOST_PAIRS
        if is_too_much and len(batch) > 1 and not self._is_looked_up:
            for half in np.array_split(np.arange(len(batch)), 2):
                yield from self._pieces(batch.take(half), closed_at[half])
        else:
            yield self._process(batch, in_time, codes, closed_at, loaded, rules)

    def _rules(
        self, batch: Batch, rows: IntArray, codes: IntArray, closed_at: IntArray, loaded: Loaded
    ) -> Rules | None:
        """What decides over the windows of some rows; None if there are none, or if their times lie too far apart."""
        records = Records(codes[rows], batch.timestamp[rows], closed_at[rows])
        if not len(rows) or not fits(records, loaded.entries, self._difference, len(loaded.keys)):
            return None
        store = self._store
        return Rules(records, loaded.entries, self._difference, store.retention, store.observed_stream_time)

    def _process(
        self,
        batch: Batch,
        in_time: BoolArray,
        codes: IntArray,
        closed_at: IntArray,
        loaded: Loaded,
        rules: Rules | None,
    ) -> Changes | None:
        rows = np.flatnonzero(in_time)
        updates = Updates(late=np.flatnonzero(~in_time).tolist())
        at_once = None if rules is None else self._at_once(batch, rows, rules, loaded, updates)
        held: dict[int, KeyWindows] = {}
        if at_once is None:
            held = self._held(loaded, distinct(codes[rows]))
            process = Processing(self._fold, self._difference, self._store, self._closing is not None, updates)
            process.run(batch, rows, codes, held, closed_at)
        self._count(batch, updates)
        unseen_from = None if self._closing is None else self._closing.closed_before - self._difference
        time_before = self._store.observed_stream_time
        self._write(loaded, held, at_once, unseen_from)
        changes = self._changes(batch, updates, at_once)
        if changes is not None:
            assert isinstance(changes.key, WindowedColumn)
            self._store.advance(int(changes.key.start.max()))
            if self._is_looked_up:
                self._note(loaded, changes, time_before)
        if self._closing is None:
            return self._emit(changes)
        return self._close(self._closing, batch, closed_at, rows)

    def flush(self) -> Changes | None:
        return None if self._cache is None else self._cache.flush()

    # --- what can be worked out at once --------------------------------------------------------------------------

    def _at_once(self, batch: Batch, rows: IntArray, rules: Rules, loaded: Loaded, updates: Updates) -> AtOnce | None:
        """All updates; None when a user's function fails or takes an aggregate away."""
        plan, store = plan_of(rules), self._store
        start = plan.windows.start[plan.window]
        is_expired = start < plan.stream_time - store.retention + 1
        is_kept = ~is_expired | (self._closing is not None)
        folded = fold_plan(self._fold, plan, loaded.entries.data, batch.take(rows), is_kept)
        if folded is None:
            return None
        updates.late += np.repeat(rows, plan.closed).tolist()
        refused = is_expired & (start < store.refused_before(plan.stream_time))
        updates.not_stored += rows[plan.record[refused]].tolist()
        return AtOnce(rows[plan.record], plan, folded)

    # --- writing and sending on ----------------------------------------------------------------------------------

    def _held(self, loaded: Loaded, owners: IntArray) -> dict[int, KeyWindows]:
        """The windows of some keys."""
        held = {owner: KeyWindows() for owner in owners.tolist()}
        chosen = np.zeros(len(loaded.keys), np.bool_)
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
            removed[places[places >= 0]] = True
            last, data = at_once.folded.timestamps, at_once.folded.last.encoded()
            new = new.join(Entries(windows.owner[touched], windows.start[touched], last, data))
        self._store.write(loaded, removed, new, unseen_from)

    def _changes(self, batch: Batch, updates: Updates, at_once: AtOnce | None) -> Changes | None:
        """All updates, old values with them."""
        rows, start, timestamp = _ints(updates.row), _ints(updates.start), _ints(updates.timestamp)
        new, old = self._fold.column(updates.new), self._fold.column(updates.old)
        is_there = np.array(updates.is_there, np.bool_)
        if at_once is not None:
            plan = at_once.plan
            rows = np.concatenate([at_once.rows, rows])
            start = np.concatenate([plan.windows.start[plan.window], start])
            timestamp = np.concatenate([plan.timestamp, timestamp])
            new, old = at_once.folded.new.join([new]), at_once.folded.old.join([old])
            is_there = np.concatenate([plan.kind == UPDATE, is_there])
            if len(updates.row):
                order = np.argsort(rows, kind="stable")
                rows, start, timestamp = rows[order], start[order], timestamp[order]
                new, old, is_there = new.take(order), old.take(order), is_there[order]
        if not len(rows):
            return None
        wide = batch.take(rows)
        key = WindowedColumn(wide.key, start, start + self._difference, self._serde)
        wide = replace(wide.with_key(key), order=(*wide.order, np.arange(len(rows))))
        if self._cache is not None:  # it tells what the store had, and not what a window began with
            old = old.where(is_there)
        return wide.as_changes(new, timestamp, old)

    def _emit(self, changes: Changes | None) -> Changes | None:
        if changes is None or self._cache is None:
            return changes if changes is None or self._sends_old else replace(changes, old=None)
        if self._tells_stored:
            return self._cache.at_once(changes)
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
        self._context.chunk.written[self._store.name] = written

    def _close(self, closing: Closing, batch: Batch, closed_at: IntArray, in_time: IntArray) -> Changes | None:
        """The results of the windows that the records close; those cannot change any more, so the store has them.

        As in Kafka Streams, records that are too late, or earlier than the difference, do not look for such windows.
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
        ends = entries.first + self._difference
        row = looking[closing.closed_by(closed_at, ends)]
        data = keys.take(entries.row).data
        return closing.results(batch, row, data, entries.first, ends, entries.data, entries.second)


def _ints(numbers: Any) -> IntArray:
    return np.array(numbers, np.int64)

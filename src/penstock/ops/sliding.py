"""``count``, ``reduce`` and ``aggregate`` in sliding windows.

Each record ends one window (its left one), and begins another one right behind it as soon as a later record falls into
that (its right one); it is added to every window that covers it. The windows around all records of a chunk are looked
up at once, then the records are processed in order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray
from penstock.batch import Batch, Changes
from penstock.columns import WindowedColumn
from penstock.ops.aggregate import drop_nulls
from penstock.ops.base import Operator
from penstock.ops.closing import Closing
from penstock.ops.cogroup import ObservedTime
from penstock.ops.context import CLOSED_WINDOW, Context
from penstock.ops.emit import EmitCache
from penstock.ops.groups import Groups, group_keys
from penstock.ops.session_fold import SessionFold
from penstock.ops.written import written_windows
from penstock.serdes import TimeWindowedSerde
from penstock.state.kinds.packed import Loaded
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.packed import Entries
from penstock.state.rows import Values

Window = tuple[Any, int]
"""The aggregate of a window and its timestamp, that of its latest record."""


@dataclass(slots=True)
class KeyWindows:
    """The windows of one key while its records are processed."""

    starts: list[int] = field(default_factory=list)
    """Ascending."""
    windows: dict[int, Window] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)

    def put(self, start: int, window: Window | None) -> None:
        self.changed.add(start)
        if window is None:
            if self.windows.pop(start, None) is not None:
                self.starts.remove(start)
        else:
            if start not in self.windows:
                insort(self.starts, start)
            self.windows[start] = window


@dataclass(slots=True)
class Updates:
    """What came of a chunk's records, in the order of processing."""

    row: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    new: list[Any] = field(default_factory=list)
    old: list[Any] = field(default_factory=list)
    timestamp: list[int] = field(default_factory=list)
    stream_time: list[int] = field(default_factory=list)
    """That of the store, after each update."""
    late: list[int] = field(default_factory=list)
    """Rows of records for closed windows, once for each window."""
    not_stored: list[int] = field(default_factory=list)
    """Rows of records whose windows are too old for the store, once for each window."""
    failed: list[tuple[int, Exception]] = field(default_factory=list)


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

    def step(self, batch: Batch) -> Changes | None:
        batch = self._context.encoded(self._node, batch, "key", "value")
        batch = drop_nulls(self._node, self._context, batch, "key", "value")
        if not len(batch):
            return None
        closed_at = self._time.observe(batch) - self._windows.grace_period_ms
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        times = batch.timestamp[groups.order]
        earliest = np.minimum.reduceat(times, groups.starts) - 2 * self._difference
        loaded = self._store.load_range(keys, earliest, np.maximum.reduceat(times, groups.starts) + 1)
        held = self._held(loaded, len(keys))
        updates = Updates()
        process = Processing(self._fold, self._difference, self._store, self._closing is not None, updates)
        process.run(batch, codes.tolist(), held, closed_at.tolist())
        self._count(batch, updates)
        unseen_from = None if self._closing is None else self._closing.closed_before - self._difference
        time_before = self._store.observed_stream_time
        self._write(loaded, held, unseen_from)
        self._store.advance(process.stream_time)
        changes = self._changes(batch, updates)
        if changes is not None and self._store.name in self._context.looked_up:
            self._note(loaded, changes, _ints([time_before, *updates.stream_time]))
        if self._closing is None:
            return self._emit(changes)
        return self._close(self._closing, batch, closed_at)

    def flush(self) -> Changes | None:
        return None if self._cache is None else self._cache.flush()

    def _held(self, loaded: Loaded, count: int) -> list[KeyWindows]:
        held = [KeyWindows() for _ in range(count)]
        entries = loaded.entries
        columns = (entries.row, entries.first, entries.second)
        aggregates = self._fold.load(entries.data)
        for owner, start, timestamp, aggregate in zip(*(c.tolist() for c in columns), aggregates, strict=True):
            held[owner].starts.append(start)
            held[owner].windows[start] = (aggregate, timestamp)
        return held

    def _count(self, batch: Batch, updates: Updates) -> None:
        """Count the drops, and deal with the records that failed."""
        if updates.late:
            self._context.drop(self._node, batch.position[updates.late], CLOSED_WINDOW)
        if updates.not_stored:
            self._context.drop(self._node, batch.position[updates.not_stored], "expired-window-of-store")
            self._context.expired(self._store.name, "window", len(updates.not_stored))
        for row, error in updates.failed:
            self._context.failed(self._node, int(batch.position[row]), error, self._fold.function)

    def _write(self, loaded: Loaded, held: list[KeyWindows], unseen_from: int | None) -> None:
        entries = loaded.entries
        pairs = zip(entries.row.tolist(), entries.first.tolist(), strict=True)
        removed = np.array([start in held[owner].changed for owner, start in pairs], np.bool_)
        new = [
            (owner, start, *reversed(windows.windows[start]))
            for owner, windows in enumerate(held)
            for start in sorted(windows.changed)
            if start in windows.windows
        ]
        owner, start, timestamp, aggregates = zip(*new, strict=True) if new else ((), (), (), ())
        data = self._fold.column(list(aggregates)).encoded()
        self._store.write(loaded, removed, Entries(_ints(owner), _ints(start), _ints(timestamp), data), unseen_from)

    def _changes(self, batch: Batch, updates: Updates) -> Changes | None:
        """All updates, old values with them."""
        rows = _ints(updates.row)
        if not len(rows):
            return None
        start, timestamp = _ints(updates.start), _ints(updates.timestamp)
        wide = batch.take(rows)
        key = WindowedColumn(wide.key, start, start + self._difference, self._serde)
        wide = replace(wide.with_key(key), order=(*wide.order, np.arange(len(rows))))
        return wide.as_changes(self._fold.column(updates.new), timestamp, self._fold.column(updates.old))

    def _emit(self, changes: Changes | None) -> Changes | None:
        if changes is None or self._cache is None:
            return changes if changes is None or self._sends_old else replace(changes, old=None)
        self._cache.add(changes)
        return None

    def _note(self, loaded: Loaded, changes: Changes, times: IntArray) -> None:
        """Note the writes, and what there was before, for those who look things up in the store."""
        old = loaded.entries
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


class Processing:
    """The records of a chunk, processed one by one; ``stream_time`` is that of the store."""

    def __init__(self, fold: SessionFold, difference: int, store: SlidingStore, keeps_all: bool, updates: Updates):
        self.stream_time = store.observed_stream_time
        self._fold = fold
        self._difference = difference
        self._retention = store.retention
        self._refused_before = store.refused_before
        self._keeps_all = keeps_all
        self._updates = updates

    def run(self, batch: Batch, codes: list[int], held: list[KeyWindows], closed_at: list[int]) -> None:
        """Process all records."""
        keys, values = self._fold.keys(batch), self._fold.values(batch)
        for row, time in enumerate(batch.timestamp.tolist()):
            if time + self._difference < closed_at[row]:
                self._updates.late.append(row)
                continue
            windows = held[codes[row]]
            one = _Record(self._fold, self._difference, keys[row], values[row], time, closed_at[row])
            first = max(0, time - 2 * self._difference, self.stream_time - self._retention + 1)
            around = windows.starts[bisect_left(windows.starts, first) : bisect_left(windows.starts, time + 2)]
            try:
                if time < self._difference:
                    one.process_early(around, windows.windows)
                else:
                    one.process(around, windows.windows)
            except Exception as error:
                self._updates.failed.append((row, error))
                continue
            self._apply(row, one, windows)

    def _apply(self, row: int, one: _Record, windows: KeyWindows) -> None:
        """Take over what came of a record."""
        updates = self._updates
        updates.late += [row] * one.closed
        for start, window, old in one.puts:
            self.stream_time = max(self.stream_time, start)
            expired = start < self.stream_time - self._retention + 1
            if expired and start < self._refused_before(np.array([self.stream_time]))[0]:
                updates.not_stored.append(row)
            if not expired or self._keeps_all:
                windows.put(start, None if window[0] is None else window)
            updates.row.append(row)
            updates.start.append(start)
            updates.new.append(window[0])
            updates.old.append(old)
            updates.timestamp.append(window[1])
            updates.stream_time.append(self.stream_time)


class _Record:
    """One record on its way through the windows of its key; ``puts`` are (start, window, old aggregate)."""

    __slots__ = ("_closed_at", "_difference", "_fold", "_key", "_time", "_value", "closed", "puts")

    def __init__(self, fold: SessionFold, difference: int, key: Any, value: Any, time: int, closed_at: int):
        self._fold = fold
        self._difference = difference
        self._key = key
        self._value = value
        self._time = time
        self._closed_at = closed_at
        self.puts: list[tuple[int, Window, Any]] = []
        self.closed = 0

    def process(self, around: list[int], windows: dict[int, Window]) -> None:
        """A record that is not earlier than the difference; windows are visited from the latest on."""
        time = self._time
        left: Window | None = None
        right: Window | None = None
        has_left = has_right = False
        previous: int | None = None
        for start in reversed(around):
            window, end = windows[start], start + self._difference
            if start == time + 1:
                has_right = True
            elif end > time:
                right = right or window
                self._update(start, window)
            elif end == time:
                has_left = True
                self._update(start, window)
                if window[1] >= time:
                    return
                previous = window[1]
            else:
                left, previous = window, window[1]
                break
        self._create(around, left, right, has_left, has_right, previous)

    def _create(
        self,
        around: list[int],
        left: Window | None,
        right: Window | None,
        has_left: bool,
        has_right: bool,
        previous: int | None,
    ) -> None:
        """The right window of the record before, and the left and the right one of this record."""
        time, difference = self._time, self._difference
        if previous is not None and previous + 1 not in around and previous + 1 + difference >= time:
            self._update(previous + 1, None)
        if not has_left:
            is_within = previous is not None and time - difference <= previous
            self._update(time - difference, (left[0], time) if left is not None and is_within else None)
        if not has_right and right is not None and right[1] > time:
            self.puts.append((time + 1, right, None))

    def process_early(self, around: list[int], windows: dict[int, Window]) -> None:
        """A record earlier than the difference: no window begins before 0, so all of these share the one from 0 on."""
        time = self._time
        combined: Window | None = None
        right: Window | None = None
        previous: int | None = None
        for start in around:
            window = windows[start]
            if start == 0:
                combined = window
                previous = window[1] if window[1] < time else None
            elif start <= time:
                right = window
                self._update(start, window)
        if right is None and combined is not None and combined[1] > time:
            right = combined
        if time + 1 not in around and right is not None and right[1] > time:
            self.puts.append((time + 1, right, None))
        if previous is not None and previous + 1 not in around:
            self._update(previous + 1, None)
        self._update(0, combined)

    def _update(self, start: int, window: Window | None) -> None:
        """Add the record to a window, or to a new one."""
        if start + self._difference < self._closed_at:
            self.closed += 1
            return
        old = self._fold.initial() if window is None else window[0]
        timestamp = self._time if window is None else max(self._time, window[1])
        new = self._fold.add(self._key, self._value, old)
        self.puts.append((start, (new, timestamp), old))


def _ints(numbers: Any) -> IntArray:
    return np.array(numbers, np.int64)

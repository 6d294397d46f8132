"""A window store record by record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc

from penstock.columns.column import Column
from penstock.record import Windowed
from penstock.serdes import Serde
from penstock.state.columns.rows import Keys
from penstock.state.kinds.duplicates import DuplicateWindowStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.window import WindowStore as EngineStore
from penstock.state.records.changes import SortedChanges
from penstock.state.records.held import HIGHEST, LOWEST, HeldValues, is_plain
from penstock.state.records.view import KeyValueIterator, RecordView
from penstock.state.shapes import WindowStore
from penstock.values.durations import MAX_MS
from penstock.values.times import Time, bound
from penstock.values.window_ends import WindowEnds, ends_of

_START = itemgetter(0)
_NEWEST_MISSES = 3
"""The number of misses in the newest window, which has most of the rows that the chunk needs."""
_MISSES = 16
"""The least number of a window's keys that are looked up one by one before all keys that the chunk may need are
loaded."""
_NONE: dict[Any, Any] = {}
"""The rows of a window that has none; never written to."""
_COST_ALONE = 64
"""The number of keys that can be loaded together in the time of one single look-up; windows of late records need few of
the chunk's keys."""


class WindowRecords(RecordView[EngineStore | SlidingStore | DuplicateWindowStore], WindowStore[Any, Any]):
    """Values by key and window, identified by the window's start.

    Windows can be read and written while the store keeps them: those that begin later than its stream time minus its
    retention. Its stream time is the latest start that was put.

    >>> from penstock.serdes import INT, STR
    >>> from penstock.state.records import record_view
    >>> visits = record_view(EngineStore("visits", retention=60_000), STR, INT, timestamped=False, window_size=1000)
    >>> visits.begin()
    >>> visits.put("ann", 1, 0), visits.put("ann", 2, 5000), visits.get("ann", 5000)
    (None, None, 2)
    >>> list(visits.fetch("ann", 0, 9000)), list(visits.all())[0]
    ([(0, 1), (5000, 2)], (Windowed(key='ann', start=0, end=1000), 1))
    >>> visits.end()

    Args:
        window_size: milliseconds that a window covers, or the rule by which windows end.
    """

    def __init__(
        self,
        store: EngineStore | SlidingStore | DuplicateWindowStore,
        key: Serde,
        values: HeldValues,
        window_size: int | WindowEnds,
    ):
        super().__init__(store, key, values)
        self._ends = ends_of(window_size)
        self._key_type = self._keys.plain
        self._now = self._newest = self._expired = -1
        self._windows: dict[int, dict[Any, Any]] = {}
        """By start: the known values of keys; None for keys without a value."""
        self._changed: dict[int, dict[Any, Any]] = {}
        """By start: the puts since a range was last fetched; they take precedence over ``_windows``."""
        self._sorted = SortedChanges()
        """The changes from before a range was last fetched."""
        self._misses: dict[int, int] = {}
        self._most_alone = _MISSES
        self._asked: Keys | None = None

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, key: Any, window_start: int) -> Any:
        """The value of one window of a key; None if it has none."""
        return self._held.show(self._find(key, window_start))

    def fetch(self, key: Any, time_from: Time = 0, time_to: Time = MAX_MS) -> KeyValueIterator[tuple[int, Any]]:
        """Start and value of a key's windows that begin in a time range, sorted by time."""
        return self._fetch(key, time_from, time_to, reverse=False)

    def backward_fetch(
        self, key: Any, time_from: Time = 0, time_to: Time = MAX_MS
    ) -> KeyValueIterator[tuple[int, Any]]:
        """The windows of ``fetch``, backwards."""
        return self._fetch(key, time_from, time_to, reverse=True)

    def fetch_range(
        self, low: Any = None, high: Any = None, time_from: Time = 0, time_to: Time = MAX_MS
    ) -> KeyValueIterator[tuple[Windowed[Any], Any]]:
        """Window and value of all keys with ``low <= key <= high`` (None: no bound) whose windows begin in a time
        range.

        A store on disk returns them by segment and then by key; a store in memory by time and then by key.
        """
        return self._fetch_range(low, high, time_from, time_to, reverse=False)

    def backward_fetch_range(
        self, low: Any = None, high: Any = None, time_from: Time = 0, time_to: Time = MAX_MS
    ) -> KeyValueIterator[tuple[Windowed[Any], Any]]:
        """The windows of ``fetch_range``, backwards."""
        return self._fetch_range(low, high, time_from, time_to, reverse=True)

    # --- writing -------------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Write the value of a key's window; None deletes. Windows past the retention are not written."""
        self._check(key)
        at, held = self._keys.hold(key), self._held.hold(value)
        self._check_time(window_start, "start of a window")
        if window_start > self._now:
            self._now, self._expired = window_start, window_start - self._store.retention
        if window_start > self._expired:
            self._changed.setdefault(window_start, {})[at] = held
        elif self._store.refuses(window_start, self._now):
            self.on_refused(self.name, "window")

    # --- the columns below ---------------------------------------------------------------------------------------

    def like(self, store: EngineStore | SlidingStore | DuplicateWindowStore) -> Self:
        return type(self)(store, self._keys.serde, self._held, self._ends)

    def _begin(self) -> None:
        self._now = self._newest = self._store.observed_stream_time
        self._expired = self._store.earliest_visible - 1

    def _load_keys(self, keys: Column) -> None:
        self._asked = Keys(pc.unique(keys.encoded()).drop_null())
        self._most_alone = max(_MISSES, len(self._asked) // _COST_ALONE)

    def _find(self, key: Any, window_start: int) -> Any:
        self._check(key)
        at = self._keys.hold(key)
        if window_start <= self._expired or window_start < 0:
            return None
        changed = self._changed.get(window_start)
        if changed is not None and at in changed:
            return changed[at]
        rows = self._windows.setdefault(window_start, {})
        if at not in rows:
            self._load(at, window_start, rows)
        return rows[at]

    def _load(self, at: Any, start: int, rows: dict[Any, Any]) -> None:
        if start > self._newest:  # the store has no window whose start it has not seen
            rows[at] = None
            return
        self._misses[start] = misses = self._misses.get(start, 0) + 1
        most_alone = _NEWEST_MISSES if start == self._newest else self._most_alone
        if misses == most_alone and self._asked is not None and len(self._asked):
            count = len(self._asked)
            found = self._store.look_up(self._asked.at(np.arange(count), np.full(count, start)))
            loaded = dict(zip(self._keys.load(self._asked.data), self._held.load(found), strict=True))
            rows.update(loaded | rows)
        if at not in rows:
            one = self._store.look_up_one(self._keys.bytes_of(at), start)
            rows[at] = None if one is None else self._held.load_one(*one)

    def _fetch(self, key: Any, time_from: Time, time_to: Time, reverse: bool) -> KeyValueIterator[tuple[int, Any]]:
        self._check(key)
        data = self._keys.serde.encode_to_bytes(key)
        first, last = max(bound(time_from), self._expired + 1, 0), min(bound(time_to), MAX_MS)
        if last < first:
            return self._scan(iter(()))
        load, show = self._held.load_one, self._held.show
        found = {start: load(value, time) for start, value, time in self._store.fetch(data, first, last)}
        found |= self._own(data, first, last)
        rows = sorted(((start, held) for start, held in found.items() if held is not None), reverse=reverse, key=_START)
        return self._scan((start, show(held)) for start, held in rows)

    def _own(self, key: bytes, first: int, last: int) -> dict[int, Any]:
        """The chunk's changes in a key's windows that are not in the columns yet, in held form."""
        for start, rows in self._changed.items():
            for at in rows:
                self._sorted.add(self._keys.bytes_of(at) + start.to_bytes(8, "big"), (start, at))
        self._take_over()
        places = self._sorted.between(key + first.to_bytes(8, "big"), key + last.to_bytes(8, "big") + b"\x00")
        own = (place for data, place in places if len(data) == len(key) + 8)
        return {start: self._windows[start][at] for start, at in own}

    def _fetch_range(
        self, low: Any, high: Any, time_from: Time, time_to: Time, reverse: bool
    ) -> KeyValueIterator[tuple[Windowed[Any], Any]]:
        first, last = self._bounds(low, high)
        self._write()
        rows = self._store.scan_windows(first, last, bound(time_from), bound(time_to), reverse)
        return self._scan(self._shown(rows))

    def _shown(self, rows: Iterator[tuple[bytes, int, bytes, int]]) -> Iterator[tuple[Windowed[Any], Any]]:
        decode, held, end_of = self._keys.serde.decode, self._held, self._ends.of
        for key, start, value, timestamp in rows:
            windowed = Windowed(decode(key), start, end_of(start))
            yield windowed, held.show(held.load_one(value, timestamp))

    def pending(self) -> int:
        return sum(map(len, self._changed.values())) + len(self._sorted.rows)

    def _write(self) -> None:
        for start, at in self._sorted.rows.values():
            self._changed.setdefault(start, {}).setdefault(at, self._windows[start][at])
        self._sorted.clear()
        if self._changed:
            changed = self._changed
            keys = [at for rows in changed.values() for at in rows]
            held = [value for rows in changed.values() for value in rows.values()]
            times = np.repeat(np.array([*changed], np.int64), [len(rows) for rows in changed.values()])
            assert not isinstance(self._store, DuplicateWindowStore)
            self._store.put_windows(Keys(self._keys.column(keys), times), self._held.columns(held))
            self._take_over()

    def _take_over(self) -> None:
        """Merge pending puts into the loaded windows."""
        for start, rows in self._changed.items():
            self._windows.setdefault(start, {}).update(rows)
        self._changed.clear()

    def _forget(self) -> None:
        self._windows, self._changed, self._misses, self._asked = {}, {}, {}, None
        self._sorted.clear()
        self._expired = MAX_MS


class PlainWindowRecords(WindowRecords):
    """Windows whose keys and values the dictionaries hold unchanged: most calls cost little more than a
    dictionary's."""

    def __init__(
        self, store: EngineStore | SlidingStore, key: Serde, values: HeldValues, window_size: int | WindowEnds
    ):
        super().__init__(store, key, values, window_size)
        self._value_type: Any = values.plain
        self._is_int, self._is_text = values.plain is int, values.plain is str
        self._last: int | None
        """The start of the last requested window, as long as it is kept; most calls ask for it again."""
        self._last_rows: dict[Any, Any]
        self._last_changed: dict[Any, Any]
        self._leave()

    def get(self, key: Any, window_start: int) -> Any:
        """The value of one window of a key; None if it has none."""
        if window_start != self._last:
            self._stay_at(window_start)
        if type(key) is self._key_type:
            if key in self._last_changed:
                return self._last_changed[key]
            if key in self._last_rows:
                return self._last_rows[key]
            if window_start > self._newest and self._last is not None and is_plain(key):
                return None  # the store has no window whose start it has not seen
        found = self._find(key, window_start)
        self._stay_at(window_start)
        return found

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Write the value of a key's window; None deletes. Windows past the retention are not written."""
        if (
            window_start == self._last
            and (changed := self._last_changed) is not _NONE  # so it is not later than the latest
            and type(value) is self._value_type
            and type(key) is self._key_type
            and (key in changed or is_plain(key))
            and (LOWEST <= value <= HIGHEST if self._is_int else not self._is_text or value.isascii())
        ):
            changed[key] = value
        else:
            super().put(key, value, window_start)
            self._stay_at(window_start)

    def _stay_at(self, window_start: int) -> None:
        """Expect that the next calls are for this window."""
        if window_start > self._expired:
            self._last, self._last_rows = window_start, self._windows.get(window_start, _NONE)
            self._last_changed = self._changed.get(window_start, _NONE)
        else:
            self._leave()

    def _leave(self) -> None:
        self._last, self._last_rows, self._last_changed = None, _NONE, _NONE

    def _take_over(self) -> None:
        self._leave()
        super()._take_over()

    def _forget(self) -> None:
        self._leave()
        super()._forget()


class DuplicateWindowRecords(WindowRecords):
    """The windows of a store that keeps all values of a key and window: reads return them in the order of their puts.

    ``get`` returns the last of them. A put of None does nothing.
    """

    def __init__(self, store: DuplicateWindowStore, key: Serde, values: HeldValues, window_size: int | WindowEnds):
        super().__init__(store, key, values, window_size)
        self._duplicates = store
        self._puts: list[tuple[Any, Any, int]] = []

    def get(self, key: Any, window_start: int) -> Any:
        """The last value that was put for one window of a key, or None."""
        return next((value for _, value in self.backward_fetch(key, window_start, window_start)), None)

    def _fetch(self, key: Any, time_from: Time, time_to: Time, reverse: bool) -> KeyValueIterator[tuple[int, Any]]:
        self._check(key)
        data = self._keys.serde.encode_to_bytes(key)
        self._write()
        found = list(self._store.fetch(data, bound(time_from), bound(time_to), reverse))
        held = self._held
        return self._scan((start, held.show(held.load_one(value, time))) for start, value, time in found)

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Add a value to those of a key's window. Windows past the retention are not written."""
        self._check(key)
        self._check_time(window_start, "start of a window")
        at, held = self._keys.hold(key), self._held.hold(value)
        if window_start > self._now and (held is not None or self._duplicates.in_memory):  # as in Kafka Streams
            self._now, self._expired = window_start, window_start - self._duplicates.retention
        if held is not None and window_start > self._expired:
            self._puts.append((at, held, window_start))

    def places_of(self, given: Mapping[str, Any], number: int) -> set[tuple[Any, ...]]:
        return {(number,)}

    def pending(self) -> int:
        return len(self._puts)

    def _write(self) -> None:
        if self._puts:
            puts, self._puts = self._puts, []
            values = self._held.columns([held for _, held, _ in puts])
            starts = np.array([start for _, _, start in puts], np.int64)
            self._duplicates.put_all(self._keys.column([at for at, _, _ in puts]), starts, values)
        self._duplicates.advance(self._now)

    def _forget(self) -> None:
        super()._forget()
        self._puts = []

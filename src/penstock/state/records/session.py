"""A session store record by record."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.compute as pc

from penstock.arrays import binary
from penstock.columns.column import Column
from penstock.errors import StoreError
from penstock.messages import show
from penstock.record import SessionKey, Windowed
from penstock.serdes import Serde
from penstock.state.columns.rows import Keys
from penstock.state.kinds.session import SessionRow
from penstock.state.kinds.session import SessionStore as EngineStore
from penstock.state.records.held import HeldValues
from penstock.state.records.view import KeyValueIterator, RecordView
from penstock.state.shapes import SessionStore
from penstock.values.durations import MAX_MS
from penstock.values.times import Time, bound

_MISSES = 16
"""The number of keys that are looked up one by one before all keys that the chunk may need are loaded."""
_ROWS_AT_ONCE = 100_000


class _Sessions:
    """The known sessions of a key: all that end at ``since`` or later, and the put ones."""

    __slots__ = ("held", "order", "since")

    def __init__(self) -> None:
        self.since = MAX_MS + 1
        self.held: dict[tuple[int, int], Any] = {}
        """By end and start; None for a removed session."""
        self.order: list[tuple[int, int]] = []

    def put(self, end: int, start: int, held: Any) -> None:
        if (end, start) not in self.held:
            insort(self.order, (end, start))
        self.held[end, start] = held

    def load(self, end: int, start: int, held: Any) -> None:
        if (end, start) not in self.held:
            self.put(end, start, held)


class SessionRecords(RecordView[EngineStore], SessionStore[Any, Any]):
    """Aggregates of sessions, identified by their keys and the times of their first and last records (KIP-94).

    Sessions can be read and written while the store keeps them: those that end later than its stream time minus its
    retention. Its stream time is the latest end that was put.

    >>> from penstock.serdes import INT, STR
    >>> from penstock.state.records import record_view
    >>> visits = record_view(EngineStore("visits", retention=60_000), STR, INT, timestamped=False)
    >>> visits.begin()
    >>> visits.put(SessionKey("ann", 5, 9), 2)
    >>> list(visits.find_sessions("ann", 9, 20)), visits.fetch_session("ann", 5, 9)
    ([(SessionKey(key='ann', start=5, end=9), 2)], 2)
    >>> visits.end()
    """

    def __init__(self, store: EngineStore, key: Serde, values: HeldValues):
        super().__init__(store, key, values)
        self._now = self._expired = -1
        self._known: dict[Any, _Sessions] = {}
        self._changed: dict[tuple[Any, int, int], bool] = {}
        self._misses = 0
        self._asked: Keys | None = None

    # --- reading -------------------------------------------------------------------------------------------------

    def find_sessions(
        self, key: Any, earliest_end: Time = 0, latest_start: Time = MAX_MS
    ) -> KeyValueIterator[tuple[SessionKey, Any]]:
        """The sessions of a key with ``end >= earliest_end`` and ``start <= latest_start``, by end and start."""
        return self._scan(iter(self._find(key, bound(earliest_end), bound(latest_start))))

    def backward_find_sessions(
        self, key: Any, earliest_end: Time = 0, latest_start: Time = MAX_MS
    ) -> KeyValueIterator[tuple[SessionKey, Any]]:
        """The sessions of ``find_sessions``, backwards."""
        return self._scan(reversed(self._find(key, bound(earliest_end), bound(latest_start))))

    def find_sessions_in_range(
        self, low: Any = None, high: Any = None, earliest_end: Time = 0, latest_start: Time = MAX_MS
    ) -> KeyValueIterator[tuple[SessionKey, Any]]:
        """The sessions of all keys with ``low <= key <= high`` (None: no bound) in the same time range as in
        ``find_sessions``.

        A store on disk returns them by segment and then by key; a store in memory by end and then by key.
        """
        return self._find_in_range(low, high, earliest_end, latest_start, reverse=False)

    def backward_find_sessions_in_range(
        self, low: Any = None, high: Any = None, earliest_end: Time = 0, latest_start: Time = MAX_MS
    ) -> KeyValueIterator[tuple[SessionKey, Any]]:
        """The sessions of ``find_sessions_in_range``, backwards."""
        return self._find_in_range(low, high, earliest_end, latest_start, reverse=True)

    def fetch_session(self, key: Any, start: Time, end: Time) -> Any:
        """The aggregate of one session, or None."""
        first, last = bound(start), bound(end)
        if last <= self._expired and self._is_open:
            self._check(key)
            return None
        return self._held.show(self._loaded(key, last).held.get((last, first)))

    # --- writing -------------------------------------------------------------------------------------------------

    def put(self, session: SessionKey | Windowed[Any], aggregate: Any) -> None:
        """Write the aggregate of a session; None removes it. Sessions past the retention are not written."""
        at, start, end = self._checked(session)
        held = self._held.hold(aggregate)
        self._advance(end)
        self._put(at, start, end, held)
        if end <= self._expired and self._store.refuses(end, self._now):
            self.on_refused(self.name, "session")

    def remove(self, session: SessionKey | Windowed[Any]) -> None:
        """Remove a session."""
        at, start, end = self._checked(session)
        if not self._store.in_memory:  # as in Kafka Streams
            self._advance(end)
        self._put(at, start, end, None)

    def _put(self, at: Any, start: int, end: int, held: Any) -> None:
        if self._expired < end <= self._now:
            self._of(at).put(end, start, held)
            self._changed[at, end, start] = True

    def _advance(self, end: int) -> None:
        if end > self._now:
            self._now, self._expired = end, end - self._store.retention

    def _checked(self, session: Any) -> tuple[Any, int, int]:
        """Check a session, and return its key in held form, its start and its end."""
        self._check(session, "session")
        if not isinstance(session, SessionKey | Windowed):
            raise StoreError(
                f"a session of store {self.name!r} is a SessionKey(key, start, end); got {show(session)} of type "
                f"{type(session).__name__}. Nothing was put"
            )
        self._check(session.key)
        for time, what in ((session.start, "start of a session"), (session.end, "end of a session")):
            self._check_time(time, what)
        if session.end < session.start:
            raise StoreError(
                f"a session of store {self.name!r} must not end before it starts; got {show(session)}. Nothing was put"
            )
        return self._keys.hold(session.key), session.start, session.end

    # --- the columns below ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._now = self._store.observed_stream_time
        self._expired = self._store.earliest_visible - 1

    def _load_keys(self, keys: Column) -> None:
        self._asked = Keys(pc.unique(keys.encoded()).drop_null())

    def _of(self, at: Any) -> _Sessions:
        return self._known.get(at) or self._known.setdefault(at, _Sessions())

    def _find(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[SessionKey, Any]]:
        earliest = max(earliest_end, self._expired + 1)
        sessions = self._loaded(key, earliest)
        held, show_ = sessions.held, self._held.show
        ends = sessions.order[bisect_left(sessions.order, (earliest, -1)) :]
        found = [(SessionKey(key, start, end), held[end, start]) for end, start in ends if start <= latest_start]
        return [(session, show_(value)) for session, value in found if value is not None]

    def _loaded(self, key: Any, earliest: int) -> _Sessions:
        """The sessions of a key, including all that end at or after a time."""
        self._check(key)
        at = self._keys.hold(key)
        sessions = self._of(at)
        if earliest < sessions.since:
            self._misses += 1
            if self._misses >= _MISSES and self._asked is not None and self._is_little(self._asked, earliest):
                self._misses = 0
                self._load(self._asked, earliest)
            if earliest < sessions.since:
                self._load(Keys(binary([self._keys.bytes_of(at)])), earliest)
        return sessions

    def _is_little(self, keys: Keys, earliest: int) -> bool:
        return len(keys) * self._store.slots_since(earliest) <= _ROWS_AT_ONCE

    def _load(self, keys: Keys, earliest: int) -> None:
        """Load the sessions of keys that end at or after a time."""
        every = [self._of(at) for at in self._keys.load(keys.data)]
        found = self._store.load(keys, np.full(len(keys), max(earliest, 0)), to_write=False).entries
        numbers = (column.tolist() for column in (found.row, found.first, found.second))
        for row, end, start, data in zip(*numbers, found.data.to_pylist(), strict=True):
            every[row].load(end, start, self._held.load_one(data, -1))
        for sessions in every:
            sessions.since = min(sessions.since, earliest)

    def _find_in_range(
        self, low: Any, high: Any, earliest_end: Time, latest_start: Time, reverse: bool
    ) -> KeyValueIterator[tuple[SessionKey, Any]]:
        first, last = self._bounds(low, high)
        self._write()
        rows = self._store.scan_sessions(first, last, bound(earliest_end), bound(latest_start), reverse)
        return self._scan(self._shown(rows))

    def _shown(self, rows: Iterator[SessionRow]) -> Iterator[tuple[SessionKey, Any]]:
        decode, held = self._keys.serde.decode, self._held
        for session, value in rows:
            yield SessionKey(decode(session.key), session.start, session.end), held.show(held.load_one(value, -1))

    def pending(self) -> int:
        return len(self._changed)

    def _write(self) -> None:
        if self._changed:
            changed = list(self._changed)
            self._changed.clear()
            keys = self._keys.column([at for at, _, _ in changed])
            ends, starts = (np.array([row[i] for row in changed], np.int64) for i in (1, 2))
            held = [self._known[at].held[end, start] for at, end, start in changed]
            self._store.put_sessions(keys, ends, starts, self._held.columns(held).data)
        self._store.advance(self._now)

    def _forget(self) -> None:
        self._known, self._changed, self._misses, self._asked = {}, {}, 0, None

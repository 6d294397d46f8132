"""The session store: values by key and session, in segments by the sessions' ends (KIP-94)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, binary, fixed_binary, last_numbers, nulls, without_last
from penstock.record import SessionKey
from penstock.state.columns.packed import Entries, unpack
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.packed import Loaded, PackedStore
from penstock.state.transactional import physical_keys
from penstock.values.durations import MAX_MS

_SESSIONS_A_SLOT = 4


SessionRow = tuple[SessionKey, bytes]


class SessionStore(PackedStore):
    """Values by key, start and end of a session; sessions are visible for the retention, counted from their end.

    In the entries of a row, the first number is a session's end and the second its start.

    Args:
        name: the store's name.
        retention: milliseconds for which sessions are kept, by their end.
        in_memory: keep all rows in memory, and iterate by end.
        segment_interval: milliseconds that one segment covers.
        gap: the gap between sessions of one key, which limits how many of them a slot may hold.

    >>> store = SessionStore("visits", retention=1000)
    >>> store.put_session(SessionKey(b"ann", 5, 9), b"2")
    True
    >>> list(store.find_sessions(b"ann", 9, 20)), list(store.find_sessions(b"ann", 10, 20))
    ([(SessionKey(key=b'ann', start=5, end=9), b'2')], [])
    """

    content = "sessions"

    def __init__(
        self,
        name: str,
        retention: int,
        in_memory: bool = False,
        segment_interval: int | None = None,
        gap: int | None = None,
    ):
        self.gap = gap
        slot = None if gap is None else _SESSIONS_A_SLOT * (gap + 1)
        super().__init__(name, retention, in_memory, segment_interval, slot)

    # --- a chunk at a time ---------------------------------------------------------------------------------------

    def load(
        self, keys: Keys, earliest_ends: IntArray, unseen_from: int | None = None, to_write: bool = True
    ) -> Loaded:
        """All sessions of distinct keys that end at or after a time, and the other sessions of the same rows.

        Args:
            keys: the keys.
            earliest_ends: for each key, the earliest end of interest.
            unseen_from: the earliest end of sessions that matter although they are no longer visible.
            to_write: True if writes follow, so that missing rows are created.
        """
        return self.load_range(keys, earliest_ends, np.array([self.observed_stream_time]), unseen_from, to_write)

    def slots_since(self, earliest_end: int) -> int:
        """The number of rows that a key may have for sessions that end at or after a time."""
        first = max(earliest_end, self.earliest_visible, 0)
        low, high = self._slots(np.array([first, max(self.observed_stream_time, first)])).tolist()
        return high - low + 1  # type: ignore[no-any-return]

    def put_sessions(self, keys: Binary, ends: IntArray, starts: IntArray, data: Binary) -> None:
        """Write distinct sessions; null removes one."""
        self.put_entries(keys, Entries(ends, ends, starts, data), by_both=True)

    def windows_between(self, earliest: int, latest: int) -> Binary:
        found = self.of_times(earliest, latest)
        if found is None:
            return nulls(0)
        ends = physical_keys(found.keys.at(found.entries.row, found.entries.first))
        return physical_keys(Keys(ends, found.entries.second))

    def times_of(self, windows: Binary) -> IntArray:
        return last_numbers(without_last(windows, 8))

    def look_up_sessions(self, sessions: Binary) -> Values:
        """The values of distinct sessions, visible or not, with their ends as timestamps.

        Args:
            sessions: key, end and start of each, in the encoding of ``SessionWindowedSerde``.
        """
        ends = self.times_of(sessions)
        rows = physical_keys(Keys(without_last(sessions, 16), self._slots(ends))).dictionary_encode()
        keys = Keys(without_last(rows.dictionary, 8), last_numbers(rows.dictionary))
        entries = unpack(self.look_up(keys).data)
        numbers = fixed_binary(np.stack([entries.row, entries.first, entries.second], axis=1))
        wanted = np.stack([rows.indices.to_numpy().astype(np.int64), ends, last_numbers(sessions)], axis=1)
        found = pc.index_in(fixed_binary(wanted), numbers)
        return Values(entries.data.take(found), ends)

    # --- a session at a time -------------------------------------------------------------------------------------

    def put_session(self, session: SessionKey, value: bytes | None) -> bool:
        """Write the value of a session; None removes it. Return False if it ended too long ago to be stored."""
        self.advance(session.end)
        if session.end < self.earliest_visible:
            return False
        loaded = self._load_one(session.key, session.end)
        entries = loaded.entries
        same = (entries.first == session.end) & (entries.second == session.start)
        count = 0 if value is None else 1
        row, first, second = (np.full(count, number, np.int64) for number in (0, session.end, session.start))
        self.write(loaded, same, Entries(row, first, second, binary([value] * count)))
        return True

    def remove(self, session: SessionKey) -> None:
        """Remove a session."""
        self.put_session(session, None)

    def find_sessions(
        self, key: bytes, earliest_end: int, latest_start: int, reverse: bool = False
    ) -> Iterator[SessionRow]:
        """The sessions of a key with ``end >= earliest_end`` and ``start <= latest_start``, by end and start."""
        first = max(earliest_end, self.earliest_visible, 0)
        found = self.entries_of(key, first, MAX_MS, reverse)
        return ((SessionKey(key, s, e), value) for _, (e, s, value) in found if s <= latest_start)

    def scan_sessions(
        self,
        low: bytes | None,
        high: bytes | None,
        earliest_end: int,
        latest_start: int,
        reverse: bool = False,
    ) -> Iterator[SessionRow]:
        """The sessions with ``low <= key <= high``, ``end >= earliest_end`` and ``start <= latest_start``, as they are
        now; by segment, key, end and start, or in memory by end, key and start."""
        first = max(earliest_end, self.earliest_visible, 0)
        found = self.entries_between(low, high, first, MAX_MS, reverse)
        rows = ((SessionKey(key, s, e), value) for key, (e, s, value) in found if s <= latest_start)
        if not self.in_memory:
            return rows
        return iter(sorted(rows, key=lambda row: (row[0].end, row[0].key, row[0].start), reverse=reverse))

    def fetch(self, key: bytes, reverse: bool = False) -> Iterator[SessionRow]:
        """All sessions of a key, by end and start."""
        return self.find_sessions(key, 0, MAX_MS, reverse)

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """The value of one session, or None."""
        first = max(end, self.earliest_visible, 0)
        return next((value for _, (_, s, value) in self.entries_of(key, first, end) if s == start), None)

    def rows(self, reverse: bool = False) -> Iterator[SessionRow]:
        return self.scan_sessions(None, None, 0, MAX_MS, reverse)

    def _load_one(self, key: bytes, earliest_end: int) -> Loaded:
        return self.load(Keys(binary([key])), np.array([earliest_end]))

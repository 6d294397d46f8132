"""The session store: values by key and session, in segments of time by the sessions' ends (KIP-94)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import BoolArray, IntArray
from penstock.record import SessionKey
from penstock.state.kinds.segments import SegmentedStore
from penstock.state.packed import Entries, pack, unpack, unpack_one
from penstock.state.rows import Keys, Values

_MOST_SLOTS = 1000
_SESSIONS_A_SLOT = 4


SessionRow = tuple[SessionKey, bytes]


class Sessions(NamedTuple):
    """What ``load`` found: the sessions of some keys, sorted by key, end and start."""

    keys: Keys
    entries: Entries
    """``row`` is the number of the key, ``first`` the session's end and ``second`` its start."""


class SessionStore(SegmentedStore):
    """Values by key, start and end of a session; sessions are visible for the retention, counted from their end.

    What a key has in a stretch of time (a slot) is one row, so that the sessions around a record are found with a
    look-up or two and no scan. A segment is a number of slots.

    Args:
        name: the store's name.
        retention: milliseconds for which sessions are kept, by their end.
        in_memory: keep all rows in memory, and iterate by end.
        segment_interval: milliseconds that one segment covers.
        gap: the gap between sessions of one key, from which follows how many of them a slot may hold.

    >>> store = SessionStore("visits", retention=1000)
    >>> store.put_session(SessionKey(b"ann", 5, 9), b"2")
    True
    >>> list(store.find_sessions(b"ann", 9, 20)), list(store.find_sessions(b"ann", 10, 20))
    ([(SessionKey(key=b'ann', start=5, end=9), b'2')], [])
    """

    def __init__(
        self,
        name: str,
        retention: int,
        in_memory: bool = False,
        segment_interval: int | None = None,
        gap: int | None = None,
    ):
        super().__init__(name, retention, in_memory, segment_interval)
        width = self.segment_interval
        if gap is not None:
            width = min(width, max(_SESSIONS_A_SLOT * (gap + 1), retention // _MOST_SLOTS))
        self._slot_width = width
        self._slots_a_segment = -(-self.segment_interval // width)

    # --- a chunk at a time ---------------------------------------------------------------------------------------

    def load(self, keys: Keys, earliest_ends: IntArray) -> Sessions:
        """All sessions of distinct keys that end at a time, each key's own, or later; none of those that are gone."""
        low = self._slots(np.maximum(earliest_ends, max(self.earliest_visible, 0)))
        high = self._slots(np.array([max(self.observed_stream_time, 0)]))
        counts = np.maximum(high - low + 1, 0)
        owner = np.repeat(np.arange(len(keys)), counts)
        slot = low[owner] + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        entries = unpack(self.locate(keys.at(owner, slot)).get().data)
        return Sessions(keys, Entries(owner[entries.row], entries.first, entries.second, entries.data))

    def write(self, loaded: Sessions, removed: BoolArray, new: Entries) -> None:
        """Take sessions out that ``load`` found, and put new ones in; those that are gone by now are forgotten."""
        old = loaded.entries
        slot_of_old, slot_of_new = self._slots(old.first), self._slots(new.first)
        slots = np.concatenate([slot_of_old, slot_of_new])
        if not len(slots):
            return
        base, span = int(slots.min()), int(slots.max()) - int(slots.min()) + 1
        code_of_old = old.row * span + slot_of_old - base
        code_of_new = new.row * span + slot_of_new - base
        codes = np.unique(np.concatenate([code_of_old[removed], code_of_new]))
        if not len(codes):
            return
        kept = np.flatnonzero(~removed & self.visible(old.first) & np.isin(code_of_old, codes))
        stays = old.take(kept)
        stays = Entries(np.searchsorted(codes, code_of_old[kept]), stays.first, stays.second, stays.data)
        joins = Entries(np.searchsorted(codes, code_of_new), new.first, new.second, new.data)
        entries = stays.join(joins)
        last_ends = np.full(len(codes), -1, np.int64)
        last_ends[entries.row] = entries.first
        located = self.locate(loaded.keys.at(codes // span, codes % span + base))
        self.put(located, Values(pack(entries, len(codes)), last_ends))

    def _slots(self, ends: IntArray) -> IntArray:
        """The numbers of the slots that sessions with these ends belong to, ascending with the end."""
        within = ends % self.segment_interval // self._slot_width
        return ends // self.segment_interval * self._slots_a_segment + within

    def _segment_ids(self, times: IntArray) -> IntArray:
        return times // self._slots_a_segment

    # --- a session at a time -------------------------------------------------------------------------------------

    def put_session(self, session: SessionKey, value: bytes | None) -> bool:
        """Write the value of a session; False if it ended too long ago to be stored. None removes it."""
        self.advance(session.end)
        if session.end < self.earliest_visible:
            return False
        loaded = self._load_one(session.key, session.end)
        entries = loaded.entries
        same = (entries.first == session.end) & (entries.second == session.start)
        count = 0 if value is None else 1
        row, first, second = (np.full(count, number, np.int64) for number in (0, session.end, session.start))
        self.write(loaded, same, Entries(row, first, second, pa.array([value] * count, pa.binary())))
        return True

    def remove(self, session: SessionKey) -> None:
        """Remove a session."""
        self.put_session(session, None)

    def find_sessions(
        self, key: bytes, earliest_end: int, latest_start: int, reverse: bool = False
    ) -> Iterator[SessionRow]:
        """The sessions of a key with ``end >= earliest_end`` and ``start <= latest_start``, by end and start."""
        entries = self._load_one(key, earliest_end).entries
        rows = zip(entries.first.tolist(), entries.second.tolist(), entries.data.to_pylist(), strict=True)
        first = max(earliest_end, self.earliest_visible)
        found = [(SessionKey(key, s, e), value) for e, s, value in rows if e >= first and s <= latest_start]
        return reversed(found) if reverse else iter(found)

    def fetch(self, key: bytes, reverse: bool = False) -> Iterator[SessionRow]:
        """All sessions of a key, by end and start."""
        return self.find_sessions(key, 0, self.observed_stream_time, reverse)

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """The value of one session, None when there is none."""
        return next((value for found, value in self.find_sessions(key, end, start) if found[1:] == (start, end)), None)

    def look_up_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """The same, no matter whether the session can still be seen."""
        slots = self._slots(np.array([end]))
        packed = self.look_up(Keys(pa.array([key], pa.binary()), slots)).data[0].as_py()
        sessions = () if packed is None else unpack_one(packed)
        return next((value for *bounds, value in sessions if bounds == [end, start]), None)

    def rows(self, reverse: bool = False) -> Iterator[SessionRow]:
        """All sessions: by segment, key, end and start; in memory by end, key and start."""
        every = (self._segment_rows(id_, reverse) for id_ in sorted(self._segments, reverse=reverse))
        rows = (row for segment in every for row in segment)
        if not self.in_memory:
            return rows
        return iter(sorted(rows, key=lambda row: (row[0].end, row[0].key, row[0].start), reverse=reverse))

    def _segment_rows(self, id_: int, reverse: bool) -> list[SessionRow]:
        rows = [
            (SessionKey(row_key[:-8], start, end), value)
            for row_key, packed, _ in self._segments[id_].scan()
            for end, start, value in unpack_one(packed)
            if end >= self.earliest_visible
        ]
        return sorted(rows, key=lambda row: (row[0].key, row[0].end, row[0].start), reverse=reverse)

    def _load_one(self, key: bytes, earliest_end: int) -> Sessions:
        return self.load(Keys(pa.array([key], pa.binary())), np.array([earliest_end]))

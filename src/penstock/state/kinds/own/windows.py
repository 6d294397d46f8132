"""Window and session stores that a user brings, read and written row by row (KIP-892)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.errors import StoreError
from penstock.record import SessionKey
from penstock.state.columns.packed import Entry, pack_one, unpack_one
from penstock.state.interface import RestoreCallback
from penstock.state.kinds.own.errors import named
from penstock.state.kinds.own.places import NO_TIMESTAMP, Place, Places
from penstock.state.kinds.slots import SlottedStore
from penstock.state.wrappers import InTransactions
from penstock.values.durations import MAX_MS


class Windows(Places):
    """A user's window store with a row for each key and start.

    Args:
        store: the user's store, within its transactions.
        keeps_timestamps: True if the store receives the timestamps; otherwise they are lost.
        restore: receives restored rows in place of ``put``, if given.
        no_timestamp: the timestamp of values without one.
    """

    def __init__(
        self,
        store: InTransactions[Any],
        keeps_timestamps: bool,
        restore: RestoreCallback | None = None,
        no_timestamp: int = -1,
    ):
        self._keeps_timestamps = keeps_timestamps
        self._no_timestamp = no_timestamp
        super().__init__(store, restore)

    def row(self, place: Place) -> bytes | None:
        found = self._ask("get", place.key, place.number)
        if found is None:
            return None
        value = self._bytes(found, place)
        return value if self._keeps_timestamps else NO_TIMESTAMP + value

    def bring(self, place: Place, row: bytes | None, restores: bool) -> None:
        value = row if row is None or self._keeps_timestamps else row[8:]
        if value != self._ask("get", place.key, place.number):
            self.put(place.key, place.number, value, restores)

    def handed(self, timestamp: int, data: bytes) -> bytes:
        """A value as the user's class receives it."""
        return timestamp.to_bytes(8, "big", signed=True) + data if self._keeps_timestamps else data

    def entry(self, start: int, handed: Any) -> Entry:
        """A value that the user's class has returned: start, timestamp and data."""
        value = self._bytes(handed, start)
        if not self._keeps_timestamps:
            return start, self._no_timestamp, value
        return start, int.from_bytes(value[:8], "big", signed=True), value[8:]

    def put(self, key: bytes, start: int, value: bytes | None, restores: bool, number: int = 0) -> None:
        """Write one value, as the user's class receives it."""
        in_changelog = key + start.to_bytes(8, "big") + number.to_bytes(4, "big")
        self._hand(restores, in_changelog, value, key, value, start)

    def between(self, low: bytes | None, high: bytes | None, first: int | None, last: int | None) -> set[Place]:
        found = self._asked("fetch_range", low, high, first or 0, MAX_MS if last is None else last)
        return {Place(window.key, window.start) for window, _ in found}


class Slotted(Places):
    """A user's store of which a row of the engine has all entries of a key in a slot."""

    def __init__(self, slots: SlottedStore, store: InTransactions[Any], restore: RestoreCallback | None):
        self._slots = slots
        super().__init__(store, restore)

    def entries(self, key: bytes, earliest: int, latest: int) -> list[Entry]:
        """The entries of a key whose first number is in a range, both ends included, in order."""
        raise NotImplementedError

    def change(self, key: bytes, before: list[Entry], after: list[Entry], restores: bool) -> None:
        """Write the difference between the entries of a slot."""
        raise NotImplementedError

    def firsts(self, low: bytes | None, high: bytes | None, earliest: int, latest: int) -> Iterable[tuple[bytes, int]]:
        """Keys and first numbers of the entries of a range of keys whose first number is in a range."""
        raise NotImplementedError

    def row(self, place: Place) -> bytes | None:
        found = self.entries(place.key, *self._slots.times_in(place.number))
        return found[-1][0].to_bytes(8, "big") + pack_one(found) if found else None

    def bring(self, place: Place, row: bytes | None, restores: bool) -> None:
        before = self.entries(place.key, *self._slots.times_in(place.number))
        self.change(place.key, before, [] if row is None else unpack_one(row[8:]), restores)

    def between(self, low: bytes | None, high: bytes | None, first: int | None, last: int | None) -> set[Place]:
        earliest = 0 if first is None else self._slots.times_in(first)[0]
        latest = MAX_MS if last is None else self._slots.times_in(last)[1]
        found = list(self.firsts(low, high, earliest, latest))
        slots = self._slots.slots_of(np.array([time for _, time in found], np.int64)).tolist()
        return {Place(key, slot) for (key, _), slot in zip(found, slots, strict=True)}


class SlidingWindows(Slotted):
    """A user's window store with sliding windows: entries are start, timestamp and value."""

    def __init__(self, slots: SlottedStore, windows: Windows, store: InTransactions[Any]):
        self._windows = windows
        super().__init__(slots, store, None)

    def entries(self, key: bytes, earliest: int, latest: int) -> list[Entry]:
        return [self._windows.entry(start, value) for start, value in self._asked("fetch", key, earliest, latest)]

    def change(self, key: bytes, before: list[Entry], after: list[Entry], restores: bool) -> None:
        there, wanted = (
            {start: self._windows.handed(timestamp, data) for start, timestamp, data in entries}
            for entries in (before, after)
        )
        for start in sorted(there.keys() | wanted.keys()):
            if there.get(start) != wanted.get(start):
                self._windows.put(key, start, wanted.get(start), restores)

    def firsts(self, low: bytes | None, high: bytes | None, earliest: int, latest: int) -> Iterable[tuple[bytes, int]]:
        found = self._asked("fetch_range", low, high, earliest, latest)
        return ((window.key, window.start) for window, _ in found)


class Duplicates(SlidingWindows):
    """A user's window store that keeps every value that is put: entries of one time are in the order of arrival."""

    def change(self, key: bytes, before: list[Entry], after: list[Entry], restores: bool) -> None:
        there, wanted = self._by_time(before), self._by_time(after)
        for time, values in wanted.items():
            known = there.get(time, [])
            if known != values[: len(known)] and known[: len(values)] != values:
                raise StoreError(
                    f"{named(self._store)} has {len(known)} values of the key {key!r} at {time}, and "
                    f"the changelog has {len(values)} others. fetch must give the values of one time in the order of "
                    "their puts. Let the store begin empty: it gets its rows back. Committed data is safe"
                )
            for number, row in enumerate(values[len(known) :], len(known) + 1):
                self._windows.put(key, time, row, restores, number)

    def _by_time(self, entries: list[Entry]) -> dict[int, list[bytes]]:
        found = defaultdict(list)
        for time, timestamp, data in entries:
            found[time].append(self._windows.handed(timestamp, data))
        return found


class Sessions(Slotted):
    """A user's session store: entries are end, start and aggregate."""

    def entries(self, key: bytes, earliest: int, latest: int) -> list[Entry]:
        found = self._asked("find_sessions", key, earliest, latest)
        every = ((session.end, session.start, self._bytes(value, session)) for session, value in found)
        return sorted(entry for entry in every if entry[0] <= latest)

    def change(self, key: bytes, before: list[Entry], after: list[Entry], restores: bool) -> None:
        there = {(end, start): data for end, start, data in before}
        wanted = {(end, start): data for end, start, data in after}
        for end, start in sorted(there.keys() | wanted.keys(), key=lambda session: (session in wanted, session)):
            data = wanted.get((end, start))
            if there.get((end, start)) != data:
                in_changelog = key + end.to_bytes(8, "big") + start.to_bytes(8, "big")
                session = SessionKey(key, start, end)
                if data is None and not (restores and self._restore is not None):
                    self._ask("remove", session)
                else:
                    self._hand(restores, in_changelog, data, session, data)

    def firsts(self, low: bytes | None, high: bytes | None, earliest: int, latest: int) -> Iterable[tuple[bytes, int]]:
        found = self._asked("find_sessions_in_range", low, high, earliest, latest)
        return ((session.key, session.end) for session, _ in found if session.end <= latest)

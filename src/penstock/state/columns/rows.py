"""Rows in memory, found by key: the hot part of every state store.

A row is a key (bytes, and for window stores a time as well) with its current value and timestamp. All of this is stored
in columns, so that looking up, reading and writing a hundred thousand rows takes a few dozen numpy and Arrow calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import (
    Binary,
    BoolArray,
    HashArray,
    IntArray,
    hash64,
    hash64_one,
    hash64_pair_one,
    hash64_pairs,
    is_missing,
)
from penstock.columns.rows import Rows
from penstock.state.columns.arena import Arena
from penstock.state.columns.index import HashIndex

ABSENT = -1
"""The entry number of a row whose key has no value."""

_FEW = 1024
"""The number of replaced values that may always stay."""

_GARBAGE = 32 << 20
"""The bytes of replaced values that may stay in addition to the bytes of the live ones."""


class Keys:
    """Distinct keys to look up; their hashes are computed once.

    ``times`` is the second part of a window store's keys; within one look-up (key, time) pairs are distinct.
    """

    __slots__ = ("_hashes", "data", "times")

    def __init__(self, data: Binary, times: IntArray | None = None, hashes: HashArray | None = None):
        self.data = data
        self.times = times
        self._hashes = hashes

    def __len__(self) -> int:
        return len(self.data)

    @property
    def hashes(self) -> HashArray:
        """Hashes of the data alone."""
        if self._hashes is None:
            self._hashes = hash64(self.data)
        return self._hashes

    @property
    def row_hashes(self) -> HashArray:
        """Hashes of data and time."""
        return self.hashes if self.times is None else hash64_pairs(self.hashes, self.times)

    def take(self, rows: IntArray) -> Keys:
        times = None if self.times is None else self.times[rows]
        hashes = None if self._hashes is None else self._hashes[rows]  # do not compute them before they are needed
        return Keys(self.data.take(pa.array(rows)), times, hashes)

    def at(self, rows: IntArray, times: IntArray) -> Keys:
        """These keys, each with a time."""
        return Keys(self.data.take(pa.array(rows)), times, self.hashes[rows])


@dataclass(frozen=True, slots=True)
class Values(Rows):
    """Values and their timestamps; null, with timestamp -1, for keys without a value."""

    data: Binary
    timestamps: IntArray


class RowTable:
    """Rows found by key, with their values; rows are numbered from 0 and never move until ``keep``.

    >>> table = RowTable()
    >>> keys = Keys(pa.array([b"a", b"b"], pa.binary()))
    >>> rows = table.add(keys)
    >>> table.assign(rows, Values(pa.array([b"1", None], pa.binary()), np.array([10, 11])))
    >>> table.find(Keys(pa.array([b"b", b"c"], pa.binary()))).tolist()
    [1, -1]
    >>> table.values(rows).data.to_pylist(), table.values(rows).timestamps.tolist()
    ([b'1', None], [10, -1])
    """

    __slots__ = ("_entries", "_index", "_keys", "_next_look", "_times", "_timestamps", "_values")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._index = HashIndex()
        self._keys = Arena()
        self._times: IntArray = np.zeros(0, np.int64)
        self._values = Arena()
        self._entries: IntArray = np.zeros(0, np.int64)
        self._timestamps: IntArray = np.zeros(0, np.int64)
        self._next_look = (_FEW, _GARBAGE)

    def __len__(self) -> int:
        return self._index.size

    @property
    def nbytes(self) -> int:
        fixed = self._times.nbytes + self._entries.nbytes + self._timestamps.nbytes
        return fixed + self._index.nbytes + self._keys.nbytes + self._values.nbytes

    @property
    def used_nbytes(self) -> int:
        """The bytes in use, without the room to grow."""
        return (
            (16 + 8 * bool(len(self._times))) * len(self)
            + self._index.nbytes
            + sum(arena.used_nbytes for arena in (self._keys, self._values))
        )

    def find(self, keys: Keys) -> IntArray:
        """The row of each key, or -1."""
        hashes = keys.row_hashes
        rows, at = self._index.find(hashes, self._index.home(hashes))
        ask = np.flatnonzero(rows >= 0)
        while ask.size:
            wrong = ask[~self._equal(rows[ask], keys.take(ask) if len(ask) < len(keys) else keys)]
            if not wrong.size:
                break
            rows[wrong], at[wrong] = self._index.find(hashes[wrong], self._index.after(at[wrong]))
            ask = wrong[rows[wrong] >= 0]
        return rows

    def find_one(self, key: bytes, time: int | None = None) -> int:
        """The row of one key, or -1. For many keys ``find`` is faster."""
        hash_ = hash64_one(key)
        for row in self._index.find_one(hash_ if time is None else hash64_pair_one(hash_, time)):
            if self._keys.item(row) == key and (time is None or self._times.item(row) == time):
                return row
        return -1

    def physical_key(self, row: int) -> bytes:
        """The key of one row, followed by its time in 8 bytes if it has one."""
        key = self._keys.item(row)
        return key + self._times.item(row).to_bytes(8, "big", signed=True) if len(self._times) else key

    def value(self, row: int) -> tuple[bytes, int] | None:
        """The value and timestamp of one row; None if it has no value."""
        entry = self._entries.item(row)
        return None if entry < 0 else (self._values.item(entry), self._timestamps.item(row))

    def may_have(self, hashes: HashArray) -> BoolArray:
        """True for hashes that a key in the table may have."""
        return self._index.find(hashes, self._index.home(hashes))[0] >= 0

    def _equal(self, rows: IntArray, keys: Keys) -> BoolArray:
        held = self._keys.take(rows)
        if held.equals(keys.data):
            same = np.ones(len(rows), np.bool_)
        else:
            same = pc.equal(held, keys.data).to_numpy(zero_copy_only=False)
        return same if keys.times is None else same & (self._times[rows] == keys.times)

    def add(self, keys: Keys) -> IntArray:
        """Add rows without values for new keys, and return them."""
        rows = self._index.add(keys.row_hashes)
        self._keys.append(keys.data)
        size = self._index.size
        if size > len(self._entries):
            room = size + size // 2 + 16
            self._entries = _grown(self._entries, room)
            self._timestamps = _grown(self._timestamps, room)
            if keys.times is not None:
                self._times = _grown(self._times, room)
        self._entries[rows] = ABSENT
        self._timestamps[rows] = -1
        if keys.times is not None:
            self._times[rows] = keys.times
        return rows

    def keys(self, rows: IntArray) -> Keys:
        """The keys of rows."""
        times = self._times[rows] if len(self._times) else None
        return Keys(self._keys.take(rows), times)

    def values(self, rows: IntArray) -> Values:
        """The values of rows."""
        return self.recall(*self.remember(rows))

    def recall(self, entries: IntArray, timestamps: IntArray) -> Values:
        """The values that rows had when they were remembered; valid until ``compact`` or ``keep``."""
        missing = entries < 0
        if not missing.any():
            return Values(self._values.take(entries), timestamps)
        if missing.all():
            return Values(pa.nulls(len(entries), pa.binary()), np.full(len(entries), -1, np.int64))
        found = self._values.take(entries[~missing])
        places = np.cumsum(~missing) - 1
        data = found.take(pa.array(places, mask=missing))
        return Values(data, np.where(missing, -1, timestamps))

    def assign(self, rows: IntArray, values: Values) -> None:
        """Set the values of rows; null removes a value. Each row may occur once."""
        first = self._values.append(values.data)
        entries = np.arange(first, first + len(rows))
        if values.data.null_count:
            entries[is_missing(values.data)] = ABSENT
        self._entries[rows] = entries
        self._timestamps[rows] = values.timestamps

    def remember(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return what ``restore`` needs to undo an ``assign`` of these rows."""
        return self._entries[rows], self._timestamps[rows]

    def restore(self, rows: IntArray, remembered: tuple[IntArray, IntArray]) -> None:
        self._entries[rows], self._timestamps[rows] = remembered

    def present(self) -> BoolArray:
        """True for rows with a value."""
        return self._entries[: len(self)] >= 0

    def times(self) -> IntArray:
        """The times of all rows."""
        return self._times[: len(self)]

    def hashes(self) -> HashArray:
        """The hashes of the keys of all rows."""
        return self._index.hashes()

    def sizes(self, rows: IntArray) -> IntArray:
        """The sizes of the values of rows in bytes."""
        entries = self._entries[rows]
        sizes = np.zeros(len(rows), np.int64)
        sizes[entries >= 0] = self._values.lengths(entries[entries >= 0])
        return sizes

    def heads(self, rows: IntArray) -> IntArray:
        """The numbers in the first 4 bytes of the values of rows; all of these rows must have values."""
        return self._values.heads(self._entries[rows])

    def timestamps(self, rows: IntArray) -> IntArray:
        """The timestamps of rows."""
        return self._timestamps[rows]

    def compact(self) -> None:
        """Discard the bytes of replaced values if they are the larger part; nothing can be restored afterwards.

        The check visits all rows, so it runs only when the table has grown by a quarter since the last check.
        """
        entries, used = len(self._values), self._values.used_nbytes
        if entries <= self._next_look[0] and used <= self._next_look[1]:
            return
        live = np.flatnonzero(self.present())
        if entries > 2 * live.size + _FEW or self._garbage(live) > _GARBAGE:
            self._values.keep(self._entries[live])
            self._entries[live] = np.arange(live.size)
            entries, used = live.size, self._values.used_nbytes
        self._next_look = (max(_FEW, entries + entries // 4), max(_GARBAGE, used + used // 4))

    def _garbage(self, live: IntArray) -> int:
        """The bytes of replaced values beyond those of the live ones."""
        used = self._values.used_nbytes
        return used if used <= _GARBAGE else used - 2 * int(self.sizes(live).sum())

    def keep(self, rows: IntArray) -> None:
        """Discard all other rows; these are renumbered from 0 in the given order."""
        if not rows.size:
            self._clear()
            return
        hashes, entries = self._index.hashes()[rows], self._entries[rows]
        live = np.flatnonzero(entries >= 0)
        self._keys.keep(rows)
        self._values.keep(entries[live])
        self._entries = np.full(len(rows), ABSENT, np.int64)
        self._entries[live] = np.arange(live.size)
        self._timestamps = self._timestamps[rows]
        self._times = self._times[rows] if len(self._times) else self._times
        self._index = HashIndex()
        self._index.add(hashes)
        self._next_look = (_FEW, _GARBAGE)


def _grown(array: IntArray, room: int) -> IntArray:
    grown = np.zeros(room, np.int64)
    grown[: len(array)] = array
    return grown

"""The stores of stream-stream joins: records by key and time, including duplicates; and records without a partner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.arrays import Binary, IntArray, binary, numbered
from penstock.state.columns.headers import MARKED, marked, rows_with_headers, rows_without_headers
from penstock.state.columns.packed import Entries, pack, unpack, unpack_one
from penstock.state.columns.rows import Keys, Values
from penstock.state.database import Database
from penstock.state.interface import ChangelogOffsets
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.segments import KeyedRow
from penstock.state.kinds.slots import SlottedStore
from penstock.state.kinds.window import WindowRow
from penstock.state.store import NO_OFFSETS
from penstock.state.transactional import ChangeSet
from penstock.values.durations import MAX_MS


class JoinWindowStore(SlottedStore):
    """Records by key and timestamp; records of the same key and timestamp are kept in the order of their arrival.

    A row holds the records of a key in a stretch of time (a slot), so one or two look-ups find the records around
    another one, without a scan. A segment consists of several slots.

    Args:
        name: the store's name.
        reach: the largest time difference between a record and its partners, in milliseconds.
        retention: milliseconds for which records are kept.
        in_memory: keep all rows in memory.
    """

    content = "one side of a join"
    keeps_timestamps = False
    """True if records have a timestamp in addition to their time."""

    def __init__(
        self, name: str, reach: int, retention: int, in_memory: bool = False, segment_interval: int | None = None
    ):
        super().__init__(name, retention, in_memory, segment_interval)
        self.reach = reach
        self._slots_a_segment = max(self.segment_interval // max(reach + 1, self.segment_interval // 1000, 1), 1)
        self._slot_width = -(-self.segment_interval // self._slots_a_segment)

    def load(self, keys: Keys, earliest: IntArray, latest: IntArray) -> Entries:
        """The records of distinct keys, each in its own time range, and possibly more; sorted by key, time and arrival.

        ``row`` is the number of the key, ``first`` the timestamp.
        """
        low, high = self._slots(np.maximum(earliest, 0)), self._slots(np.maximum(latest, 0))
        lowest, highest = self._held_slots()
        low, high = np.maximum(low, lowest), np.minimum(high, highest)
        counts = np.maximum(high - low + 1, 0)
        owner = np.repeat(np.arange(len(keys)), counts)
        slot = low[owner] + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        entries = unpack(self.look_up(keys.at(owner, slot)).data)
        data = rows_without_headers(entries.data, entries.second <= MARKED)
        return Entries(owner[entries.row], entries.first, entries.second, data)

    def _held_slots(self) -> tuple[int, int]:
        """The first and the last slot that may contain records."""
        held = [*self._segments, *self._expired]
        if not held:
            return 0, -1
        return min(held) * self._slots_a_segment, (max(held) + 1) * self._slots_a_segment - 1

    def append(
        self,
        keys: Keys,
        codes: IntArray,
        times: IntArray,
        data: Binary,
        timestamps: IntArray | None = None,
        headers: Any = None,
    ) -> None:
        """Put records, in the order of their arrival; with a timestamp in addition to their time, if it is kept, and
        with their headers, if they are given."""
        if not len(codes):
            return
        slots, named = numbered(self._slots(times), int(codes.max()) + 1)
        span = int(slots.max()) + 1
        places, row = np.unique(codes * span + slots, return_inverse=True)
        located = self.locate(keys.at(places // span, named(places % span)))
        there = unpack(located.get().data)
        seconds = np.zeros(len(row), np.int64) if timestamps is None else timestamps
        if headers is not None:
            data, has = rows_with_headers(data, headers)
            seconds = np.where(has, marked(0), seconds)
        every = _joined(there, Entries(row, times, seconds, data))
        latest = np.full(len(places), -1, np.int64)
        latest[every.row] = every.first
        self.put(located, Values(pack(every, len(places)), latest))

    def fetch(self, key: bytes, earliest: int, latest: int, reverse: bool = False) -> Iterator[tuple[int, bytes, int]]:
        """The records of one key in a time range, both ends included: timestamp, value, timestamp."""
        first = max(earliest, self.earliest_visible, 0)
        rows = self.scan_key(key, *self._slots_between(first, latest), reverse)
        return (row[1:] for row in self._taken_apart(rows, first, latest, reverse))

    def scan_windows(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool = False
    ) -> Iterator[WindowRow]:
        """The records of a range of keys (None: no bound) in a time range, both ends included: key, timestamp, value
        and timestamp, sorted by segment, key and time."""
        first = max(earliest, self.earliest_visible, 0)
        rows = self.scan_keys(low, high, *self._slots_between(first, latest), reverse)
        return self._taken_apart(rows, first, latest, reverse)

    def rows(self, reverse: bool = False) -> Iterator[WindowRow]:
        return self.scan_windows(None, None, 0, MAX_MS, reverse)

    def _taken_apart(self, rows: Iterator[KeyedRow], earliest: int, latest: int, reverse: bool) -> Iterator[WindowRow]:
        """Unpack the records of rows that are in a time range, both ends included."""
        keeps = self.keeps_timestamps
        for key, _, packed, _ in rows:
            entries = unpack_one(packed)
            for time, timestamp, value in reversed(entries) if reverse else entries:
                if earliest <= time <= latest:
                    yield key, time, value, timestamp if keeps else marked(time) if timestamp <= MARKED else time


def _joined(there: Entries, new: Entries) -> Entries:
    """Both, by row and time; equal times in the order of arrival."""
    every = there.join(new)
    return every.take(np.lexsort((every.first, every.row)))


NEVER = 2**63 - 1
"""The lowest time if there are no records."""


class WaitingStore(KeyValueStore):
    """Records that have no partner yet, sorted by time, side and key, as in Kafka Streams.

    A key consists of the timestamp in 8 bytes, a byte that is 1 for the left side, and the record's key. Its value has
    the values of all such records.

    ``min_time`` is a time before which no record needs to be checked.
    """

    content = "records that wait for a partner"

    def __init__(self, name: str, in_memory: bool = False):
        super().__init__(name, in_memory)
        self.min_time = NEVER
        self._committed_min_time = NEVER
        self._queue: list[bytes] | None = None
        self._counts: dict[bytes, int] = {}

    @property
    def counts(self) -> dict[bytes, int]:
        """The number of waiting records, by key."""
        if self._queue is None:
            rows = list(self.range())
            self._counts = {key: int.from_bytes(value[:4], "big") for key, value, _ in rows}
            self._queue = sorted(self._counts)
        return self._counts

    def queue(self) -> list[bytes]:
        """The waiting keys as a sorted list; some of them may be gone already, or occur twice."""
        assert self.counts is not None
        assert self._queue is not None
        return self._queue

    def write(self, changed: dict[bytes, list[bytes] | None]) -> None:
        """Write the values that wait under some keys; None for keys that no longer wait."""
        if not changed:
            return
        keys = Keys(binary(list(changed)))
        rows = [index for index, values in enumerate(changed.values()) for _ in values or ()]
        every = [value for values in changed.values() for value in values or ()]
        numbers = np.array(rows, np.int64)
        entries = Entries(numbers, np.zeros_like(numbers), np.zeros_like(numbers), binary(every))
        self.put(self.locate(keys), Values(pack(entries, len(keys)), np.zeros(len(keys), np.int64)))

    def values_of(self, keys: list[bytes]) -> list[list[bytes]]:
        """The values that wait under distinct keys, in the order of their arrival."""
        packed = self.get(Keys(binary(keys))).data.to_pylist()
        return [[] if value is None else [data for _, _, data in unpack_one(value)] for value in packed]

    def open(self, database: Database | None) -> None:
        super().open(database)
        self._queue = None

    def apply(self, changes: ChangeSet) -> None:
        super().apply(changes)
        self._queue = None

    def commit(self, changelog_offsets: ChangelogOffsets = NO_OFFSETS) -> None:
        super().commit(changelog_offsets)
        self._committed_min_time = self.min_time

    def rollback(self) -> None:
        super().rollback()
        self.min_time = self._committed_min_time
        self._queue = None

    def state(self) -> dict[str, int]:
        return {"min_time": self.min_time}

    def restore_state(self, numbers: dict[str, int]) -> None:
        self.min_time = self._committed_min_time = numbers["min_time"]


__all__ = ["NEVER", "JoinWindowStore", "WaitingStore"]

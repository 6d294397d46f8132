"""Records of left and outer stream joins that have found no partner: how long they wait, and when they go.

As in Kafka Streams, what has waited long enough goes when a record arrives that is at stream time, before that
record's own results, in the order of time, side (right first) and key. Before looking, the lowest time of those that
wait is compared with stream time, by the reach of the side of the arriving record; after looking it is the time of the
last record that was looked at. That decides when they go, so it is kept as Kafka Streams keeps it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, binary, fixed_binary
from penstock.state.columns.rows import Keys
from penstock.state.kinds.join_window import NEVER, WaitingStore


class Partners(Protocol):
    """Records and the partners that they found."""

    @property
    def row(self) -> IntArray: ...

    @property
    def time(self) -> IntArray: ...


class Reach(NamedTuple):
    """How far ahead the records of each side look for partners, and how long they wait after that."""

    left: int
    right: int
    grace: int

    def of(self, is_left: bool) -> int:
        return (self.left if is_left else self.right) + self.grace


class Waits(NamedTuple):
    """What became of a chunk's records without partners, and of those that waited before."""

    immediate: BoolArray
    """Which records do not wait, since their window has passed already."""
    at: IntArray
    """For each record that has waited long enough the row at which it goes, in order."""
    is_left: BoolArray
    times: IntArray
    codes: IntArray
    """The number of its key: among the chunk's keys, or, numbered on from these, in ``keys``."""
    keys: Binary
    data: Binary

    @classmethod
    def none(cls, count: int) -> Self:
        """Nothing waits."""
        empty, nothing = np.zeros(0, np.int64), binary([])
        return cls(np.zeros(count, np.bool_), empty, np.zeros(0, np.bool_), empty, empty, nothing, nothing)


class _Gone(NamedTuple):
    """Records that have waited long enough under one key."""

    at: int
    key: bytes
    from_before: bool
    """Whether the store's values under the key are among them."""
    rows: list[int]


class Waiting:
    """Goes through a chunk's records in order and keeps account of those that wait."""

    def __init__(
        self,
        store: WaitingStore,
        reach: Reach,
        keys: Keys,
        codes: IntArray,
        data: Binary,
        may_look: Callable[[], bool],
    ):
        self._may_look = may_look
        self._data = data
        self._store = store
        self._reach = reach
        self._keys = keys
        self._codes = codes
        self._counts = store.counts
        self._queue = store.queue()
        self._from_before: dict[bytes, bool] = {}
        """For the keys that the chunk changed: whether the store's values still wait."""
        self._rows: dict[bytes, list[int]] = {}
        self._gone: list[_Gone] = []

    def go_through(
        self,
        is_left: BoolArray,
        times: IntArray,
        stream_time: IntArray,
        is_live: BoolArray,
        is_single: BoolArray,
        partners: Partners,
    ) -> Waits:
        """Have records wait, take out those that found a partner, and let go of those that waited long enough.

        Args:
            is_single: the records that wait for a partner, or would.
        """
        until = np.maximum(times + np.where(is_left, self._reach.left, self._reach.right), 0)
        immediate = is_single & (until < stream_time)
        waits = is_single & ~immediate
        is_at = is_live & (times == stream_time)
        own = self._places(np.flatnonzero(waits), times, is_left)
        found = self._found(own, times, is_left, partners)
        matched = np.zeros(len(times), np.bool_)
        matched[list(found)] = True
        own_place = dict(zip(np.flatnonzero(waits).tolist(), own, strict=True))
        rows = np.flatnonzero(waits | is_at | matched)
        reach = (self._reach.of(False), self._reach.of(True))
        columns = (rows, is_left[rows], times[rows], stream_time[rows], is_at[rows])
        for row, left, time, now, looks in zip(*(column.tolist() for column in columns), strict=True):
            lowest = self._store.min_time
            may_be_due = reach[left] > 0 if lowest == NEVER else lowest + reach[left] < now  # as Kafka's sum overflows
            if looks and may_be_due and self._may_look() and lowest != NEVER:
                self._let_go(row, now)
            for place in found.get(row, ()):
                self._remove(place)
            if row in own_place:
                self._add(own_place[row], row, time)
        return self._waits(immediate)

    def _places(self, rows: IntArray, times: IntArray, is_left: BoolArray) -> list[bytes]:
        """The keys under which records wait."""
        return _place_keys(times[rows], is_left[rows], self._keys.data.take(pa.array(self._codes[rows])))

    def _found(
        self, own: list[bytes], times: IntArray, is_left: BoolArray, partners: Partners
    ) -> dict[int, list[bytes]]:
        """For each record the keys under which partners of it wait, or may."""
        if not len(partners.row) or (not own and not self._counts):
            return {}
        pairs = np.stack([self._codes[partners.row], partners.time, is_left[partners.row]], axis=1)
        distinct, number = np.unique(pairs, axis=0, return_inverse=True)
        keys = self._keys.data.take(pa.array(distinct[:, 0]))
        places = _place_keys(distinct[:, 1], distinct[:, 2] == 0, keys)
        known = self._counts.keys() | set(own)
        may_wait = np.array([place in known for place in places])
        number = number.ravel()
        chosen = np.flatnonzero(may_wait[number])
        found: dict[int, list[bytes]] = {}
        for row, index in zip(partners.row[chosen].tolist(), number[chosen].tolist(), strict=True):
            found.setdefault(row, []).append(places[index])
        return found

    def _add(self, place: bytes, row: int, time: int) -> None:
        self._store.min_time = min(self._store.min_time, time)
        if place not in self._counts:
            self._counts[place] = 0
            at = bisect_left(self._queue, place)
            if at == len(self._queue) or self._queue[at] != place:
                self._queue.insert(at, place)
            self._from_before.setdefault(place, False)
        self._from_before.setdefault(place, True)
        self._counts[place] += 1
        self._rows.setdefault(place, []).append(row)

    def _remove(self, place: bytes) -> None:
        if self._counts.pop(place, None) is not None:
            self._from_before[place] = False
            self._rows.pop(place, None)

    def _let_go(self, row: int, now: int) -> None:
        """Let go of what has waited long enough, and note how far it was looked."""
        is_open = [False, False]
        least, looked, dead = NEVER, 0, 0
        for place in self._queue:
            looked += 1
            count = self._counts.get(place)
            if count is None:
                dead += looked == dead + 1
                continue
            least = int.from_bytes(place[:8], "big")
            if all(is_open):
                break
            left = place[8] == 1
            if least + self._reach.of(left) >= now:
                is_open[left] = True
                if all(is_open) and count > 1:
                    break
                continue
            self._gone.append(_Gone(row, place, self._from_before.get(place, True), self._rows.get(place, [])))
            self._remove(place)
            dead += looked == dead + 1
        del self._queue[:dead]
        self._store.min_time = least

    def _waits(self, immediate: BoolArray) -> Waits:
        """What happened; the store is brought up to date."""
        needed = {gone.key for gone in self._gone if gone.from_before}
        needed |= {place for place in self._rows if self._from_before[place]}
        asked = list(needed)
        before = dict(zip(asked, self._store.values_of(asked), strict=True)) if asked else {}

        def values(place: bytes, from_before: bool, rows: list[int]) -> list[bytes]:
            own: list[bytes] = self._data.take(pa.array(rows, pa.int64())).to_pylist()
            return before[place] + own if from_before else own

        self._store.write(
            {
                place: values(place, from_before, self._rows[place]) if place in self._counts else None
                for place, from_before in self._from_before.items()
                if place in self._rows or not from_before
            }
        )
        gone = [(one, value) for one in self._gone for value in values(one.key, one.from_before, one.rows)]
        first = len(self._keys)
        return Waits(
            immediate,
            np.array([one.at for one, _ in gone], np.int64),
            np.array([one.key[8] == 1 for one, _ in gone], np.bool_),
            np.array([int.from_bytes(one.key[:8], "big") for one, _ in gone], np.int64),
            first + np.arange(len(gone)),
            binary([one.key[9:] for one, _ in gone]),
            binary([value for _, value in gone]),
        )


def _place_keys(times: IntArray, is_left: BoolArray, keys: Binary) -> list[bytes]:
    """Time, side and key in one, in the order in which they go."""
    heads = np.empty((len(times), 9), np.uint8)
    heads[:, :8] = times.astype(">i8").view(np.uint8).reshape(-1, 8)
    heads[:, 8] = is_left
    return pc.binary_join_element_wise(fixed_binary(heads), keys, b"").to_pylist()  # type: ignore[no-any-return]

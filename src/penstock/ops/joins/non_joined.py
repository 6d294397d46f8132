"""Records of left and outer stream joins without a partner: how long they wait, and when they are emitted.

As in Kafka Streams, records that have waited long enough are emitted when a record arrives that is at stream time. They
precede that record's own results and are ordered by time, side (right first) and key. The scan for them starts only if
the lowest waiting time is far enough behind stream time, by the reach of the arriving record's side. After a scan, the
lowest time is that of the last record that the scan looked at. This value decides when records are emitted, so it is
kept exactly as Kafka Streams keeps it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, binary, fixed_binary, shifted
from penstock.state.columns.rows import Keys
from penstock.state.kinds.join_window import NEVER, WaitingStore


class Partners(Protocol):
    """Pairs of records and the partners that they found."""

    @property
    def row(self) -> IntArray: ...

    @property
    def time(self) -> IntArray: ...


class Reach(NamedTuple):
    """How far ahead the records of each side search for partners, and how long they wait after that."""

    left: int
    right: int
    grace: int

    def of(self, is_left: bool) -> int:
        return (self.left if is_left else self.right) + self.grace


class Turn(NamedTuple):
    """The arrival of one record."""

    is_left: bool
    time: int
    stream_time: int
    looks: bool
    """True if the record starts a scan for records that have waited long enough: only a record at stream time does."""


class Arrivals(NamedTuple):
    """A chunk's records of both sides."""

    is_left: BoolArray
    times: IntArray
    stream_time: IntArray
    is_live: BoolArray
    is_single: BoolArray
    """True for records without a partner, which wait for one."""

    def turns(self, others: list[int]) -> Iterator[tuple[int, Turn]]:
        """Yield the rows of the records that start a scan, and of some others, in order."""
        looks = self.is_live & (self.times == self.stream_time)
        has_turn = looks.copy()
        has_turn[others] = True
        rows = np.flatnonzero(has_turn)
        columns = (column[rows].tolist() for column in (self.is_left, self.times, self.stream_time, looks))
        return zip(rows.tolist(), map(Turn._make, zip(*columns, strict=True)), strict=True)


class Waits(NamedTuple):
    """The outcome for records without partners: those of the chunk, and the waiting ones."""

    immediate: BoolArray
    """True for records that do not wait because their window has passed already."""
    at: IntArray
    """For each record that has waited long enough, the row at which it is emitted; ascending."""
    is_left: BoolArray
    times: IntArray
    codes: IntArray
    """The number of each record's key: among the chunk's keys, or, numbered after these, in ``keys``."""
    keys: Binary
    data: Binary

    @classmethod
    def none(cls, count: int) -> Self:
        """The outcome if no record waits."""
        empty, nothing = np.zeros(0, np.int64), binary([])
        return cls(
            np.zeros(count, np.bool_), empty, np.zeros(0, np.bool_), empty, codes=empty, keys=nothing, data=nothing
        )


class _Gone(NamedTuple):
    """Records under one key that have waited long enough."""

    at: int
    key: bytes
    from_before: bool
    """True if they include the store's values under the key."""
    rows: list[int]


class Waiting:
    """Goes through a chunk's records in order and keeps track of the waiting ones."""

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
        """For the keys that the chunk changed: True if the store's values still wait."""
        self._rows: dict[bytes, list[int]] = {}
        self._gone: list[_Gone] = []

    def go_through(self, arrivals: Arrivals, partners: Partners) -> Waits:
        """Let records wait, remove the records with a partner, and emit the records that have waited long enough."""
        left, right = (shifted(arrivals.times, reach) for reach in (self._reach.left, self._reach.right))
        until = np.maximum(np.where(arrivals.is_left, left, right), 0)
        immediate = arrivals.is_single & (until < arrivals.stream_time)
        waits = np.flatnonzero(arrivals.is_single & ~immediate)
        own = dict(zip(waits.tolist(), self._places(waits, arrivals), strict=True))
        found = self._found(own.values(), arrivals, partners)
        for row, turn in arrivals.turns([*own, *found]):
            if turn.looks and self._may_be_due(turn) and self._may_look() and self._store.min_time != NEVER:
                self._emit_non_joined_outer_records(row, turn.stream_time)
            for place in found.get(row, ()):
                self._remove(place)
            if row in own:
                self._add(own[row], row, turn.time)
        return self._waits(immediate)

    def _may_be_due(self, turn: Turn) -> bool:
        """True if the lowest waiting time is far enough behind stream time, by the reach of the arriving side."""
        reach, lowest = self._reach.of(turn.is_left), self._store.min_time
        if lowest == NEVER:  # Kafka Streams' sum overflows here
            return reach > 0
        return lowest + reach < turn.stream_time

    def _places(self, rows: IntArray, arrivals: Arrivals) -> list[bytes]:
        """The store keys under which records wait."""
        keys = self._keys.data.take(pa.array(self._codes[rows]))
        return _place_keys(arrivals.times[rows], arrivals.is_left[rows], keys)

    def _found(self, own: Collection[bytes], arrivals: Arrivals, partners: Partners) -> dict[int, list[bytes]]:
        """For each record, the store keys under which its partners wait or may wait."""
        if not len(partners.row) or (not own and not self._counts):
            return {}
        pairs = np.stack([self._codes[partners.row], partners.time, arrivals.is_left[partners.row]], axis=1)
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

    def _emit_non_joined_outer_records(self, row: int, stream_time: int) -> None:
        """Emit the records that have waited long enough, and note how far the scan went, like ``KStreamKStreamJoin``.

        Waiting records are sorted by time, right before left. If a record of one side must keep waiting, the scan
        continues past that side, because the other side's reach may be shorter:

            stream time - reach of left      stream time - reach of right
                      v                              v
            --R-L--R--|--R--L(waits on)---R-----R----|--R(waits on: nothing further goes)
        """
        waits_on = [False, False]
        least, looked, dead = NEVER, 0, 0
        for place in self._queue:
            looked += 1
            count = self._counts.get(place)
            if count is None:
                dead += looked == dead + 1
                continue
            least, is_left = int.from_bytes(place[:8], "big"), place[8] == 1
            if all(waits_on):
                break
            if least + self._reach.of(is_left) >= stream_time:
                waits_on[is_left] = True
                if all(waits_on) and count > 1:  # the next record that Kafka Streams looks at has the same key
                    break
                continue
            self._gone.append(_Gone(row, place, self._from_before.get(place, True), self._rows.get(place, [])))
            self._remove(place)
            dead += looked == dead + 1
        del self._queue[:dead]
        self._store.min_time = least

    def _waits(self, immediate: BoolArray) -> Waits:
        """Return the outcome, and write the changes to the store."""
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
            codes=first + np.arange(len(gone)),
            keys=binary([one.key[9:] for one, _ in gone]),
            data=binary([value for _, value in gone]),
        )


def _place_keys(times: IntArray, is_left: BoolArray, keys: Binary) -> list[bytes]:
    """Time, side and key as one store key, in the order of emission."""
    heads = np.empty((len(times), 9), np.uint8)
    heads[:, :8] = times.astype(">i8").view(np.uint8).reshape(-1, 8)
    heads[:, 8] = is_left
    return pc.binary_join_element_wise(fixed_binary(heads), keys, b"").to_pylist()  # type: ignore[no-any-return]

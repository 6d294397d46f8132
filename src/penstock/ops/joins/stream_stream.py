"""Joins of streams in time windows: every record meets the other side's records of its key around its time.

A chunk's records of both sides are processed together. All matches are found at once: the other side's records, from
the store and the chunk, are sorted by key, time and arrival, and each record is looked up by binary search. Only the
waiting records of left and outer joins are processed one by one, see ``non_joined``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, BoolArray, IntArray, concat, is_present, shifted
from penstock.columns.batch import Batch, Origins
from penstock.columns.column import BytesColumn, Column
from penstock.columns.rows import Rows, joined_column
from penstock.ops.core.context import Context
from penstock.ops.core.groups import group_keys
from penstock.ops.core.looks import Looks
from penstock.ops.core.operator import Collector, TwoSided
from penstock.ops.joins.joiner import Joiner
from penstock.ops.joins.matches import Matches, Timelines
from penstock.ops.joins.non_joined import Arrivals, Reach, Waiting, Waits
from penstock.serdes import Serde
from penstock.state.clock import StreamTime
from penstock.state.columns.packed import Entries
from penstock.state.columns.rows import Keys
from penstock.state.kinds.join_window import JoinWindowStore, WaitingStore

NOTHING = -1
"""The index of a missing side in a result."""


@dataclass(frozen=True)
class Side:
    """One side of a join: its store, how far its records look back and ahead, and whether they are emitted without a
    partner."""

    store: JoinWindowStore
    value: Serde
    before: int
    after: int
    is_outer: bool
    keeps_headers: bool = False
    """Whether the store keeps the headers of its records."""


class _Rows(NamedTuple):
    """A chunk's records of both sides, in processing order."""

    order: list[IntArray]
    is_left: BoolArray
    times: IntArray
    stream_time: IntArray
    keys: Keys
    """The distinct keys."""
    codes: IntArray
    """The number of each record's key; -1 if it has none."""
    data: Binary
    has_value: BoolArray
    headers: Any
    held: Origins | None

    @property
    def is_live(self) -> BoolArray:
        live: BoolArray = (self.codes >= 0) & self.has_value
        return live


class StreamJoin(TwoSided):
    """Joins the records of two streams.

    Args:
        waiting: the store of records that wait for a partner; None for inner joins.
        grace: how long they wait after their window, in milliseconds.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        joiner: Joiner,
        left: Side,
        right: Side,
        clock: StreamTime,
        waiting: WaitingStore | None,
        grace: int,
        key: Serde,
    ):
        self._node = node
        self._context = context
        self._joiner = joiner
        self._sides = (right, left)  # by is_left
        self._clock = clock
        self._waiting = waiting
        self._looks = Looks(context)
        self._grace = grace
        self._key = key

    def step_both(self, left: Batch | None, right: Batch | None, out: Collector) -> None:
        batches = [
            (self._context.encoded(self._node, batch, "key", "value"), is_left)
            for batch, is_left in ((left, True), (right, False))
            if batch is not None
        ]
        batches = [(batch, is_left) for batch, is_left in batches if len(batch)]
        if not batches:
            return
        rows = self._rows(batches)
        outer = np.where(rows.is_left, self._sides[True].is_outer, self._sides[False].is_outer)
        alone = outer & (rows.codes < 0) & rows.has_value
        self._drop(rows, ~alone & ~rows.is_live, "null-key-or-value")
        now = [self._stored_time(rows, is_left) for is_left in (False, True)]
        loaded = [self._load(rows, is_left) for is_left in (False, True)]
        matches = self._matches(rows, now, loaded)
        waits = self._wait(rows, outer, matches)
        result = self._results(rows, matches, alone | waits.immediate, waits, loaded)
        for is_left in (False, True):
            self._put(rows, is_left, now[is_left])
        if result is not None:
            placed = {batch.placed for batch, _ in batches}
            out.emit(replace(result, placed=placed.pop() if len(placed) == 1 else None))

    def _rows(self, batches: list[tuple[Batch, bool]]) -> _Rows:
        both = [batch for batch, _ in batches]
        order, headers, held = (joined_column(name, both) for name in ("order", "headers", "held"))
        rows = np.lexsort(order[::-1]) if len(batches) > 1 else np.arange(len(order[0]))
        chosen = pa.array(rows)
        key = concat([batch.key.encoded() for batch, _ in batches]).take(chosen)
        data = concat([batch.value.encoded() for batch, _ in batches]).take(chosen)
        times = np.concatenate([batch.timestamp for batch, _ in batches])[rows]
        is_left = np.concatenate([np.full(len(batch), is_left) for batch, is_left in batches])[rows]
        keys, codes = _codes(key)
        return _Rows(
            [column[rows] for column in order],
            is_left,
            times,
            self._clock.advance(times),
            keys=keys,
            codes=codes,
            data=data,
            has_value=is_present(data),
            headers=None if headers is None else headers.take(chosen),
            held=None if held is None else held.take(rows),
        )

    # --- stores --------------------------------------------------------------------------------------------------

    def _stored_time(self, rows: _Rows, is_left: bool) -> IntArray:
        """The stream time of a side's store before the first record and after each record."""
        store = self._sides[is_left].store
        puts = (rows.is_left == is_left) & (rows.codes >= 0)
        if not store.in_memory:
            puts &= rows.has_value
        times = np.where(puts, rows.times, -1)
        return np.maximum.accumulate(np.concatenate([[store.observed_stream_time], times]))

    def _load(self, rows: _Rows, is_left: bool) -> Entries:
        """Load a side's stored records that the other side's records may match."""
        side, probes = self._sides[not is_left], np.flatnonzero(rows.is_live & (rows.is_left != is_left))
        count = len(rows.keys)
        earliest, latest = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
        np.minimum.at(earliest, rows.codes[probes], shifted(rows.times[probes], -side.before))
        np.maximum.at(latest, rows.codes[probes], np.maximum(shifted(rows.times[probes], side.after), 0))
        asked = np.flatnonzero(latest >= 0)
        found = self._sides[is_left].store.load(rows.keys.take(asked), earliest[asked], latest[asked])
        return Entries(asked[found.row], found.first, found.second, found.data)

    def _put(self, rows: _Rows, is_left: bool, now: IntArray) -> None:
        """Put the records of a side into its store; records older than its retention are dropped."""
        store = self._sides[is_left].store
        mine = (rows.is_left == is_left) & (rows.codes >= 0)
        if store.in_memory:
            expired = mine & (rows.times <= now[1:] - store.retention)
        else:
            mine &= rows.has_value
            oldest = now[1:] - store.retention  # below 0 none is too old: Kafka Streams truncates
            expired = mine & (rows.times // store.segment_interval < np.maximum(oldest, 0) // store.segment_interval)
        self._drop(rows, expired, "expired-window")
        store.advance(int(now[-1]))
        kept = np.flatnonzero(mine & rows.has_value & ~expired & store.visible(rows.times))
        chosen = pa.array(kept)
        keeps = self._sides[is_left].keeps_headers and rows.headers is not None
        headers = rows.headers.take(chosen) if keeps else None
        store.append(rows.keys, rows.codes[kept], rows.times[kept], rows.data.take(chosen), headers=headers)

    def _drop(self, rows: _Rows, mask: BoolArray, reason: str) -> None:
        self._context.drop(self._node, rows.order[0][mask], reason)

    # --- matches -------------------------------------------------------------------------------------------------

    def _matches(self, rows: _Rows, now: list[IntArray], loaded: list[Entries]) -> Matches:
        first = len(rows.times)
        found = []
        for is_left in (False, True):  # the side of the partners
            found.append(self._matches_in(rows, is_left, now[is_left], loaded[is_left], first))
            first += len(loaded[is_left])
        every = found[0].join(*found[1:])
        return every.take(np.argsort(every.row, kind="stable"))

    def _matches_in(self, rows: _Rows, is_left: bool, now: IntArray, loaded: Entries, first: int) -> Matches:
        """The partners that the records of one side have on the other side, which is the left one if ``is_left``."""
        asking = np.flatnonzero(rows.is_live & (rows.is_left != is_left))
        here = np.flatnonzero(rows.is_live & (rows.is_left == is_left))
        if not len(asking) or not len(loaded) + len(here):
            return Matches.none()
        line = Timelines.of(
            codes=np.concatenate([loaded.row, rows.codes[here]]),
            times=np.concatenate([loaded.first, rows.times[here]]),
            arrival=np.concatenate([np.full(len(loaded), -1, np.int64), here]),
            number=np.concatenate([first + np.arange(len(loaded)), here]),
        )
        side, times = self._sides[not is_left], rows.times[asking]
        asked, at = line.between(rows.codes[asking], shifted(times, -side.before), shifted(times, side.after))
        row = asking[asked]
        there = (line.arrival[at] < row) & (line.time[at] > now[row] - self._sides[is_left].store.retention)
        return Matches(row[there], line.number[at[there]], line.time[at[there]])

    def _wait(self, rows: _Rows, outer: BoolArray, matches: Matches) -> Waits:
        """Work out which records wait for a partner, and which stop waiting."""
        count = len(rows.times)
        if self._waiting is None:
            return Waits.none(count)
        matched = np.zeros(count, np.bool_)
        matched[matches.row] = True
        left, right = self._sides[True], self._sides[False]
        reach = Reach(left.after, right.after, self._grace)
        waiting = Waiting(self._waiting, reach, rows.keys, rows.codes, rows.data, self._looks.is_due)
        arrivals = Arrivals(rows.is_left, rows.times, rows.stream_time, rows.is_live, rows.is_live & outer & ~matched)
        return waiting.go_through(arrivals, matches)

    # --- results -------------------------------------------------------------------------------------------------

    def _results(
        self, rows: _Rows, matches: Matches, alone: BoolArray, waits: Waits, loaded: list[Entries]
    ) -> Batch | None:
        """All results: at each record, first the results that have waited long enough, then the record's own."""
        values = _Values(rows.data, loaded, waits.data)
        waited, matched = _Results.waited(waits, values.first_waiting), _Results.matched(rows, matches)
        results = waited.join(matched, _Results.alone(rows, np.flatnonzero(alone)))
        results = results.take(np.lexsort((results.phase, results.row)))
        if not len(results.row):
            return None
        keys = concat([rows.keys.data, waits.keys]).take(pa.array(results.code, mask=results.code < 0))
        left = values.column(np.where(results.is_left, results.own, results.other), self._sides[True].value)
        right = values.column(np.where(results.is_left, results.other, results.own), self._sides[False].value)
        row = results.row
        places = (*(column[row] for column in rows.order), results.phase, np.arange(len(row)))
        headers = None if rows.headers is None else rows.headers.take(pa.array(row))
        held = None if rows.held is None else rows.held.take(row)
        batch = Batch(BytesColumn(keys, self._key), left, results.time, places, headers, held=held)
        batch, result = self._joiner.join(batch, left, right)
        return batch.with_value(result)


@dataclass(frozen=True, slots=True)
class _Results(Rows):
    """Results, by the record of the chunk at which they are emitted."""

    row: IntArray
    phase: IntArray
    """Results that have waited long enough come before a record's own results."""
    own: IntArray
    """The index of the value on the side of the record that makes the result."""
    other: IntArray
    is_left: BoolArray
    """True if that side is the left one."""
    time: IntArray
    code: IntArray
    """The number of the key."""

    @classmethod
    def waited(cls, waits: Waits, first: int) -> _Results:
        """Results of records that have waited long enough; ``first`` is the index of the first one among the values."""
        count = len(waits.at)
        own, nothing = first + np.arange(count), np.full(count, NOTHING)
        return cls(
            waits.at, np.zeros(count, np.int64), own, nothing, is_left=waits.is_left, time=waits.times, code=waits.codes
        )

    @classmethod
    def matched(cls, rows: _Rows, matches: Matches) -> _Results:
        row = matches.row
        times = np.maximum(rows.times[row], matches.time)
        return cls(
            row, np.ones_like(row), row, matches.partner, is_left=rows.is_left[row], time=times, code=rows.codes[row]
        )

    @classmethod
    def alone(cls, rows: _Rows, row: IntArray) -> _Results:
        """Results of records that are emitted without a partner at once."""
        nothing = np.full(len(row), NOTHING)
        return cls(
            row, np.ones_like(row), row, nothing, is_left=rows.is_left[row], time=rows.times[row], code=rows.codes[row]
        )


class _Values:
    """The values of all records that may occur in a result."""

    def __init__(self, rows: Binary, loaded: list[Entries], waiting: Binary):
        self._data = concat([rows, *(entries.data for entries in loaded), waiting])
        self.first_waiting = len(self._data) - len(waiting)

    def column(self, places: IntArray, serde: Serde) -> Column:
        return BytesColumn(self._data.take(pa.array(places, mask=places == NOTHING)), serde)


def _codes(key: Binary) -> tuple[Keys, IntArray]:
    """The distinct keys, and the number of each record's key; -1 if it has none."""
    if not key.null_count:
        return group_keys(key)
    encoded = key.dictionary_encode()
    return Keys(encoded.dictionary), encoded.indices.fill_null(-1).to_numpy().astype(np.int64)

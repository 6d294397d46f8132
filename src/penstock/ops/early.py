"""Which entries a suppression that holds as many records as it may lets go of early, for a whole chunk at once.

The oldest entry goes when there are too many. So an entry goes at the first row at which as many younger ones have come
as there may be: as long as it is held, no younger one has gone. Which rows bring an entry, and do not just update that
of their key, depends on what has gone before; that is guessed, and guessed again until what comes out is what went in.
A row is right as soon as all those before it are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray, concat
from penstock.ops.episodes import NOT_HELD, Chunk, Episodes, Plan, episodes_of, expiry_of, plan_of_episodes
from penstock.state.kinds.buffer import Entries, in_order

_MOST_ROUNDS = 100


class Early(NamedTuple):
    """What goes early or because its time has come, and what stays."""

    plan: Plan
    gone: IntArray
    """The entries from before that go as they are."""
    replaced: IntArray
    """The keys whose entries from before are updated first, and go then."""


class NotEnough(Exception):
    """More entries from before have to be looked at."""


def early_plan(chunk: Chunk, before: Entries, before_key: IntArray, records: int, limit: int) -> Early | None:
    """What becomes of a chunk when there may be no more than so many entries; None when no guess comes out right.

    Args:
        before: the oldest entries from before, in the order in which they go.
        before_key: which of the chunk's keys each of them has, -1 for none.
        records: how many entries there are before the chunk.
        limit: how many there may be.

    Raises:
        NotEnough: all of these entries go, and there are more.
    """
    line = _Line(chunk, before, before_key, records, limit)
    begins = _begins(chunk, episodes_of(chunk, line.expires[: len(line.held)], line.expires[line.known :]))
    for _ in range(_MOST_ROUNDS):
        until = line.until(begins)
        found = episodes_of(chunk, until[: len(line.held)], until[line.known :])
        result = _begins(chunk, found)
        if np.array_equal(result, begins):
            return line.early(found, until)
        begins = result
    return None


def _begins(chunk: Chunk, found: Episodes) -> BoolArray:
    """Which rows begin an episode."""
    begins = np.zeros(chunk.size, np.bool_)
    begins[found.begin[found.begin != NOT_HELD]] = True
    return begins


class _Line:
    """All entries that there may be, in the order in which they go: the entries of the chunk's keys from before, the
    other ones, and one for each row of the chunk."""

    def __init__(self, chunk: Chunk, before: Entries, before_key: IntArray, records: int, limit: int):
        self._chunk = chunk
        self._before = before
        self._before_key = before_key
        self.held = np.flatnonzero(chunk.held != NOT_HELD)
        self._others = np.flatnonzero(before_key < 0)
        self.known = len(self.held) + len(self._others)
        times = np.concatenate([chunk.held[self.held], before.times[self._others], chunk.times])
        by_row = chunk.groups.unsort(chunk.groups.group)
        keys = concat([chunk.keys.take(self.held), before.keys.take(self._others), chunk.keys.take(by_row)])
        self.expires = expiry_of(chunk, times)
        self.expires[self.known :] = np.maximum(self.expires[self.known :], np.arange(chunk.size))

        order = in_order(times, keys)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        is_row = order >= self.known
        rows_up_to = np.cumsum(is_row, dtype=np.int64)
        self._younger = _Younger(order[is_row] - self.known)
        self._first_younger = rows_up_to[place]
        known_after = self.known - (place + 1 - rows_up_to[place])
        self._room = limit - (records - self.known) - known_after
        """How many younger entries may come; an entry goes with the one after these."""
        self._are_more = records > len(before.times)
        self._last = self._place_of_last() if len(before.times) else -1
        if self._are_more and self._last >= 0:
            self._room[place > place[self._last]] = len(order)

    def _place_of_last(self) -> int:
        """Where the youngest of the entries from before that are looked at stands."""
        key = int(self._before_key[-1])
        return self.known - 1 if key < 0 else int(np.searchsorted(self.held, key))

    def until(self, begins: BoolArray) -> IntArray:
        """The row at which each entry goes, if it is there; the size of the chunk for those that stay."""
        rows = self._younger.rows(begins, self._first_younger, self._room - 1)
        rows[self.known :] = np.maximum(rows[self.known :], np.arange(self._chunk.size))
        return np.minimum(np.maximum(rows, 0), self.expires)

    def early(self, found: Episodes, until: IntArray) -> Early:
        count, held = self._chunk.size, len(self.held)
        if self._are_more and (self._last < 0 or until[self._last] < count):
            raise NotEnough
        others = np.full(len(self._before_key), count)
        others[self._others] = until[held : self.known]
        ended = found.until[:held] < count
        untouched = found.stop[:held] == found.start[:held]
        goes = np.zeros(len(self._chunk.groups) + 1, np.bool_)
        goes[found.key[:held][ended & untouched]] = True
        gone = np.flatnonzero((others < count) | goes[self._before_key])
        plan = plan_of_episodes(self._chunk, found, self._before.take(gone), self._before_key[gone], others[gone])
        return Early(plan, gone, found.key[:held][ended & ~untouched])


class _Younger:
    """The rows of a chunk in the order in which their entries would go, and which of them come first behind a place.

    A wavelet matrix: the rows are sorted by one bit of their numbers after the other, and along the bits of the row
    that is looked for, counts of rows with a 0 there tell where to go on.
    """

    def __init__(self, rows: IntArray):
        self._count = len(rows)
        self._levels: list[tuple[int, IntArray, BoolArray, IntArray]] = []
        for bit in range(max(len(rows) - 1, 1).bit_length() - 1, -1, -1):
            is_low = (rows >> bit) & 1 == 0
            self._levels.append((bit, rows, is_low, np.append(0, np.cumsum(is_low))))
            rows = np.concatenate([rows[is_low], rows[~is_low]])

    def rows(self, chosen: BoolArray, first: IntArray, number: IntArray) -> IntArray:
        """For each of some places the chosen row behind it that comes after so many others; the number of rows where
        there is none, and -1 where a number is negative."""
        found, stop = np.zeros(len(first), np.int64), np.full(len(first), self._count)
        wanted = np.maximum(number, 0)
        for level, (bit, rows, is_low, low_before) in enumerate(self._levels):
            is_chosen = chosen[rows]
            if not level:
                total = np.append(0, np.cumsum(is_chosen))
                is_there = total[stop] - total[first] > wanted
            chosen_before = np.append(0, np.cumsum(is_chosen & is_low))
            low = chosen_before[stop] - chosen_before[first]
            goes_low = wanted < low
            first_low, stop_low, lows = low_before[first], low_before[stop], low_before[-1]
            first = np.where(goes_low, first_low, lows + first - first_low)
            stop = np.where(goes_low, stop_low, lows + stop - stop_low)
            wanted = np.where(goes_low, wanted, wanted - low)
            found |= np.where(goes_low, 0, 1 << bit)
        return np.where(number < 0, -1, np.where(is_there, found, self._count))

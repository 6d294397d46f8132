"""Which entries a full suppression lets go of early, for a whole chunk at once.

The oldest entries go when there is too much. So entries go in their order, and the one at a place goes at the first row
at which all that was ever put in, less what went before it, is more than there may be: a search in running sums. Which
rows bring an entry, and do not just update that of their key, and how large entries are when they go, depends on what
has gone before; that is guessed, and guessed again until what comes out is what went in.

Entries that come when younger ones have gone already are out of that order. Where there is no room for such an entry it
goes at once, and changes nothing for the others. Where there is, the rows from it on are looked at anew: for these it
is the oldest, like any other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import BoolArray, IntArray, concat
from penstock.ops.suppress.timing import (
    NOT_HELD,
    UNLIMITED,
    Chunk,
    Limits,
    Plan,
    episodes_of,
    expiry_of,
    plan_of_episodes,
)
from penstock.state.kinds.buffer import Entries, in_order

_MOST_ROUNDS = 30
_MOST_ROWS = 512
_FEWEST_ROWS = 128
"""How many rows are looked at together."""


class Sizes(NamedTuple):
    """How many bytes updates count as."""

    rows: IntArray
    """Each row of the chunk, without what was before its episode."""
    old: IntArray
    """The value before each row, as a number; -1 for none."""
    prior: IntArray
    """For each key the value before its entry from before the chunk, as a number."""
    lengths: IntArray
    """The lengths of these values; a value counts only for rows before which there is another one."""
    held: IntArray
    """For each key its entry from before the chunk."""
    before: IntArray
    """The other entries from before."""


class Early(NamedTuple):
    """What goes early or because its time has come, and what stays."""

    plan: Plan
    gone: IntArray
    """The entries from before that go as they are."""
    replaced: IntArray
    """The keys whose entries from before are updated first, and go then."""


class NotEnough(Exception):
    """More entries from before have to be looked at."""


def early_plan(
    chunk: Chunk, before: Entries, before_key: IntArray, sizes: Sizes, records: int, nbytes: int, limits: Limits
) -> Early:
    """What becomes of a chunk when there may be no more than so much.

    Args:
        before: the oldest entries from before, in the order in which they go.
        before_key: which of the chunk's keys each of them has, -1 for none.
        sizes: of all of them, and of the chunk's rows.
        records, nbytes: what is held before the chunk.

    Raises:
        NotEnough: all of these entries go, and there are more.
    """
    line = _Line(chunk, before, before_key, sizes, records, nbytes, limits)
    first, most = 0, _MOST_ROWS
    while first < chunk.size:
        done = line.let_go(first, min(first + most, chunk.size))
        most = min(max(2 * (done - first), _FEWEST_ROWS), _MOST_ROWS)
        first = done
    return line.early()


class _Line:
    """All entries that there may be: those of the chunk's keys from before, the other ones, and one for each row."""

    def __init__(
        self,
        chunk: Chunk,
        before: Entries,
        before_key: IntArray,
        sizes: Sizes,
        records: int,
        nbytes: int,
        limits: Limits,
    ):
        self._chunk = chunk
        self._before = before
        self._before_key = before_key
        self._sizes = sizes
        self._limits = limits
        self._records, self._nbytes = records, nbytes
        self._held = np.flatnonzero(chunk.held != NOT_HELD)
        self._others = np.flatnonzero(before_key < 0)
        self.known = known = len(self._held) + len(self._others)
        times = np.concatenate([chunk.held[self._held], before.times[self._others], chunk.times])
        key_of_row = chunk.groups.unsort(chunk.groups.group)
        keys = concat([chunk.keys.take(self._held), before.keys.take(self._others), chunk.keys.take(key_of_row)])
        order = in_order(times, keys)
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order))
        self._expires = expiry_of(chunk, times)
        self._expires[known:] = np.maximum(self._expires[known:], np.arange(chunk.size))
        self._until = self._expires.copy()
        """The row at which each entry goes, if it is there."""
        self._size = np.concatenate([sizes.held[self._held], sizes.before, np.zeros(chunk.size, np.int64)])
        """How large each entry is now."""
        self._prior = np.concatenate([sizes.prior[self._held], np.full(len(self._others), -1), sizes.old])
        self._there = np.argsort(self._place[:known])
        """The entries that are there now, in the order in which they go."""
        self._last = -1
        if records > len(before.times):
            self._last = self._place_of_last() if len(before.times) else -2
        self._key = key_of_row
        self._entry = np.full(len(chunk.groups), -1)
        """The last entry of each key; -1 for none."""
        self._entry[self._held] = np.arange(len(self._held))

    def _place_of_last(self) -> int:
        """The youngest of the entries from before that are looked at."""
        key = int(self._before_key[-1])
        return self.known - 1 if key < 0 else int(np.searchsorted(self._held, key))

    # --- a few rows at a time ------------------------------------------------------------------------------------

    def let_go(self, first: int, stop: int) -> int:
        """Work out some rows, or as many of them as can be told together; the row behind these."""
        while True:
            rows = _Rows(first, stop, self._key, self._entry)
            kept = self._size[rows.entries]
            found = self._solve(rows)
            wrong = (first + stop) // 2 if found is None else self._first_wrong(rows, found)
            assert wrong > first, "one row follows from those before it"
            if found is not None and wrong == stop:
                self._accept(rows, found)
                return stop
            self._size[rows.entries] = kept
            self._until[self._there] = self._expires[self._there]
            self._until[self.known + first : self.known + stop] = self._expires[self.known + first : self.known + stop]
            stop = wrong

    def _solve(self, rows: _Rows) -> _Found | None:
        """Guess until what comes out is what went in; None if that takes too long."""
        looked_at, kept = 2 * len(rows.row) + _FEWEST_ROWS, self._size[rows.entries]
        begins = rows.is_first & ((rows.entry < 0) | (self._until[rows.entry] < rows.row))
        before: _Found | None = None
        for _ in range(_MOST_ROUNDS):
            self._size[rows.entries] = kept
            of, last = rows.entries_of(begins, self.known)
            found = self._go(rows, begins, self._grown(rows, begins, of), self._there[:looked_at])
            begins = (last < 0) | (self._until[last] < rows.row)
            if looked_at < len(self._there) and self._until[self._there[looked_at - 1]] < rows.stop:
                looked_at, before = 4 * looked_at, None
            elif before is not None and found.is_like(before) and np.array_equal(begins, found.begins):
                return found
            else:
                before = found
        return None

    def _grown(self, rows: _Rows, begins: BoolArray, of: IntArray) -> IntArray:
        """By how much each row makes the entry that it belongs to larger."""
        prior, old = self._prior[of], self._sizes.old[rows.row]
        size = self._sizes.rows[rows.row] + np.where((prior >= 0) & (prior != old), self._sizes.lengths[prior], 0)
        before = np.append(0, size[:-1])
        before[rows.is_first] = self._size[rows.entry[rows.is_first]]
        self._size[of] = size  # the last one of each entry stays
        return size - np.where(begins, 0, before)

    def _go(self, rows: _Rows, begins: BoolArray, grown: IntArray, there: IntArray) -> _Found:
        """When entries go, given a guess of when entries go."""
        first, count = rows.first, len(rows.row)
        began, added = rows.by_row(begins), rows.by_row(grown)
        new = self.known + first + np.flatnonzero(began)
        every = np.concatenate([there, new])
        goes = self._until[every]
        ended = goes < rows.stop
        youngest = np.full(count + 1, -1)
        np.maximum.at(youngest, goes[ended] - first + 1, self._place[every[ended]])
        is_behind = self._place[new] < np.maximum.accumulate(youngest)[new - self.known - first]
        behind, line = new[is_behind], np.concatenate([there, new[~is_behind]])
        line = line[np.argsort(self._place[line])]

        is_new = began.copy()
        added[behind - self.known - first] = 0
        is_new[behind - self.known - first] = False
        size = self._size[line]
        nbytes, records = self._nbytes + np.cumsum(added), self._records + np.cumsum(is_new)
        full = np.full(len(line), rows.stop)
        for limit, put, gone in (
            (self._limits.nbytes, nbytes, np.cumsum(size) - size),
            (self._limits.records, records, np.arange(len(line))),
        ):
            if limit != UNLIMITED:
                at = np.searchsorted(np.maximum.accumulate(put), limit + gone, "right")
                full = np.minimum(full, first + at)
        until = np.where(full < rows.stop, np.minimum(full, self._expires[line]), self._expires[line])
        self._until[line] = until
        self._until[behind] = behind - self.known
        return _Found(begins, grown, line, until, full, behind, nbytes, records)

    def _first_wrong(self, rows: _Rows, found: _Found) -> int:
        """The first row for which it does not hold that entries go in their order, or at once; ``stop`` if there is
        none."""
        first, line, behind = rows.first, found.line, found.behind
        own = line - self.known
        wrong = [rows.stop, *own[(own >= 0) & (found.full < own)].tolist()]
        if len(behind):
            at = behind - self.known - first
            ended = np.flatnonzero(found.until < rows.stop)
            row = found.until[ended] - first + 1
            gone = np.cumsum(np.bincount(row, self._size[line[ended]], len(rows.row) + 1)).astype(np.int64)
            number = np.cumsum(np.bincount(row, minlength=len(rows.row) + 1))
            fits = found.nbytes[at] - gone[at] + rows.by_row(found.grown)[at] <= self._limits.nbytes
            fits &= found.records[at] - number[at] + 1 <= self._limits.records
            fits &= self._expires[behind] > at + first
            wrong += (at[fits] + first).tolist()
        return int(min(wrong))

    def _accept(self, rows: _Rows, found: _Found) -> None:
        line = found.line
        stays = found.until >= rows.stop
        stay, rest = line[stays], self._there[np.count_nonzero(line < self.known + rows.first) :]
        self._there = np.insert(rest, np.searchsorted(self._place[rest], self._place[stay]), stay)
        self._nbytes = int(found.nbytes[-1]) - int(self._size[line[~stays]].sum())
        self._records = int(found.records[-1]) - int(np.count_nonzero(~stays))
        self._entry[rows.key] = rows.entries_of(found.begins, self.known)[0]
        if self._last == -2 or (self._last >= 0 and self._until[self._last] < rows.stop):
            raise NotEnough

    def early(self) -> Early:
        """What all of that comes to."""
        chunk, held = self._chunk, len(self._held)
        found = episodes_of(chunk, self._until[:held], self._until[self.known :])
        others = np.full(len(self._before_key), chunk.size)
        others[self._others] = self._until[held : self.known]
        ended = found.until[:held] < chunk.size
        untouched = found.stop[:held] == found.start[:held]
        goes = np.zeros(len(chunk.groups) + 1, np.bool_)
        goes[found.key[:held][ended & untouched]] = True
        gone = np.flatnonzero((others < chunk.size) | goes[self._before_key])
        plan = plan_of_episodes(chunk, found, self._before.take(gone), self._before_key[gone], others[gone])
        return Early(plan, gone, found.key[:held][ended & ~untouched])


class _Found(NamedTuple):
    """What comes of a guess. Of rows by key what they are, of entries in the order in which they go when they do."""

    begins: BoolArray
    """Which rows bring an entry."""
    grown: IntArray
    """By how much rows make their entries larger."""
    line: IntArray
    """The entries in the order in which they go."""
    until: IntArray
    """The rows at which they do."""
    full: IntArray
    """The rows at which they have to, because there is too much."""
    behind: IntArray
    """The entries that come when younger ones have gone, and go at once."""
    nbytes: IntArray
    """How much there would be at each row if nothing had gone, but for these."""
    records: IntArray

    def is_like(self, other: _Found) -> bool:
        """Whether the same entries go at the same rows."""
        pairs = zip(self[2:6], other[2:6], strict=True)
        return all(np.array_equal(one, two) for one, two in pairs)


class _Rows:
    """Some rows of a chunk, sorted by key."""

    def __init__(self, first: int, stop: int, key: IntArray, entry: IntArray):
        self.first, self.stop = first, stop
        self._order = np.argsort(key[first:stop], kind="stable")
        self.row = first + self._order
        self.key = key[self.row]
        self.is_first = np.append(True, self.key[1:] != self.key[:-1])
        """Which are the first of their keys."""
        self.entry = entry[self.key]
        """The entry that each key had before these rows; -1 for none."""
        self.entries = self.entry[self.is_first & (self.entry >= 0)]

    def by_row(self, values: NDArray[Any]) -> Any:
        """Values in the order of the rows."""
        result = np.empty_like(values)
        result[self._order] = values
        return result

    def entries_of(self, begins: BoolArray, known: int) -> tuple[IntArray, IntArray]:
        """The entry that each row belongs to, given which rows bring one; and that of its key before it."""
        number = np.arange(len(begins))
        run = np.maximum.accumulate(np.where(begins | self.is_first, number, 0))
        of = np.where(begins[run], known + self.row[run], self.entry[run])
        return of, np.where(self.is_first, self.entry, np.append(-1, of[:-1]))

"""Counts of sessions of a chunk's records worked out at once, whatever sessions they merge.

All records of a key, and the sessions that it has in the store, lie on a line, sorted by time. When a record comes, the
last one before it and the first one behind it that have come already are its neighbours, and the sessions it meets are
theirs; a *hole* between two neighbours is what separates sessions, from the record on that makes it until the first one
that comes in between. So the bounds of a session at any record are the nearest holes to both sides that are there then,
and its count is the number of records between them that have come.

Whether a record is too late, and whether it still sees the session before it, depends on these bounds in turn: both are
guessed, and guessed again until what comes out is what went in. A record is right as soon as those before it are.

A session that has gone out of sight separates nothing any more, but still lies on the line. A record that comes across
one, which takes a coincidence of milliseconds, waits with all that follow of its key, for another line without it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray, first_least
from penstock.ops.windows.sessions.runs import Bounds
from penstock.state.columns.packed import Entries


class Found(NamedTuple):
    """Sessions that records meet, and that go away."""

    record: IntArray
    start: IntArray
    end: IntArray
    number: IntArray
    """How many records they have."""


class Merges(NamedTuple):
    """The sessions of all records, in processing order; ``found`` by record and end."""

    waits: BoolArray
    """Which records have to wait until these sessions are kept."""
    is_late: BoolArray
    """Which of the others are late."""
    record: IntArray
    """Those that are not; of them is what follows."""
    start: IntArray
    end: IntArray
    number: IntArray
    """How many records the session has."""
    found: Found
    last: IntArray
    """Which of them are the last ones of their sessions."""
    seed: IntArray
    """For each of these the record that the session began with: of sessions that merge, the one that was before the
    others. -1 - the place of the stored session, if it began with that."""
    removed: IntArray
    """The places of stored sessions that went away."""


def merges_of(owner: IntArray, at: Bounds, stored: Entries, counts: IntArray, gap: int) -> Merges:
    """The sessions of some keys' records, up to those that have to wait.

    Args:
        owner: the number of the key of each record.
        at: what decides over each record.
        stored: the sessions in the store.
        counts: theirs.
        gap: of the sessions.
    """
    line = _Line(owner, at, stored, counts, gap)
    result = line.solve()
    waits = line.waiting(result)
    if not waits.any():
        return line.merges(result)
    done = np.flatnonzero(~waits)
    merges = merges_of(owner[done], at.take(done), stored, counts, gap)
    seed = np.where(merges.seed < 0, merges.seed, done[np.maximum(merges.seed, 0)])
    found = merges.found._replace(record=done[merges.found.record])
    waits[done] = merges.waits
    is_late = np.zeros(len(owner), np.bool_)
    is_late[done] = merges.is_late
    return merges._replace(waits=waits, is_late=is_late, record=done[merges.record], found=found, seed=seed)


class _Guess(NamedTuple):
    is_in: BoolArray
    """Which items are in a session, and not too late for that."""
    is_cut: BoolArray
    """Which do not see the session before them any more, however near it is."""


class _Holes(NamedTuple):
    """Neighbours that are in different sessions; -1 for no neighbour."""

    before: IntArray
    behind: IntArray
    since: IntArray
    until: IntArray


class _Result(NamedTuple):
    """What comes of each item, given a guess."""

    guess: _Guess
    holes: _Holes
    start: IntArray
    end: IntArray
    left: tuple[BoolArray, IntArray, IntArray]
    """Whether a session before it is met, or around it; its first and last item."""
    right: tuple[BoolArray, IntArray, IntArray]
    """Whether one behind it is met."""
    is_unfit: BoolArray


class _Line:
    """Stored sessions and records as items of a line, sorted by key and time."""

    def __init__(self, owner: IntArray, at: Bounds, stored: Entries, counts: IntArray, gap: int):
        self.gap = gap
        self.count = len(owner)
        matters = _that_matter(owner, at, stored, gap)
        self.places = np.flatnonzero(matters)
        known = len(self.places)
        key = np.concatenate([stored.row[self.places], owner])
        low = np.concatenate([stored.second[self.places], at.timestamps])
        high = np.concatenate([stored.first[self.places], at.timestamps])
        arrival = np.arange(-known, self.count)
        order = np.lexsort((arrival, low, key))
        self.size = len(order)
        self.arrival: IntArray = arrival[order]
        self.is_record = self.arrival >= 0
        self.time = low[order]
        self.weight = np.concatenate([counts[self.places], np.ones(self.count, np.int64)])[order]
        far = np.full(known, -(2**62))
        self.closed_at = np.concatenate([far, at.closed_at])[order]
        self.visible_from = np.concatenate([far, at.visible_from])[order]
        self.owner = key[order]
        self._within(low[order], high[order])
        ends = np.append(-1, self.high[:-1])
        begins = np.append(True, (self.owner[1:] != self.owner[:-1]))[: self.size] | (self.low > ends + gap)
        self.cluster = np.cumsum(begins) - 1
        """Items further apart than the gap have nothing to do with each other."""
        first = np.flatnonzero(begins)
        self.first = first[self.cluster]
        self.stop = np.append(first[1:], self.size)[self.cluster]

    def _within(self, low: IntArray, high: IntArray) -> None:
        """A record within a stored session has the bounds of that."""
        number = np.arange(self.size)
        cover = np.maximum.accumulate(np.where(self.is_record, -1, number))
        inside = self.is_record & (cover >= 0)
        inside[inside] = (self.owner[cover[inside]] == self.owner[inside]) & (high[cover[inside]] >= low[inside])
        self.is_within = inside
        self.low = np.where(inside, low[cover], low)
        self.high = np.where(inside, high[cover], high)

    # --- the rules -----------------------------------------------------------------------------------------------

    def solve(self) -> _Result:
        """Guess until what comes out is what went in."""
        guess = _Guess(np.ones(self.size, np.bool_), np.zeros(self.size, np.bool_))
        while True:
            result = self.apply(guess)
            if all(np.array_equal(one, other) for one, other in zip(result.guess, guess, strict=True)):
                return result
            guess = result.guess

    def apply(self, guess: _Guess) -> _Result:
        now, gap = self.arrival, self.gap
        come = np.where(guess.is_in, now, self.count)
        left, right = self._neighbours(come)
        has_left, has_right = left >= 0, right >= 0
        near_left = has_left & (self.low - self.high[left] <= gap)
        near_right = has_right & (self.low[right] - self.high <= gap)
        is_around = has_left & has_right & (self.low[right] - self.high[left] <= gap)
        is_around &= ~(guess.is_cut[right] & (now[right] > now[left]))

        holes = self._holes(guess, come, left, right, near_left, near_right)
        first = _nearest(holes.behind, holes, left, now, has_left, -1)[0]
        last, next_ = _nearest(holes.before, holes, right, now, has_right, 1)
        left_end = np.where(is_around, last, left)

        sees_right = has_right & (self.high[last] >= self.visible_from)
        sees_left = np.where(is_around, sees_right, has_left & (self.high[left] >= self.visible_from))
        meets_left = sees_left & (near_left | is_around)
        meets_right = sees_right & near_right & ~is_around
        start, end = self.time.copy(), self.time.copy()
        start[meets_left] = np.minimum(self.low[first], self.time)[meets_left]
        end[meets_left] = np.maximum(self.high[left_end], self.time)[meets_left]
        end[meets_right] = np.maximum(self.high[last], self.time)[meets_right]
        start, end = np.where(self.is_record, start, self.low), np.where(self.is_record, end, self.high)

        is_in = end >= self.closed_at
        is_cut = near_left & ~is_around & ~(sees_left & self.is_record)
        unseen = has_right & ~sees_right & (near_right | is_around)
        near_next = (next_ >= 0) & (self.low[next_] - self.time <= gap)
        is_unfit = unseen & (near_next | is_in) | (self.is_within & is_in & ~meets_left)
        return _Result(
            _Guess(is_in, is_cut),
            holes,
            start,
            end,
            (meets_left & self.is_record, first, left_end),
            (meets_right & self.is_record, right, last),
            is_unfit,
        )

    def _neighbours(self, come: IntArray) -> tuple[IntArray, IntArray]:
        """For each item the nearest ones to both sides that have come before it, -1 for none."""
        number, now = np.arange(self.size), self.arrival
        span = 2 * self.size + 2
        falling = come - self.cluster * span
        before = np.append(span, np.minimum.accumulate(falling)[:-1]) + self.cluster * span
        left = np.where((number > self.first) & (before < now), number - 1, -1)
        rising = come + self.cluster * span
        behind = np.append(np.minimum.accumulate(rising[::-1])[::-1][1:], span * span) - self.cluster * span
        right = np.where((number + 1 < self.stop) & (behind < now), number + 1, -1)
        for place, step in ((left, -1), (right, 1)):
            open_ = np.flatnonzero(place >= 0)
            while open_.size:
                open_ = open_[come[place[open_]] >= now[open_]]
                place[open_] += step
        return left, right

    def _holes(
        self,
        guess: _Guess,
        come: IntArray,
        left: IntArray,
        right: IntArray,
        near_left: BoolArray,
        near_right: BoolArray,
    ) -> _Holes:
        """All holes that there ever are."""
        before = np.flatnonzero(guess.is_in & (~near_left | guess.is_cut))
        behind = np.flatnonzero(guess.is_in & ~near_right)
        from_ = np.where(left < 0, self.first - 1, left)[before] + 1
        to = np.where(right < 0, self.stop, right)[behind]
        until = np.full(len(before) + len(behind), self.count)
        place = first_least(come, np.concatenate([from_, behind + 1]), np.concatenate([before, to]))
        until[place >= 0] = come[place[place >= 0]]
        return _Holes(
            np.concatenate([left[before], behind]),
            np.concatenate([before, right[behind]]),
            self.arrival[np.concatenate([before, behind])],
            until,
        )

    # --- what comes of them --------------------------------------------------------------------------------------

    def waiting(self, result: _Result) -> BoolArray:
        """Which records come across a session out of sight, or behind one of their key that does."""
        unfit = np.flatnonzero(result.is_unfit & self.is_record)
        first = np.full(int(self.owner.max(initial=0)) + 1, self.count)
        np.minimum.at(first, self.owner[unfit], self.arrival[unfit])
        waits: BoolArray = np.empty(self.count, np.bool_)
        waits[self.arrival[self.is_record]] = (self.arrival >= first[self.owner])[self.is_record]
        return waits

    def merges(self, result: _Result) -> Merges:
        item = np.flatnonzero(self.is_record & result.guess.is_in)
        item = item[np.argsort(self.arrival[item])]
        sums = _Sums(np.where(result.guess.is_in, self.arrival, self.count), self.weight)
        parts = []
        for meets, first, last in (result.left, result.right):
            some = item[meets[item]]
            count = sums.of(first[some], last[some], self.arrival[some])
            parts.append(Found(self.arrival[some], self.low[first[some]], self.high[last[some]], count))
        found = Found(*map(np.concatenate, zip(*parts, strict=True)))
        found = Found(*(column[np.lexsort((found.end, found.record))] for column in found))
        met = np.bincount(found.record, found.number, self.count).astype(np.int64)
        session = self._sessions(result)
        last, removed = self._last(session, item)
        begins = item[~_flags(self.count, found.record)[self.arrival[item]]]
        seed = self._seeds(session, begins)[session[item[last]]]
        late = np.flatnonzero(self.is_record & ~result.guess.is_in)
        record = self.arrival[item]
        return Merges(
            np.zeros(self.count, np.bool_),
            _flags(self.count, self.arrival[late]),
            record,
            result.start[item],
            result.end[item],
            met[record] + 1,
            found,
            last,
            seed,
            removed,
        )

    def _sessions(self, result: _Result) -> IntArray:
        """The number of the session that each item is in at last."""
        holes = result.holes
        lasting = holes.behind[(holes.until == self.count) & (holes.behind >= 0)]
        return np.cumsum(_flags(self.size, lasting))

    def _seeds(self, session: IntArray, begins: IntArray) -> IntArray:
        """The first item of each session that did not meet another one when it came."""
        items = np.sort(np.concatenate([np.flatnonzero(~self.is_record), begins]))[::-1]
        seeds = np.zeros(self.size + 1, np.int64)
        come, known = self.arrival[items], len(self.places)
        seeds[session[items]] = np.where(come >= 0, come, -1 - np.append(self.places, 0)[np.minimum(come, 0) + known])
        return seeds

    def _last(self, session: IntArray, item: IntArray) -> tuple[IntArray, IntArray]:
        """Which of the items, in processing order, are the last of their sessions; and the stored ones that went."""
        last = np.full(self.size + 1, -1)
        last[session[item]] = np.arange(len(item))
        stored = np.flatnonzero(~self.is_record)
        gone = stored[last[session[stored]] >= 0]
        return np.unique(last[last >= 0]), self.places[self.arrival[gone] + len(self.places)]


def _that_matter(owner: IntArray, at: Bounds, stored: Entries, gap: int) -> BoolArray:
    """Which stored sessions the first record of their key sees, and that are not too old for all."""
    size = 1 + max(int(owner.max()), int(stored.row.max(initial=0)))
    earliest = np.full(size, 2**62)
    np.minimum.at(earliest, owner, at.timestamps - gap)
    visible_from = np.zeros(size, np.int64)
    visible_from[owner[::-1]] = at.visible_from[::-1]
    matters: BoolArray = stored.first >= np.maximum(earliest, visible_from)[stored.row]
    return matters


def _nearest(
    side: IntArray, holes: _Holes, item: IntArray, now: IntArray, asks: BoolArray, step: int
) -> tuple[IntArray, IntArray]:
    """The nearest holes that are there when items come: one side of them, from an item on in one direction, and the
    other side."""
    order = np.argsort(side, kind="stable")
    order = order[np.searchsorted(side[order], 0) :]
    sides = side[order]
    since, until = holes.since[order], holes.until[order]
    place = np.searchsorted(sides, item, "right") - 1 if step < 0 else np.searchsorted(sides, item)
    open_ = np.flatnonzero(asks)
    while open_.size:
        at = place[open_]
        open_ = open_[(since[at] >= now[open_]) | (until[at] < now[open_])]
        place[open_] += step
    other = (holes.before if side is holes.behind else holes.behind)[order]
    found, across = np.full(len(item), -1), np.full(len(item), -1)
    found[asks], across[asks] = sides[place[asks]], other[place[asks]]
    return found, across


class _Sums:
    """Sums of the weights of items in a range of places that came before a time.

    A range from the beginning is a number of blocks whose sizes are powers of two; within blocks of each size the items
    are sorted by when they came.
    """

    def __init__(self, come: IntArray, weight: IntArray):
        self._come = come - come.min() if len(come) else come
        self._shift = int(come.min()) if len(come) else 0
        self._weight = weight

    def of(self, first: IntArray, last: IntArray, now: IntArray) -> IntArray:
        """Of places from first to last."""
        asked = np.concatenate([first, last + 1])
        until = np.concatenate([now, now]) - self._shift
        total = np.zeros(len(asked), np.int64)
        span, number = int(self._come.max(initial=0)) + 2, np.arange(len(self._come))
        for level in range(len(self._come).bit_length()):
            some = np.flatnonzero(asked >> level & 1)
            if not some.size:
                continue
            coded = (number >> level) * span + self._come
            order = np.argsort(coded, kind="stable")
            sums = np.append(0, np.cumsum(self._weight[order]))
            block = (asked[some] >> level) - 1
            place = np.searchsorted(coded[order], block * span + np.minimum(until[some], span - 1))
            total[some] += sums[place] - sums[block << level]
        return total[len(first) :] - total[: len(first)]


def _flags(size: int, places: IntArray) -> BoolArray:
    flags = np.zeros(size, np.bool_)
    flags[places] = True
    return flags

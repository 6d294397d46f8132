"""What the records of a chunk change in the sliding windows of their keys, as Kafka Streams does it record by record.

A record is added to all windows around it, ends one (its *left* one) and may begin one right *behind* the record before
it and one right behind itself. Which of these there are already, and what they hold, decides what it makes: so each
record depends on those before it, by rules that look at a few windows only. They are applied to all records at once,
given a guess of which record makes which window; what comes out is the next guess. A guess that comes out as it went in
is what processing record by record gives, since a record is right as soon as all those before it are. Where records
come in time, windows follow from the times of records alone, and the first guess is nearly right; windows that had
closed before a record came, or that the store does not show any more, leave gaps that take a few rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray, distinct, first_least
from penstock.ops.core.groups import Groups
from penstock.state.columns.packed import Entries

STORED = -1
_NEVER = 2**62
_LIMIT = 2**62

UPDATE = 0
"""The record is added to a window that there is."""
BEGIN = 1
"""A window begins with the record."""
GO_ON = 2
"""A window begins with the aggregate of another one, and the record is added."""
COPY = 3
"""A window behind the record begins with what another window had before the record."""


class Records(NamedTuple):
    """The records of some keys, in processing order."""

    owner: IntArray
    """The number of the key."""
    time: IntArray
    closed_at: IntArray
    """What ends before is closed."""


class Windows(NamedTuple):
    """The windows that may have come up, sorted by key and start."""

    owner: IntArray
    start: IntArray
    place: IntArray
    """The place among the stored windows, -1 for others."""


class Plan(NamedTuple):
    """All updates of windows, in the order in which they happen."""

    windows: Windows
    record: IntArray
    window: IntArray
    kind: IntArray
    source: IntArray
    """For ``GO_ON`` the other window. For ``COPY`` the number of the other window's update by the record; if it is not
    updated before, -1 - the window."""
    base: IntArray
    """The place of the stored window whose aggregate the window's goes back to, -1 for none."""
    added: IntArray
    """How many records of the chunk came to that."""
    timestamp: IntArray
    stream_time: IntArray
    """That of the store, with the update."""
    closed: IntArray
    """For each record the number of its windows that are closed."""


class _Guess(NamedTuple):
    """Which record makes which window."""

    since: IntArray
    """For each window the record that makes it, ``STORED`` for those from before."""
    latest: IntArray
    """How long after its start the window's latest record is then."""
    looks_from: IntArray
    """For each record where the first window begins that it may look at: around it, and still shown by the store."""

    def is_same(self, other: _Guess) -> bool:
        return all(np.array_equal(one, another) for one, another in zip(self, other, strict=True))


class _Made(NamedTuple):
    """A window that a record makes, or would if it were not closed."""

    record: IntArray
    window: IntArray
    source: IntArray
    """The window whose aggregate it begins with, -1 for none."""
    latest: IntArray


class _Round(NamedTuple):
    """What the rules say, given a guess."""

    is_update: BoolArray
    """Of the pairs of records and windows."""
    latest_before: IntArray
    """Of the pairs."""
    latest_after: IntArray
    """Of the pairs, by window and record."""
    behind_previous: _Made
    left: _Made
    behind: _Made
    right_pair: IntArray
    """For each of ``behind`` the pair of its record and its source."""
    closed: IntArray


def fits(records: Records, stored: Entries, difference: int, count: int) -> bool:
    """Whether all keys' times can lie on one line."""
    times = np.concatenate([records.time, stored.first])
    return (int(times.max()) - int(times.min()) + 5 * (difference + 2)) * max(count, 4 * len(times)) < _LIMIT


def plan_of(rules: Rules) -> Plan:
    """The updates of all records."""
    rules.pair_up()
    guess = rules.first_guess()
    while True:
        made = rules.apply(guess)
        result = rules.guess_of(made)
        if result.is_same(guess):
            return rules.plan(guess, made)
        guess = result


class Rules:
    """The rules for the records of a chunk, with all keys' times on one line, each key with a stretch of its own.

    Args:
        records: some, none of them too late for all of its windows.
        stored: the keys' windows in the store around them: starts and timestamps, by key and start.
        difference: of the windows.
        retention: of the store.
        stream_time: that of the store.
    """

    def __init__(self, records: Records, stored: Entries, difference: int, retention: int, stream_time: int):
        self.records = records
        self.count = len(records.time)
        self.difference = difference
        self.retention = retention
        self.stream_time = stream_time
        every = np.concatenate([records.time, stored.first])
        self.low = int(every.min()) - 2 * difference - 2
        self.span = int(every.max()) - self.low + 2 * difference + 4
        self.at = self._line(records.owner, records.time)
        self.is_early = records.time < difference
        """No window begins before time 0: these share the one from there on."""
        self.left_at = self._line(records.owner, np.maximum(records.time - difference, 0))
        stored_at, latest_at = self._line(stored.row, stored.first), self._line(stored.row, stored.second)
        self.window_at = distinct(np.concatenate([stored_at, latest_at + 1, self.left_at, self.at + 1]))
        self.start = self.window_at % self.span + self.low
        self.place = np.full(len(self.window_at), -1)
        self.place[np.searchsorted(self.window_at, stored_at)] = np.arange(len(stored_at))
        self.stored = np.flatnonzero(self.place >= 0)
        self.stored_latest = stored.second - stored.first
        self.left_window = np.searchsorted(self.window_at, self.left_at)
        self.behind_window = np.searchsorted(self.window_at, self.at + 1)
        self._high = np.searchsorted(self.window_at, self.at, "right")
        self._sizes = self._high - self.left_window

    @property
    def pairs(self) -> int:
        """How many pairs there are of a record and a window that it may be in."""
        return int(self._sizes.sum())

    def _line(self, owner: IntArray, time: IntArray) -> IntArray:
        return owner * self.span + (time - self.low)

    def pair_up(self) -> None:
        """Each record with the windows that begin from its left one on up to its time, the last one first."""
        high, sizes = self._high, self._sizes
        self.ends = np.cumsum(sizes)
        self.firsts = self.ends - sizes
        self.record = np.repeat(np.arange(self.count), sizes)
        self.window = high[self.record] - 1 - (np.arange(len(self.record)) - self.firsts[self.record])
        self.is_open = self.start[self.window] + self.difference >= self.records.closed_at[self.record]
        self.is_left = np.zeros(len(self.record), np.bool_)
        self.is_left[self.ends - 1] = True
        self.groups = Groups.by_number(self.window)
        self.by_window = self.window[self.groups.order] * self.count + self.record[self.groups.order]
        self.from_start = self.records.time[self.record] - self.start[self.window]

    # --- guesses -------------------------------------------------------------------------------------------------

    def first_guess(self) -> _Guess:
        """What there is when no window is closed or has gone: one that ends at each record, and one behind each, as
        soon as another record falls into that."""
        since = np.full(len(self.window_at), _NEVER)
        latest = np.zeros(len(self.window_at), np.int64)
        at = np.concatenate([self.window_at[self.stored] + self.stored_latest, self.at])
        at, first = np.unique(at, return_index=True)
        arrival = np.maximum(first - len(self.stored), STORED)
        behind = np.searchsorted(self.window_at, at + 1)
        low = np.searchsorted(at, at, "right")
        high = np.searchsorted(at, at + self.difference + 1, "right")
        follower = first_least(arrival, low, high)
        comes_before = np.flatnonzero((follower >= 0) & (arrival[follower] < arrival))
        follower[comes_before] = _last_before(arrival, high[comes_before], arrival[comes_before])
        made = np.flatnonzero(follower >= 0)
        since[behind[made]] = np.maximum(arrival[follower[made]], arrival[made])
        latest[behind[made]] = at[follower[made]] - at[made] - 1
        new = np.flatnonzero(arrival >= 0)[::-1]
        left = self.left_window[arrival[new]]
        is_first = arrival[new] < since[left]
        new, left = new[is_first], left[is_first]
        since[left], latest[left] = arrival[new], at[new] - self.window_at[left]
        since[self.stored], latest[self.stored] = STORED, self.stored_latest
        return _Guess(since, latest, self._looks_from(np.full(self.count, self.stream_time)))

    def guess_of(self, made: _Round) -> _Guess:
        """The windows that are made."""
        since = np.full(len(self.window_at), _NEVER)
        latest = np.zeros(len(self.window_at), np.int64)
        for some in (made.behind_previous, made.left, made.behind):
            np.minimum.at(since, some.window, some.record)
        since[self.stored] = STORED
        for some in (made.behind_previous, made.left, made.behind):
            first = np.flatnonzero(since[some.window] == some.record)
            latest[some.window[first]] = some.latest[first]
        latest[self.stored] = self.stored_latest
        put = np.full(self.count, -1)
        updates = np.flatnonzero(made.is_update)
        np.maximum.at(put, self.record[updates], self.start[self.window[updates]])
        for some in (made.behind_previous, made.left, made.behind):
            np.maximum.at(put, some.record, self.start[some.window])
        return _Guess(since, latest, self._looks_from(np.maximum.accumulate(np.append(self.stream_time, put[:-1]))))

    def _looks_from(self, stream_time: IntArray) -> IntArray:
        first = np.maximum(self.records.time - 2 * self.difference, stream_time - self.retention + 1)
        return np.maximum(first, 0)

    # --- the rules -----------------------------------------------------------------------------------------------

    def apply(self, guess: _Guess) -> _Round:
        record, time, closed_at = np.arange(self.count), self.records.time, self.records.closed_at
        is_there = self._is_there(guess, self.window, self.record)
        is_update = is_there & self.is_open
        latest_before, latest_after = self._latest(guess, is_update)

        last = self.ends - 1
        has_left, left_latest = is_there[last], self.start[self.left_window] + latest_before[last]
        is_known = has_left & (left_latest >= time) & ~self.is_early
        right_pair = self._first_pair(is_there & (~self.is_left | self.is_early[self.record]))
        other, other_latest = self._before_left(guess, latest_after)
        previous = np.where(other >= 0, other_latest, np.where(has_left & (left_latest < time), left_latest, -1))

        closed = np.bincount(self.record[is_there & ~self.is_open], minlength=self.count)
        behind_previous, is_closed = self._behind_previous(guess, np.where(is_known, -1, previous))
        closed += is_closed
        makes = ~is_known & ~has_left
        is_late = makes & (self.start[self.left_window] + self.difference < closed_at)
        closed += is_late
        made = np.flatnonzero(makes & ~is_late)
        goes_on = (other >= 0) & (previous >= time - self.difference)
        latest = time - self.start[self.left_window]
        left = _Made(made, self.left_window[made], np.where(goes_on, other, -1)[made], latest[made])

        follows = right_pair >= 0
        right_latest = self.start[self.window[right_pair]] + latest_before[right_pair]
        follows &= ~is_known & (right_latest > time) & ~self._is_there(guess, self.behind_window, record)
        made = np.flatnonzero(follows)
        right_pair = right_pair[made]
        latest = right_latest[made] - time[made] - 1
        behind = _Made(made, self.behind_window[made], self.window[right_pair], latest)
        return _Round(is_update, latest_before, latest_after, behind_previous, left, behind, right_pair, closed)

    def _is_there(self, guess: _Guess, window: IntArray, record: IntArray) -> BoolArray:
        there: BoolArray = guess.since[window] < record
        there &= self.start[window] >= guess.looks_from[record]
        return there

    def _latest(self, guess: _Guess, is_update: BoolArray) -> tuple[IntArray, IntArray]:
        """How long after its start a window's latest record is, before the record of each pair; and after it, by window
        and record."""
        order = self.groups.order
        step = self.groups.group * (self.difference + 2)
        added = np.where(is_update, self.from_start, -1)[order]
        after = np.maximum.accumulate(added + step + 1) - step - 1
        after = np.maximum(after, guess.latest[self.window[order]])
        before = np.append(0, after[:-1])
        before[self.groups.starts] = guess.latest[self.groups.numbers]
        every_before: IntArray = self.groups.unsort(before)
        return every_before, after

    def _first_pair(self, chosen: BoolArray) -> IntArray:
        """The first of the chosen pairs of each record, -1 for none."""
        pairs = np.flatnonzero(chosen)
        place = np.searchsorted(pairs, self.firsts)
        found = np.append(pairs, len(chosen))[place]
        return np.where(found < self.ends, found, -1)

    def _before_left(self, guess: _Guess, latest_after: IntArray) -> tuple[IntArray, IntArray]:
        """The last window that ends before each record, -1 for none, and its latest record."""
        live = np.flatnonzero(guess.since < _NEVER)
        since, at = guess.since[live], self.window_at[live]
        lowest = self._line(self.records.owner, guess.looks_from)
        place = np.searchsorted(at, self.left_at) - 1
        while True:
            inside = place >= 0
            inside[inside] = at[place[inside]] >= lowest[inside]
            place = np.where(inside, place, -1)
            some = np.flatnonzero(inside)
            later = some[since[place[some]] >= some]
            if not later.size:
                break
            place[later] -= 1
        window = np.append(live, -1)[np.where(self.is_early, -1, place)]
        found = np.flatnonzero(window >= 0)
        latest = np.full(self.count, -1)
        latest[found] = self.start[window[found]] + self._latest_at(guess, latest_after, window[found], found)
        return window, latest

    def _latest_at(self, guess: _Guess, latest_after: IntArray, window: IntArray, record: IntArray) -> IntArray:
        """How long after its start a window's latest record is, when a record comes."""
        place = np.searchsorted(self.by_window, window * self.count + record)
        return np.where(place > self._first_of(window), latest_after[place - 1], guess.latest[window])

    def _first_of(self, window: IntArray) -> IntArray:
        return np.searchsorted(self.by_window, window * self.count)

    def _behind_previous(self, guess: _Guess, previous: IntArray) -> tuple[_Made, BoolArray]:
        """The windows right behind the records before, and for which records these are closed."""
        records = self.records
        there = np.flatnonzero((previous >= 0) & (previous + 1 + self.difference >= records.time))
        window = np.searchsorted(self.window_at, self._line(records.owner[there], previous[there] + 1))
        window = np.minimum(window, len(self.window_at) - 1)  # what a wrong guess takes for the record before
        missing = ~self._is_there(guess, window, there)
        there, window = there[missing], window[missing]
        late = self.start[window] + self.difference < records.closed_at[there]
        is_closed = np.zeros(self.count, np.bool_)
        is_closed[there[late]] = True
        there, window = there[~late], window[~late]
        latest = records.time[there] - self.start[window]
        return _Made(there, window, np.full(len(there), -1), latest), is_closed

    # --- the plan ------------------------------------------------------------------------------------------------

    def plan(self, guess: _Guess, made: _Round) -> Plan:
        """All updates, in order."""
        updates = np.flatnonzero(made.is_update)
        parts = (made.behind_previous, made.left, made.behind)
        record = np.concatenate([self.record[updates], *(part.record for part in parts)])
        window = np.concatenate([self.window[updates], *(part.window for part in parts)])
        source = np.concatenate([np.full(len(updates), -1), *(part.source for part in parts)])
        kinds = [np.where(part.source < 0, BEGIN, kind) for part, kind in zip(parts, (GO_ON, GO_ON, COPY), strict=True)]
        kind = np.concatenate([np.full(len(updates), UPDATE), *kinds])
        base, added = self._counts(guess, made, updates)
        time = self.records.time
        after = np.maximum(self.start[self.window[updates]] + made.latest_before[updates], time[self.record[updates]])
        timestamp = np.concatenate([after, *(self.start[part.window] + part.latest for part in parts)])
        order = self._order(record, window, [len(updates), *(len(part.record) for part in parts)])
        source = self._sources(made, updates, source, kind, order)
        record, window = record[order], window[order]
        stream_time = np.maximum(np.maximum.accumulate(self.start[window]), self.stream_time) if len(window) else window
        return Plan(
            Windows(self.window_at // self.span, self.start, self.place),
            record,
            window,
            kind[order],
            source[order],
            base[order],
            added[order],
            timestamp[order],
            stream_time,
            made.closed,
        )

    def _order(self, record: IntArray, window: IntArray, sizes: list[int]) -> IntArray:
        """First the updates, the window that begins last first; then the window behind the record before, the left
        one, and the one behind. Early records end with the window that begins at 0, and begin with the next one."""
        turn = np.repeat(np.arange(4), sizes)
        early = self.is_early[record]
        if not early.any():
            return np.argsort(record * 4 + turn, kind="stable")
        turn[early] = np.array([0, 2, 3, 1])[turn[early]]
        turn[early & (self.start[window] == 0)] = 3
        within = np.where(early, window, -window)
        return np.lexsort((np.where(turn == 0, within, 0), record * 4 + turn))

    def _sources(self, made: _Round, updates: IntArray, source: IntArray, kind: IntArray, order: IntArray) -> IntArray:
        """Sources as the plan tells them."""
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        copies = np.flatnonzero(kind == COPY)
        place = np.minimum(np.searchsorted(updates, made.right_pair), len(updates) - 1)
        update = number[place] if len(updates) else np.full(len(copies), -1)
        comes_first = made.is_update[made.right_pair] & (update < number[copies])
        source = source.copy()
        source[copies] = np.where(comes_first, update, -1 - source[copies])
        return source

    def _counts(self, guess: _Guess, made: _Round, updates: IntArray) -> tuple[IntArray, IntArray]:
        """For each update the stored window that its window goes back to, and how many records have been added."""
        order = self.groups.order
        every = np.append(0, np.cumsum(made.is_update[order]))
        parent, own = np.arange(len(self.window_at)), np.zeros(len(self.window_at), np.int64)
        begins = np.zeros(len(self.window_at), np.bool_)

        def before(window: IntArray, record: IntArray) -> IntArray:
            """How many records have been added to a window when a record comes."""
            until = np.searchsorted(self.by_window, window * self.count + record)
            number: IntArray = every[until] - every[self._first_of(window)]
            return number

        known = []
        for part, more in ((made.behind_previous, 1), (made.left, 1), (made.behind, 0)):
            goes_on = part.source >= 0
            count = np.full(len(part.record), more)
            count[goes_on] += before(part.source[goes_on], part.record[goes_on])
            known.append(count)
            first = np.flatnonzero((guess.since[part.window] == part.record) & (self.place[part.window] < 0))
            window = part.window[first]
            own[window], begins[window] = count[first], ~goes_on[first]
            parent[window] = np.where(goes_on, part.source, part.window)[first]
        root, added = _climbed(parent, own)
        base = np.where(begins[root], -1, self.place[root])

        mine = self.window[updates]
        running = self.groups.unsort(every[1:] - every[self.groups.starts][self.groups.group])
        bases, numbers = [base[mine]], [added[mine] + running[updates]]
        for part, count in zip((made.behind_previous, made.left, made.behind), known, strict=True):
            goes_on = part.source >= 0
            bases.append(np.where(goes_on, base[part.source], -1))
            numbers.append(count + np.where(goes_on, added[part.source], 0))
        return np.concatenate(bases), np.concatenate(numbers)


def _climbed(parent: IntArray, own: IntArray) -> tuple[IntArray, IntArray]:
    """For each node of a forest its root, and the sum of the numbers from it up to there, the root's included."""
    added = np.where(parent == np.arange(len(parent)), 0, own)
    while True:
        above = parent[parent]
        if np.array_equal(above, parent):
            return parent, added + own[parent]
        added = added + added[parent]
        parent = above


def _last_before(arrival: IntArray, high: IntArray, until: IntArray) -> IntArray:
    """The last place below each of some, of a number that is less; there is one."""
    place = high - 1
    while True:
        later = np.flatnonzero(arrival[place] >= until)
        if not later.size:
            return place
        place[later] -= 1

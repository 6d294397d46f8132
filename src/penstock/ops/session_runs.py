"""Sessions of a chunk's records worked out at once, for the keys for which that is simple.

A key is simple when all its records of the chunk, in processing order, extend the newest session, to either side, or
begin one behind it, and none meets two sessions. Then its sessions are runs of records: a run begins where a record
lies more than the gap behind all before it, and running minima and maxima along a run are the bounds of the session
after each record. Late records are dropped or lie within the newest session, which they do not extend.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.ops.groups import Groups
from penstock.state.packed import Entries

_NEVER = -(2**61)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What decides over each record of a chunk besides the sessions of its key."""

    timestamps: IntArray
    closed_at: IntArray
    """A session that ends before is closed."""
    visible_from: IntArray
    """A session that ends before is not visible any more, when the record comes."""
    stored_from: IntArray
    """One that ends before is not stored any more, after the record."""
    counted_from: IntArray
    """And if it ends before this, that counts as a drop."""

    def take(self, rows: IntArray) -> Bounds:
        columns = (self.timestamps, self.closed_at, self.visible_from, self.stored_from, self.counted_from)
        return Bounds(*(column[rows] for column in columns))


@dataclass(frozen=True, slots=True)
class Counted:
    """Updates of counts of sessions: new and old ones, and whether there is such a count."""

    row: IntArray
    start: IntArray
    end: IntArray
    new: IntArray
    has_new: BoolArray
    old: IntArray
    has_old: BoolArray


@dataclass(frozen=True, slots=True)
class Runs:
    """The sessions of the simple keys."""

    is_simple: BoolArray
    """For each key."""
    updates: Counted
    """Of each record: the session that it extends goes, then there is the new one."""
    removed: IntArray
    """The sessions of the store that went away."""
    owner: IntArray
    start: IntArray
    end: IntArray
    count: IntArray
    """The sessions that there are now and are new."""
    dropped: IntArray
    """The rows of records that are too late."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """The one session in the store that each key may go on with."""

    place: IntArray
    """-1 for none."""
    start: IntArray
    end: IntArray
    count: IntArray
    are_several: BoolArray
    """Keys that have more than one."""


def count_runs(groups: Groups, stored: Entries, counts: IntArray, bounds: Bounds, gap: int, replaced: bool) -> Runs:
    """The counts of the sessions of all simple keys.

    Args:
        groups: the records by key.
        stored: the sessions in the store.
        counts: their counts.
        bounds: what decides over each record.
        gap: of the sessions.
        replaced: whether a session that is replaced at its very bounds counts as old value of the new one.
    """
    at, first = bounds.take(groups.order), groups.starts
    time, late = at.timestamps, at.timestamps < at.closed_at
    have = _stored(groups, stored, counts, at, gap)
    before_all, behind_all = int(time.min()) - gap - 1, int(time.max()) + gap + 1
    end = np.maximum(groups.running_max(np.where(late, before_all, time)), have.end[groups.group])
    end_before = np.append(_NEVER, end[:-1])
    end_before[first] = have.end
    is_seen = end_before >= at.visible_from
    goes_on = is_seen & (late | (time <= end_before + gap))
    begins = groups.is_first() | ~(goes_on | late)
    run, run_first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    with_stored = first[goes_on[first]]
    base_start, base_count = np.full(len(run_first), -_NEVER), np.zeros(len(run_first), np.int64)
    base_start[run[with_stored]] = have.start[groups.group[with_stored]]
    base_count[run[with_stored]] = have.count[groups.group[with_stored]]
    start = np.minimum(-groups.running_max(np.where(late, -behind_all, -time), begins), base_start[run])
    start_before = np.append(0, start[:-1])
    start_before[first] = have.start
    end_of_other = np.where(goes_on[run_first], _NEVER, end_before[run_first])[run]

    is_open = is_seen & (end_before >= at.closed_at)
    joins = ~late | (is_open & (time >= start_before))
    wrong = joins & ((time - gap <= end_of_other) | (end < at.stored_from))
    wrong |= ~late & goes_on & (time + gap < start_before)
    wrong |= late & is_open & (time < start_before) & (time + gap >= start_before)
    wrong |= late & (end_of_other >= at.closed_at)
    is_simple = ~have.are_several & (np.add.reduceat(wrong.astype(np.int64), first) == 0)

    joined = np.cumsum(joins)
    joined_in_run: IntArray = joined - (joined - joins)[run_first][run]
    count = joined_in_run + base_count[run]
    simple = is_simple[groups.group]
    chosen = np.flatnonzero(simple & joins)
    last = np.flatnonzero(simple & np.append(begins[1:], True) & (joined_in_run > 0))
    goes = with_stored[is_simple[groups.group[with_stored]] & (np.add.reduceat(joins, run_first)[run[with_stored]] > 0)]
    updates = _updates(groups.order, (start, end, count), (start_before, end_before), goes_on, chosen, replaced)
    removed, dropped = have.place[groups.group[goes]], groups.order[simple & ~joins]
    return Runs(is_simple, updates, removed, groups.group[last], start[last], end[last], count[last], dropped)


def _stored(groups: Groups, stored: Entries, counts: IntArray, at: Bounds, gap: int) -> _Stored:
    count = len(groups)
    earliest = np.minimum.reduceat(at.timestamps, groups.starts) - gap
    matters = stored.first >= np.maximum(earliest, at.visible_from[groups.starts])[stored.row]
    places = np.flatnonzero(matters)
    owner = stored.row[places]
    place = np.full(count, -1, np.int64)
    place[owner] = places
    start, end, number = np.full(count, _NEVER), np.full(count, _NEVER), np.zeros(count, np.int64)
    start[owner], end[owner], number[owner] = stored.second[places], stored.first[places], counts[places]
    return _Stored(place, start, end, number, np.bincount(owner, minlength=count) > 1)


def _updates(
    order: IntArray,
    after: tuple[IntArray, IntArray, IntArray],
    before: tuple[IntArray, IntArray],
    goes_on: BoolArray,
    chosen: IntArray,
    replaced: bool,
) -> Counted:
    """For each chosen record the removal of the session that it extends, then the session that there is."""
    start, end, count = (column[chosen] for column in after)
    start_before, end_before = (column[chosen] for column in before)
    removes = np.flatnonzero(goes_on[chosen] & (start < end))
    row = order[chosen]
    is_replaced = goes_on[chosen] & (start == end) & replaced
    zeros, yes = np.zeros(len(removes), np.int64), np.ones(len(removes), np.bool_)
    return Counted(
        np.concatenate([row[removes], row]),
        np.concatenate([start_before[removes], start]),
        np.concatenate([end_before[removes], end]),
        np.concatenate([zeros, count]),
        np.concatenate([~yes, np.ones(len(row), np.bool_)]),
        np.concatenate([count[removes] - 1, count - 1]),
        np.concatenate([yes, is_replaced]),
    )

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
from penstock.ops.core.groups import Groups
from penstock.state.columns.packed import Entries

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
    """And if it ends before this, that counts as a drop; as in Kafka Streams also where what is to be sent on when it
    closes is kept all the same."""

    def take(self, rows: IntArray) -> Bounds:
        columns = (self.timestamps, self.closed_at, self.visible_from, self.stored_from, self.counted_from)
        return Bounds(*(column[rows] for column in columns))


@dataclass(frozen=True, slots=True)
class Runs:
    """The sessions of the simple keys, record by record.

    The arrays from ``row`` to ``base`` are about the records that join sessions, by key and in order.
    """

    is_simple: BoolArray
    """For each key."""
    row: IntArray
    start: IntArray
    end: IntArray
    goes_on: BoolArray
    """Whether the record joins a session that there is."""
    start_before: IntArray
    end_before: IntArray
    """The bounds of that session."""
    number: IntArray
    """1 for the first of the chunk's records in a session, 2 for the next."""
    base: IntArray
    """The place of the session in the store with which the session began, -1 for none."""
    last: IntArray
    """Which of these records are the last ones of their sessions."""
    owner: IntArray
    """The keys of these."""
    removed: IntArray
    """The sessions of the store that went away."""
    dropped: IntArray
    """The rows of records that are too late."""

    def removes(self) -> IntArray:
        """The records that take a session away, and do not just replace it."""
        return np.flatnonzero(self.goes_on & (self.start < self.end))


@dataclass(frozen=True, slots=True)
class _Stored:
    """The one session in the store that each key may go on with."""

    place: IntArray
    """-1 for none."""
    start: IntArray
    end: IntArray
    are_several: BoolArray
    """Keys that have more than one."""


def runs_of(groups: Groups, stored: Entries, bounds: Bounds, gap: int, keeps_unseen: bool) -> Runs:
    """The sessions of all simple keys.

    Args:
        groups: the records by key.
        stored: the sessions in the store.
        bounds: what decides over each record.
        gap: of the sessions.
        keeps_unseen: whether sessions stay in the store that are not visible any more.
    """
    at, first = bounds.take(groups.order), groups.starts
    time, late = at.timestamps, at.timestamps < at.closed_at
    have = _stored(groups, stored, at, gap)
    before_all, behind_all = int(time.min()) - gap - 1, int(time.max()) + gap + 1
    end = np.maximum(groups.running_max(np.where(late, before_all, time)), have.end[groups.group])
    end_before = np.append(_NEVER, end[:-1])
    end_before[first] = have.end
    is_seen = end_before >= at.visible_from
    goes_on = is_seen & (late | (time <= end_before + gap))
    begins = groups.is_first() | ~(goes_on | late)
    run, run_first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    with_stored = first[goes_on[first]]
    base, base_start = np.full(len(run_first), -1), np.full(len(run_first), -_NEVER)
    base[run[with_stored]] = have.place[groups.group[with_stored]]
    base_start[run[with_stored]] = have.start[groups.group[with_stored]]
    start = np.minimum(-groups.running_max(np.where(late, -behind_all, -time), begins), base_start[run])
    start_before = np.append(0, start[:-1])
    start_before[first] = have.start
    end_of_other = np.where(goes_on[run_first], _NEVER, end_before[run_first])[run]

    is_open = is_seen & (end_before >= at.closed_at)
    joins = ~late | (is_open & (time >= start_before))
    wrong = joins & ((time - gap <= end_of_other) | (end < np.maximum(at.stored_from, at.counted_from)))
    wrong |= ~late & goes_on & (time + gap < start_before)
    wrong |= late & is_open & (time < start_before) & (time + gap >= start_before)
    wrong |= late & (end_of_other >= at.closed_at)
    if keeps_unseen:
        wrong |= joins & (end < at.visible_from)
    is_simple = ~have.are_several & (np.add.reduceat(wrong.astype(np.int64), first) == 0)

    joined = np.cumsum(joins)
    joined_in_run: IntArray = joined - (joined - joins)[run_first][run]
    simple = is_simple[groups.group]
    chosen = np.flatnonzero(simple & joins)
    is_last = np.append(run[chosen][1:] != run[chosen][:-1], True)[: len(chosen)]
    goes = with_stored[is_simple[groups.group[with_stored]] & (np.add.reduceat(joins, run_first)[run[with_stored]] > 0)]
    return Runs(
        is_simple,
        groups.order[chosen],
        start[chosen],
        end[chosen],
        goes_on[chosen],
        start_before[chosen],
        end_before[chosen],
        joined_in_run[chosen],
        base[run[chosen]],
        np.flatnonzero(is_last),
        groups.group[chosen][is_last],
        have.place[groups.group[goes]],
        groups.order[simple & ~joins],
    )


def _stored(groups: Groups, stored: Entries, at: Bounds, gap: int) -> _Stored:
    count = len(groups)
    earliest = np.minimum.reduceat(at.timestamps, groups.starts) - gap
    matters = stored.first >= np.maximum(earliest, at.visible_from[groups.starts])[stored.row]
    places = np.flatnonzero(matters)
    owner = stored.row[places]
    place = np.full(count, -1, np.int64)
    place[owner] = places
    start, end = np.full(count, _NEVER), np.full(count, _NEVER)
    start[owner], end[owner] = stored.second[places], stored.first[places]
    return _Stored(place, start, end, np.bincount(owner, minlength=count) > 1)

"""The rules of KIP-655: finds the duplicates among the records of a chunk, for all ids at once.

For a record with an id and a time t, when stream time has come to S:

    1. Entries with timestamps below the limit, S minus the interval, are purged.
    2. If the id has an entry with timestamp e, the record is a duplicate if t is at least e minus the interval. (t
        cannot be more than the interval after e: S is at least t, so the entry would have been purged.)
    3. Otherwise the record is forwarded, and becomes the id's entry if t is not below the limit.

So an entry does not change until it is purged. Two look-ups in sorted arrays find the id's next entry: the first record
whose limit is above e, and from there the first record that is not late.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray, chained
from penstock.ops.core.groups import Groups
from penstock.state.kinds.deduplication import NEVER, NewestEntries

_FEW = 32


class Records(NamedTuple):
    """Records with ids, in processing order."""

    timestamp: IntArray
    limit: IntArray
    """NewestEntries below this time are purged; it never decreases."""
    offset: IntArray


class Found(NamedTuple):
    """The decisions about a chunk's records."""

    entries: IntArray
    """The records that become entries of their ids."""
    duplicate: BoolArray


def find_duplicates(
    groups: Groups, entries: NewestEntries, records: Records, interval: int, replays: bool = False
) -> Found:
    """Apply the rules to the records of each id (one group), starting from the entries that the ids have.

    With ``replays``, the record that made an entry is no duplicate of it: after a crash the same record arrives again.

    >>> groups = Groups.by_number(np.zeros(3, np.int64))
    >>> seconds = np.array([5, 15, 16])
    >>> none = NewestEntries(np.array([NEVER]), np.array([NEVER]))
    >>> found = find_duplicates(groups, none, Records(seconds, seconds - 10, np.arange(3)), interval=10)
    >>> found.entries.tolist(), found.duplicate.tolist()
    ([0, 2], [False, True, False])
    """
    runs = _Runs(groups, records)
    is_entry = runs.entries(entries)
    timestamp, limit = runs.timestamp, records.limit[groups.order]
    before = np.empty(len(is_entry), np.int64)
    before[:1] = NEVER
    np.maximum.accumulate(np.where(is_entry, np.arange(len(is_entry)), NEVER)[:-1], out=before[1:])
    is_ours = before >= groups.starts[groups.group]
    entry = np.where(is_ours, timestamp[before], entries.timestamps[groups.group])
    duplicate = (entry != NEVER) & (entry >= limit) & (timestamp >= entry - interval)
    if replays:
        offset, made_by = records.offset[groups.order], entries.offsets[groups.group]
        same = np.flatnonzero(duplicate & ~is_ours & (timestamp == entry) & (offset == made_by) & (offset != NEVER))
        _, firsts = np.unique(groups.group[same], return_index=True)
        duplicate[same[firsts]] = False
    return Found(np.sort(groups.order[is_entry]), groups.unsort(duplicate))


class _Runs:
    """The records sorted by id and then in processing order; positions are places in this order."""

    def __init__(self, groups: Groups, records: Records):
        self._groups = groups
        self._limit = records.limit
        self._count = len(groups.order)
        self._place = groups.group * self._count + groups.order  # increases along the groups
        self.timestamp = records.timestamp[groups.order]
        on_time = self.timestamp >= records.limit[groups.order]
        reverse = np.where(on_time, np.arange(self._count), self._count)[::-1]
        self._next_on_time = np.append(np.minimum.accumulate(reverse)[::-1], self._count)

    def entries(self, known: NewestEntries) -> BoolArray:
        """True at the positions whose records become entries."""
        groups, is_entry = self._groups, np.zeros(self._count, np.bool_)
        first = groups.starts.copy()
        has = np.flatnonzero(known.timestamps != NEVER)
        first[has] = self._purged(has, known.timestamps[has])
        at = self._within(np.arange(len(groups)), self._next_on_time[first])
        while len(at) > _FEW:
            is_entry[at] = True
            at = self._within(groups.group[at], self._following(at))
        if len(at):
            is_entry[self._chains(at)] = True
        return is_entry

    def _purged(self, group: IntArray, timestamp: IntArray) -> IntArray:
        """The first positions at which the entries of groups are purged; a position may be past the end of its
        group."""
        row = np.searchsorted(self._limit, timestamp, "right")
        return np.searchsorted(self._place, group * self._count + row)

    def _following(self, at: IntArray) -> IntArray:
        """For entries at positions, the positions of the next entries of their groups; maybe past the end of a
        group."""
        following: IntArray = self._next_on_time[self._purged(self._groups.group[at], self.timestamp[at])]
        return following

    def _within(self, group: IntArray, at: IntArray) -> IntArray:
        """The positions that are still inside their groups."""
        return at[at <= self._groups.ends[group]]

    def _chains(self, at: IntArray) -> IntArray:
        """Follow the entries of a few ids to the end. With a short interval or few ids, an id may have as many entries
        as records."""
        groups = self._groups
        is_asked = np.zeros(len(groups), np.bool_)
        is_asked[groups.group[at]] = True
        asked = np.flatnonzero(is_asked[groups.group])
        found = self._following(asked)
        following = np.full(self._count, self._count)
        following[asked] = np.where(found <= groups.ends[groups.group[asked]], found, self._count)
        return chained(at, following)

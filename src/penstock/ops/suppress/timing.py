"""When a suppression lets go of what it holds: worked out for a whole chunk of updates at once.

An *episode* of a key begins with an update that finds the key not held, and ends when the key is let go of: at the
first record at which stream time has come so far. Updates in between take the place of the ones before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.arrays import Binary, IntArray, chained
from penstock.ops.core.groups import Groups
from penstock.state.kinds.buffer import Entries, in_order

UNLIMITED = 2**63 - 1
NOT_HELD = -1


class Limits(NamedTuple):
    """What a buffer may hold."""

    records: int = UNLIMITED
    nbytes: int = UNLIMITED


class Chunk(NamedTuple):
    """Some updates, by key."""

    keys: Binary
    """The distinct keys."""
    groups: Groups
    """The updates of each key."""
    times: IntArray
    """For each update the time of an entry that it begins."""
    expiry: IntArray
    """For each update the time up to which entries are let go of."""
    held: IntArray
    """For each key the time of its entry from before the chunk, NOT_HELD where there is none."""

    @property
    def size(self) -> int:
        return len(self.times)


class Emissions(NamedTuple):
    """What is let go of, in order."""

    at: IntArray
    """The row of the chunk at which it happens."""
    update: IntArray
    """Which update: a row of the chunk, or, numbered on from these, an entry from before."""
    time: IntArray
    """The time of the entry."""


class Plan(NamedTuple):
    """What becomes of a chunk and of the entries from before."""

    emissions: Emissions
    kept: IntArray
    """The keys that have an entry after the chunk which the chunk wrote."""
    row: IntArray
    """The update that stays, for each of these."""
    time: IntArray
    """The time of each of these entries."""
    begin: IntArray
    """For each row of the chunk the first row of its episode; NOT_HELD if that began before the chunk."""


class Episodes(NamedTuple):
    """Episodes in a chunk."""

    key: IntArray
    since: IntArray
    """The time of the entry."""
    until: IntArray
    """The row at which it ends; the size of the chunk for those that go on."""
    start: IntArray
    """Where its rows begin in the order by key."""
    stop: IntArray
    """Where they end."""
    begin: IntArray
    """Its first row; NOT_HELD if it began before the chunk."""


def plan_of(chunk: Chunk, due: Entries, due_key: IntArray) -> Plan:
    """What becomes of a chunk if there is room for all.

    Args:
        due: the entries from before whose time comes in this chunk.
        due_key: which of the chunk's keys each of them has, -1 for none.
    """
    held = np.flatnonzero(chunk.held != NOT_HELD)
    rows = np.maximum(expiry_of(chunk, chunk.times), np.arange(chunk.size))
    found = episodes_of(chunk, expiry_of(chunk, chunk.held[held]), rows)
    return plan_of_episodes(chunk, found, due, due_key, expiry_of(chunk, due.times))


def expiry_of(chunk: Chunk, times: IntArray) -> IntArray:
    """The rows at which the time of entries comes; the size of the chunk where it does not."""
    return np.searchsorted(chunk.expiry, times)


def plan_of_episodes(chunk: Chunk, found: Episodes, due: Entries, due_key: IntArray, due_at: IntArray) -> Plan:
    """The plan, when the episodes are known.

    Args:
        due: the entries from before that are let go of.
        due_key: which of the chunk's keys each of them has, -1 for none.
        due_at: the row at which each of them without one of these keys is let go of.
    """
    count, order = chunk.size, chunk.groups.order
    begin = np.empty(count, np.int64)
    _fill(begin, order, found.start, found.stop, found.begin)
    due_of = np.full(len(chunk.groups), -1, np.int64)
    due_of[due_key[due_key >= 0]] = np.flatnonzero(due_key >= 0)
    last = order[np.maximum(found.stop, 1) - 1]
    source = np.where(found.stop > found.start, last, count + due_of[found.key])
    ended = found.until < count
    other = np.flatnonzero(due_key < 0)  # of keys that do not occur in the chunk
    at = np.concatenate([due_at[other], found.until[ended]])
    update = np.concatenate([count + other, source[ended]])
    emissions = _in_order(chunk, due, at, update, np.concatenate([due.times[other], found.since[ended]]))
    return Plan(emissions, found.key[~ended], last[~ended], found.since[~ended], begin)


def episodes_of(chunk: Chunk, until_of_held: IntArray, until_of_rows: IntArray) -> Episodes:
    """Those that began before the chunk, then those that begin in it.

    Args:
        until_of_held: the rows at which the entries from before of the chunk's keys end.
        until_of_rows: for each row, where an episode would end that begins there.
    """
    groups, count = chunk.groups, chunk.size
    place = groups.group * count + groups.order  # ascending: where the rows of each key stand

    def stop_of(key: IntArray, until: IntArray) -> IntArray:
        return np.searchsorted(place, key * count + np.minimum(until, count - 1), "right")

    held = np.flatnonzero(chunk.held != NOT_HELD)
    first = groups.starts.copy()
    first[held] = stop_of(held, until_of_held)
    before = Episodes(
        held, chunk.held[held], until_of_held, groups.starts[held], first[held], np.full(len(held), NOT_HELD)
    )

    key, row = groups.group, groups.order
    until = until_of_rows[row]
    stop = stop_of(key, until)
    ends = groups.starts + groups.sizes
    start = chained(first[first < ends], np.where(stop < ends[key], stop, count))
    begun = Episodes(key[start], chunk.times[row][start], until[start], start, stop[start], row[start])
    return Episodes(*(np.concatenate(pair) for pair in zip(before, begun, strict=True)))


def _fill(begin: IntArray, order: IntArray, start: IntArray, stop: IntArray, values: IntArray) -> None:
    """Give the rows of each run of ``order`` a value."""
    length = stop - start
    offsets = np.cumsum(length) - length
    places = np.repeat(start - offsets, length) + np.arange(int(length.sum()))
    begin[order[places]] = np.repeat(values, length)


def _in_order(chunk: Chunk, due: Entries, at: IntArray, update: IntArray, time: IntArray) -> Emissions:
    """Emissions in the order in which they happen: by row, then by the entries' times and the bytes of their keys."""
    group_of = chunk.groups.unsort(chunk.groups.group)
    every = pa.concat_arrays([chunk.keys, due.keys])
    number = np.concatenate([group_of, len(chunk.keys) + np.arange(len(due.times))])
    by_time = in_order(time, every.take(pa.array(number[update])))
    order = by_time[np.argsort(at[by_time], kind="stable")]
    return Emissions(at[order], update[order], time[order])


class Ledger(NamedTuple):
    """How much is held along a chunk: after each update and what it let go of."""

    records: IntArray
    nbytes: IntArray
    recorded_records: IntArray
    """What is recorded for averages: at every update, and again where entries were let go of, by time and by limits
    each, as Kafka Streams has it."""
    recorded_bytes: IntArray

    def first_over(self, limits: Limits) -> int | None:
        """The first row at which there is more than there may be."""
        over = np.flatnonzero((self.records > limits.records) | (self.nbytes > limits.nbytes))
        return int(over[0]) if over.size else None


def ledger_of(chunk: Chunk, plan: Plan, sizes: IntArray, held_sizes: IntArray, records: int, nbytes: int) -> Ledger:
    """The ledger of a plan.

    Args:
        sizes: of all updates: the chunk's rows, then the entries that are due.
        held_sizes: of each key's entry from before.
        records, nbytes: what is held before the chunk.
    """
    count, groups = chunk.size, chunk.groups
    begins = plan.begin == np.arange(count)
    before = np.zeros(count, np.int64)
    before[groups.order[1:]] = sizes[groups.order[:-1]]
    first = groups.order[groups.starts]
    before[first] = held_sizes
    added = sizes[:count] - np.where(begins, 0, before)
    at, gone = plan.emissions.at, sizes[plan.emissions.update]
    is_early = plan.emissions.time > chunk.expiry[at]
    records_gone, bytes_gone = _per_row(at, np.ones(len(at)), count), _per_row(at, gone, count)
    records_early, bytes_early = _per_row(at, is_early, count), _per_row(at, gone * is_early, count)
    after_records = records + np.cumsum(begins - records_gone)
    after_bytes = nbytes + np.cumsum(added - bytes_gone)
    in_time, early = records_gone > records_early, records_early > 0
    return Ledger(
        after_records,
        after_bytes,
        np.concatenate([after_records + records_gone, (after_records + records_early)[in_time], after_records[early]]),
        np.concatenate([after_bytes + bytes_gone, (after_bytes + bytes_early)[in_time], after_bytes[early]]),
    )


def _per_row(at: IntArray, numbers: NDArray[Any], count: int) -> IntArray:
    """The sums of numbers at each row."""
    return np.bincount(at, numbers, minlength=count).astype(np.int64)

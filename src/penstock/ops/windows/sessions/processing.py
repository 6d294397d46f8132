"""Converts a chunk's records to arrays, runs the rules of sessions on them, and computes the aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import Batch
from penstock.columns.column import Column
from penstock.columns.compiled import column, table
from penstock.ops.windows.sessions.fold import Folded, Met, SessionFold
from penstock.ops.windows.sessions.rules import FOUND, PUT, RECORD, SESSION, STRETCH, Sessions, keep, process
from penstock.state.columns.packed import Entries


@dataclass(frozen=True, slots=True)
class Bounds:
    """The time limits for each record of a chunk."""

    timestamps: IntArray
    times: IntArray
    """Stream time at each record, including that record."""
    closed_at: IntArray
    """A session that ends before this time is closed."""
    visible_from: IntArray
    """A session that ends before this time is no longer visible when the record arrives."""
    stored_from: IntArray
    """A session that ends before this time is no longer stored after the record."""
    counted_from: IntArray
    """A session that ends before this time counts as a drop. As in Kafka Streams, it does so even if it is kept until
    it is emitted at its close."""


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """The results for a chunk's records: all updates, and the resulting changes in the store."""

    row: IntArray
    """The row of each update; a removed session comes before the one that replaces it."""
    start: IntArray
    end: IntArray
    new: Column
    old: Column
    fresh: IntArray
    """Rows of records that began a session."""
    gone_row: IntArray
    """The rows at which sessions were removed."""
    gone_start: IntArray
    gone_end: IntArray
    gone: Column
    """The aggregates of the removed sessions."""
    removed: IntArray
    """The places of stored sessions that were removed."""
    entries: Entries
    """The new sessions that exist after the chunk."""
    made_start: IntArray
    """For each record, the session that it makes, or would make if it was not closed."""
    made_end: IntArray
    late: IntArray
    """Rows of records for closed sessions."""
    not_stored: IntArray
    """Rows of records whose sessions are too old for the store."""
    failed: list[tuple[int, BaseException]]
    """Rows of records for which a user function failed."""


class _Processed(NamedTuple):
    """The results of the rules."""

    sessions: Sessions
    puts: Any
    found: Any
    folded: Folded


def process_records(
    fold: SessionFold, gap: int, batch: Batch, owner: IntArray, keys: int, bounds: Bounds, stored: Entries, told: bool
) -> SessionOutcome:
    """Process the records of a chunk.

    Args:
        owner: the number of the key of each record.
        keys: the number of keys.
        stored: the stored sessions, by key, end and start.
        told: True if a session that is replaced within the same bounds is emitted as the old value; Kafka Streams does
            this only with its cache.
    """
    records = table(len(batch), RECORD)
    records["owner"], records["time"], records["closed_at"] = owner, bounds.timestamps, bounds.closed_at
    records["visible_from"], records["stored_from"] = bounds.visible_from, bounds.stored_from
    counts, failed = fold.numbers(stored.data), list[tuple[int, BaseException]]()
    sessions = sessions_of(stored, counts, owner, keys)
    puts, found = table(len(batch), PUT), table(len(stored) + len(batch), FOUND)
    put, used = process(records, sessions, puts, found, gap, 0, 0, 0, True)
    puts, found = puts[:put], found[:used]
    folded = fold.fold_all(_met(puts, found), stored.data, batch)
    if folded is None:
        sessions = sessions_of(stored, counts, owner, keys)
        puts, found, folded = _one_by_one(fold, gap, batch, records, sessions, stored, failed)
    return _outcome(_Processed(sessions, puts, found, folded), records, bounds, stored, told, failed)


def sessions_of(stored: Entries, counts: IntArray, owner: IntArray, keys: int) -> Sessions:
    """The stored sessions, with room for those that records of some keys may begin."""
    have, size = np.bincount(stored.row, minlength=keys), len(stored)
    room = have + np.bincount(owner, minlength=keys)
    stretches, places = table(keys, STRETCH), table(int(room.sum()), SESSION)
    stretches["first"], stretches["length"] = np.cumsum(room) - room, have
    known, number = table(size, SESSION), np.arange(size)
    known["start"], known["end"], known["count"] = stored.second, stored.first, counts
    known["number"], known["seed"] = number, number
    places[number + (stretches["first"] - (np.cumsum(have) - have))[stored.row]] = known
    return Sessions(stretches, places, np.array([size]))


def _met(puts: Any, found: Any) -> Met:
    columns = (column(puts, name) for name in ("record", "found", "stop", "count", "seed"))
    return Met(*columns, *(column(found, name) for name in ("number", "count", "seed")))


def _one_by_one(
    fold: SessionFold,
    gap: int,
    batch: Batch,
    records: Any,
    sessions: Sessions,
    stored: Entries,
    failed: list[tuple[int, BaseException]],
) -> tuple[Any, Any, Folded]:
    """Process records one by one if the function fails or deletes aggregates, which affects the records that follow."""
    puts, found = table(len(batch), PUT), table(len(stored) + len(batch), FOUND)
    keys, values = fold.keys(batch), fold.values(batch)
    aggregates: list[Any] = list(fold.load(stored.data))
    put = used = 0
    for i in range(len(records)):
        more, stop = process(records, sessions, puts, found, gap, put, used, i, False)
        if more == put:
            continue
        try:
            result = fold.fold(keys[i], values[i], [aggregates[n] for n in found["number"][used:stop].tolist()])
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failed.append((i, error))
            continue
        aggregates.append(result)
        puts["is_gone"][put] = result is None
        used = keep(records, sessions, puts, found, gap, put, stop)
        put = more
    puts, found = puts[:put], found[:used]
    new = fold.column(aggregates[len(stored) :])
    return puts, found, Folded(new, fold.column([aggregates[number] for number in found["number"].tolist()]))


def _outcome(
    done: _Processed,
    records: Any,
    bounds: Bounds,
    stored: Entries,
    told: bool,
    failed: list[tuple[int, BaseException]],
) -> SessionOutcome:
    puts, found, folded = done.puts, done.found, done.folded
    row, start, end = (column(puts, name) for name in ("record", "start", "end"))
    place, is_met = column(found, "put"), found["is_unseen"] == 0
    is_replaced = start[place] == end[place]
    goes, replaced = np.flatnonzero(is_met & ~is_replaced), np.flatnonzero(is_met & is_replaced & told)
    is_new = np.repeat([False, True], [len(goes), len(row)])
    before, has_before = np.full(len(row), len(found)), ~is_new
    before[place[replaced]] = replaced
    has_before[len(goes) + place[replaced]] = True
    gone_start, gone_end, number = (column(found, name) for name in ("start", "end", "number"))
    old = folded.found.join([folded.new]) if len(row) else folded.found
    return SessionOutcome(
        np.concatenate([row[place[goes]], row]),
        np.concatenate([gone_start[goes], start]),
        np.concatenate([gone_end[goes], end]),
        folded.new.take(np.concatenate([place[goes], np.arange(len(puts))])).where(is_new),
        old.take(np.concatenate([goes, before])).where(has_before),
        row[puts["found"] == puts["stop"]],
        row[place],
        gone_start,
        gone_end,
        folded.found,
        number[number < len(stored)],
        _entries(done, len(stored)),
        column(records, "start"),
        column(records, "end"),
        np.flatnonzero(records["is_late"]),
        row[end < bounds.counted_from[row]],
        failed,
    )


def _entries(done: _Processed, stored: int) -> Entries:
    """The new sessions that exist after the chunk."""
    stretches, length = done.sessions.keys, done.sessions.keys["length"]
    owner = np.repeat(np.arange(len(stretches)), length)
    place = np.arange(len(owner)) + (stretches["first"] - np.cumsum(length) + length)[owner]
    there = done.sessions.places[place]
    is_new = there["number"] >= stored
    new = there[is_new]
    data = done.folded.new.take(column(new, "number") - stored).encoded()
    return Entries(owner[is_new], column(new, "end"), column(new, "start"), data)

"""What comes of records in sessions, however it was worked out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import reduce
from typing import Any

import numpy as np

from penstock.arrays import IntArray
from penstock.columns import Column
from penstock.ops.session_fold import FoldedMerges, FoldedRuns
from penstock.ops.session_merges import Merges
from penstock.ops.session_runs import Bounds, Runs
from penstock.state.packed import Entries


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of some keys' records: all updates, and what that changes in the store."""

    row: IntArray
    """Of each update; a session that goes comes before the one that takes its place."""
    start: IntArray
    end: IntArray
    new: Column
    old: Column
    fresh: IntArray
    """Rows of records that began a session."""
    gone_row: IntArray
    """The rows at which sessions went away."""
    gone_start: IntArray
    gone_end: IntArray
    gone: Column
    """Their aggregates."""
    removed: IntArray
    """The places of stored sessions that went away."""
    entries: Entries
    """The sessions that there are now and are new."""
    late: IntArray
    """Rows of records for closed sessions."""
    not_stored: IntArray
    """Rows of records whose sessions are too old for the store."""

    @classmethod
    def join(cls, parts: list[Outcome]) -> Outcome:
        """Those of several groups of keys."""
        if len(parts) == 1:
            return parts[0]
        first, rest = parts[0], parts[1:]
        joined: dict[str, Any] = {}
        for field_ in fields(cls):
            own, others = getattr(first, field_.name), [getattr(part, field_.name) for part in rest]
            if isinstance(own, np.ndarray):
                joined[field_.name] = np.concatenate([own, *others])
            elif isinstance(own, Entries):
                joined[field_.name] = reduce(Entries.join, others, own)
            else:
                joined[field_.name] = own.join(others)
        return cls(**joined)


def of_runs(runs: Runs, folded: FoldedRuns, with_replaced: bool) -> Outcome:
    """The outcome of records that only extend sessions."""
    removes, every, last = runs.removes(), np.arange(len(runs.row)), runs.last
    is_replaced = runs.goes_on & (runs.start == runs.end) & with_replaced
    gone, places = np.ones(len(removes), np.bool_), np.concatenate([removes, every])
    went = np.flatnonzero(runs.goes_on)
    return Outcome(
        np.concatenate([runs.row[removes], runs.row]),
        np.concatenate([runs.start_before[removes], runs.start]),
        np.concatenate([runs.end_before[removes], runs.end]),
        folded.new.take(places).where(np.concatenate([~gone, np.ones(len(every), np.bool_)])),
        folded.before.take(places).where(np.concatenate([gone, is_replaced])),
        runs.row[~runs.goes_on],
        runs.row[went],
        runs.start_before[went],
        runs.end_before[went],
        folded.before.take(went),
        runs.removed,
        Entries(runs.owner, runs.end[last], runs.start[last], folded.new.take(last).encoded()),
        runs.dropped,
        np.zeros(0, np.int64),
    )


def of_merges(
    merges: Merges, folded: FoldedMerges, rows: IntArray, owner: IntArray, bounds: Bounds, with_replaced: bool
) -> Outcome:
    """The outcome of records for which it is known at once what sessions they merge.

    Args:
        rows: the row of each record.
        owner: the number of its key.
        bounds: of all rows.
    """
    found, row, every = merges.found, rows[merges.record], np.arange(len(merges.record))
    place = np.searchsorted(merges.record, found.record)
    is_replaced = merges.start[place] == merges.end[place]
    goes, replaced = np.flatnonzero(~is_replaced), np.flatnonzero(is_replaced & with_replaced)
    is_new = np.repeat([False, True], [len(goes), len(row)])
    before, has_before = np.full(len(row), len(found.record)), ~is_new
    before[place[replaced]] = replaced
    has_before[len(goes) + place[replaced]] = True
    begins = np.ones(len(row), np.bool_)
    begins[place] = False
    is_stored = merges.end >= bounds.stored_from[row]
    last = merges.last[is_stored[merges.last]]
    return Outcome(
        np.concatenate([rows[found.record[goes]], row]),
        np.concatenate([found.start[goes], merges.start]),
        np.concatenate([found.end[goes], merges.end]),
        folded.new.take(np.concatenate([place[goes], every])).where(is_new),
        folded.found.join([folded.new]).take(np.concatenate([goes, before])).where(has_before),
        row[begins],
        rows[found.record],
        found.start,
        found.end,
        folded.found,
        merges.removed,
        Entries(owner[merges.record[last]], merges.end[last], merges.start[last], folded.new.take(last).encoded()),
        rows[merges.is_late],
        row[~is_stored & (merges.end < bounds.counted_from[row])],
    )

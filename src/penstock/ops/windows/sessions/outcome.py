"""What comes of records in sessions, however it was worked out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

import numpy as np

from penstock.arrays import IntArray, concat
from penstock.columns import Column
from penstock.ops.windows.sessions.fold import FoldedMerges, FoldedRuns
from penstock.ops.windows.sessions.merges import Merges
from penstock.ops.windows.sessions.runs import Bounds, Runs
from penstock.state.columns.packed import Entries


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


class KeptSessions:
    """The sessions that some keys have, while a chunk changes them in steps.

    Args:
        loaded: those that the store has.
    """

    def __init__(self, loaded: Entries):
        self._known = loaded
        self._loaded = len(loaded)
        self._is_kept = np.ones(len(loaded), np.bool_)
        self._places = np.arange(len(loaded))
        """Where those lie that ``entries`` gave last."""
        self._steps: list[Outcome] = []

    def entries(self) -> Entries:
        """The sessions as they are now."""
        kept = np.flatnonzero(self._is_kept)
        known = self._known
        self._places = kept[np.lexsort((known.second[kept], known.first[kept], known.row[kept]))]
        return known.take(self._places)

    def update(self, step: Outcome) -> None:
        """Take over what came of some records, given these sessions. A session that has the bounds of one that was out
        of sight replaces it."""
        known, new = self._known, step.entries
        self._is_kept[self._places[step.removed]] = False
        self._is_kept = np.append(self._is_kept, np.ones(len(new), np.bool_))
        first, second = np.concatenate([known.first, new.first]), np.concatenate([known.second, new.second])
        self._known = Entries(np.concatenate([known.row, new.row]), first, second, concat([known.data, new.data]))
        kept = np.flatnonzero(self._is_kept)
        kept = kept[np.lexsort((kept, second[kept], first[kept], self._known.row[kept]))]
        columns = (self._known.row[kept], first[kept], second[kept])
        is_replaced = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
        self._is_kept[kept[:-1][is_replaced]] = False
        self._steps.append(step)

    def steps(self) -> list[Outcome]:
        """What came of all steps together."""
        removed, end = np.flatnonzero(~self._is_kept[: self._loaded]), self._loaded
        steps = []
        for step in self._steps:
            kept = np.flatnonzero(self._is_kept[end : end + len(step.entries)])
            end += len(step.entries)
            steps.append(replace(step, removed=removed, entries=step.entries.take(kept)))
            removed = removed[:0]
        return steps


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
        row[merges.end < bounds.counted_from[row]],
    )

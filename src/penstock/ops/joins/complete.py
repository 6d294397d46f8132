"""Joins of versioned tables that also correct past results ('Attempt 2' of KIP-914's text).

A version that is put on one side is valid until the next version of that side begins. In this span the result may
change when the version begins, and whenever a version of the other side begins or ends. Results are emitted at these
points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import Column, null_column
from penstock.columns.rows import Rows
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.joins.joiner import Joiner
from penstock.ops.joins.table_table import Needs
from penstock.ops.joins.version_times import VersionTimes
from penstock.ops.tables.lookup import Lookup
from penstock.ops.tables.table import row_numbers_of
from penstock.state.columns.sorted_index import FOREVER


class JoinedTable(NamedTuple):
    """The look-ups of one side that a complete join needs."""

    now: Lookup
    """The side's values as of any time."""
    before: Lookup
    """The side's values as of any time, before the current record."""
    newest: Lookup
    """The side's latest values."""
    times: VersionTimes


@dataclass(frozen=True, slots=True)
class _Points(Rows):
    """The times at which results may change: for each change ascending, starting with its own time."""

    change: IntArray
    """The number of the change."""
    time: IntArray
    is_end: BoolArray
    """True where the next version of the own side begins; from there on the change has no effect."""
    is_horizon: BoolArray
    """True where the history of the other side begins."""


class CompleteJoinSide(Operator):
    """Takes changes of one side of a join and emits the changes of all results that they affect.

    A deletion is emitted where a previous result disappears, and where a new result ends.

    Args:
        sends_old: True if a later step needs the latest result before each change.
    """

    def __init__(self, joiner: Joiner, own: JoinedTable, other: JoinedTable, needs: Needs, sends_old: bool):
        self._joiner = joiner
        self._own = own
        self._other = other
        self._needs = needs
        self._sends_old = sends_old

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        until = self._own.times.next(batch)
        points, at_points, other = self._look_up(batch, self._points(batch, until))
        has, had = self._results(batch, points, at_points, _present(other))
        opens = np.zeros(len(has), np.bool_)
        opens[1:] = (points.change[1:] == points.change[:-1]) & has[:-1] & ~had[:-1]
        emitted = np.where(points.is_end, opens & ~has, has | had | opens)
        value, fine = self._joiner.join_where(has & emitted & ~points.is_end, at_points, at_points.value, other)
        emitted &= fine
        if not emitted.any():
            return
        is_latest = ~points.is_end & (until[points.change] == FOREVER)
        is_latest[:-1] &= points.change[1:] != points.change[:-1]
        old = self._old(batch, points.change) if self._sends_old and batch.old is not None else None
        latest = None if is_latest[emitted].all() else is_latest
        out.emit(replace(at_points.as_changes(value, points.time, old), latest=latest).keep(emitted))

    def _points(self, changes: Changes, until: IntArray) -> _Points:
        rows = np.arange(len(changes))
        earliest = self._other.times.earliest(changes)
        is_older = changes.timestamp < earliest
        since = replace(changes, timestamp=np.where(is_older, earliest, changes.timestamp))
        others, times = self._other.times.between(since, until)
        horizons = np.flatnonzero(is_older & (earliest < until))
        ends = np.flatnonzero(until < FOREVER)
        kinds = np.repeat([0, 1, 2, 3], [len(rows), len(others), len(horizons), len(ends)])
        points = _Points(
            np.concatenate([rows, others, horizons, ends]),
            np.concatenate([changes.timestamp, times, earliest[horizons], until[ends]]),
            kinds == 3,
            kinds == 2,
        )
        return points.take(np.lexsort((points.time, points.change)))

    def _look_up(self, changes: Changes, points: _Points) -> tuple[_Points, Batch, Column]:
        """Return the points, the changes as records at these points (their numbers are added to their order), and the
        other side's values there. Points where the other side's history begins are kept only if they make a
        difference."""
        records = changes.as_stream().take(points.change)
        records = replace(records, timestamp=points.time, order=(*records.order, np.arange(len(records))))
        other, fine = _values(self._other.now, records)
        is_there = _present(other)
        first = np.searchsorted(points.change, points.change)
        kept = np.flatnonzero(fine & ~(points.is_horizon & (~is_there | is_there[first])))
        if len(kept) < len(fine):
            points, records, other = points.take(kept), records.take(kept), other.take(kept)
        return points, records, other

    def _results(
        self, changes: Changes, points: _Points, at_points: Batch, other: BoolArray
    ) -> tuple[BoolArray, BoolArray]:
        """True for the points with a result, and True for the points that had one before."""
        own = _present(changes.value)[points.change]
        own[points.is_end] = _is_there(self._own.now, at_points.keep(points.is_end))
        own_before = _is_there(self._own.before, _numbered(changes))[points.change]
        other_before = _is_there(self._other.before, _numbered(at_points))
        return self._has_result(own, other), self._has_result(own_before, other_before)

    def _has_result(self, own: BoolArray, other: BoolArray) -> BoolArray:
        has: BoolArray = own | other
        if self._needs.own:
            has = has & own
        return has & other if self._needs.other else has

    def _old(self, changes: Changes, rows: IntArray) -> Column:
        """The latest result before each of these changes."""
        assert changes.old is not None
        newest, _ = _values(self._other.newest, _numbered(changes))
        had = self._has_result(_present(changes.old), _present(newest))
        return self._joiner.join_where(had, changes, changes.old, newest)[0].take(rows)


def _numbered(batch: Batch) -> Batch:
    """Add the records' numbers to the end of their order."""
    return replace(batch, order=(*batch.order, np.arange(len(batch))))


def _values(lookup: Lookup, batch: Batch) -> tuple[Column, BoolArray]:
    """The values that numbered records find, null where a function failed; and True where none failed."""
    found = lookup.find(batch)
    fine = np.ones(len(batch), np.bool_)
    if len(found.batch) == len(batch):
        return found.value, fine
    places = np.full(len(batch), len(found.batch), np.int64)
    kept = np.searchsorted(row_numbers_of(batch), row_numbers_of(found.batch))
    places[kept] = np.arange(len(kept))
    fine = places < len(found.batch)
    return found.value.join([null_column(1, found.value.serde)]).take(places), fine


def _is_there(lookup: Lookup, batch: Batch) -> BoolArray:
    """True for the numbered records that find a value."""
    return _present(_values(lookup, batch)[0])


def _present(column: Column) -> BoolArray:
    """True for values that are not null."""
    mask = column.null_mask()
    return np.ones(len(column), np.bool_) if mask is None else ~mask

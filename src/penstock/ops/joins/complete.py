"""Joins of versioned tables that correct their results of the past ('Attempt 2' of KIP-914's text).

A version of one side that is put at a time is valid until the next one begins. In between the result may be another
one from that time on, and from each time on at which a version of the other side begins or ends. These are the points
at which results are emitted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.batch import Batch, Changes
from penstock.columns import Column, null_column
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.joins.joiner import Joiner
from penstock.ops.joins.table_table import Needs
from penstock.ops.joins.version_times import VersionTimes
from penstock.ops.tables.lookup import Lookup
from penstock.ops.tables.table import row_numbers_of
from penstock.rows import Rows
from penstock.state.columns.sorted_index import FOREVER


class JoinedTable(NamedTuple):
    """What a complete join wants to know of one of its sides."""

    now: Lookup
    """Its values as of any time."""
    before: Lookup
    """Its values as of any time, before the record that is processed."""
    newest: Lookup
    """Its latest values."""
    times: VersionTimes


@dataclass(frozen=True, slots=True)
class _Points(Rows):
    """The times at which results may change: those of each change ascending, beginning with its own time."""

    change: IntArray
    """The number of the change."""
    time: IntArray
    is_end: BoolArray
    """Whether it is where the next version of the own side begins; what is valid from there on does not change."""
    is_horizon: BoolArray
    """Whether it is where the history of the other side begins."""


class CompleteJoinSide(Operator):
    """Changes of one side of a join, as changes of all results that they make other ones.

    A deletion is emitted where there was a result before, and where one that is new ends.

    Args:
        sends_old: whether somebody downstream needs the latest result before each change.
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
        """The points, the changes as records there, which remember their numbers behind their order, and what the
        other side has there; only those where its history begins that make a difference."""
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
        """At which points there is a result, and at which there was one before."""
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
        """The latest result before the change of each of these numbers."""
        assert changes.old is not None
        newest, _ = _values(self._other.newest, _numbered(changes))
        had = self._has_result(_present(changes.old), _present(newest))
        return self._joiner.join_where(had, changes, changes.old, newest)[0].take(rows)


def _numbered(batch: Batch) -> Batch:
    """The records with their numbers behind their order."""
    return replace(batch, order=(*batch.order, np.arange(len(batch))))


def _values(lookup: Lookup, batch: Batch) -> tuple[Column, BoolArray]:
    """The values that numbered records find, null where a function failed; and where none did."""
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
    """For which numbered records a value is found."""
    return _present(_values(lookup, batch)[0])


def _present(column: Column) -> BoolArray:
    """Which values are not null."""
    mask = column.null_mask()
    return np.ones(len(column), np.bool_) if mask is None else ~mask

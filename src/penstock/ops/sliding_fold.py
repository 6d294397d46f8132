"""Folding along a plan of sliding windows, and the keys for which there can be no plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray
from penstock.columns import Column, NumberColumn
from penstock.ops.session_fold import CountSessions, SessionFold
from penstock.ops.sliding_runs import BEGIN, COPY, UPDATE, Plan
from penstock.serdes import INT
from penstock.state.rows import Keys

_MOST_KEYS = 100_000


class Folded(NamedTuple):
    """The aggregates after and before each update, and the last of each window."""

    new: Column
    old: Column
    last: Column
    """Of the windows in ``touched``."""
    timestamps: IntArray
    """Theirs."""
    touched: IntArray


def fold_plan(fold: SessionFold, plan: Plan, stored: Binary, keys: list[Any], values: list[Any]) -> Folded | None:
    """The aggregates of all updates; None when a function failed or took an aggregate away.

    Args:
        stored: the aggregates of the stored windows.
        keys, values: of the records, as the fold wants them.
    """
    last = np.full(len(plan.windows.start), -1)
    last[plan.window] = np.arange(len(plan.window))
    touched = np.flatnonzero(last >= 0)
    last = last[touched]
    if isinstance(fold, CountSessions):
        base, counts = plan.windows.base, fold.numbers(stored)
        begin = np.where(base < 0, 0, counts[base]) if len(counts) else np.zeros(len(base), np.int64)
        count = begin[plan.window] + plan.added
        new_counts, last_counts = NumberColumn(count, INT), NumberColumn(count[last], INT)
        return Folded(new_counts, _counts_before(count, plan), last_counts, plan.timestamp[last], touched)
    new, old = _call(fold, plan, stored, keys, values)
    if len(new) < len(plan.window):
        return None
    last_results = fold.column([new[update] for update in last.tolist()])
    return Folded(fold.column(new), fold.column(old), last_results, plan.timestamp[last], touched)


def _counts_before(count: IntArray, plan: Plan) -> Column:
    there = plan.kind != COPY
    return NumberColumn(np.where(there, count - 1, 0), INT, there)


def _call(
    fold: SessionFold, plan: Plan, stored: Binary, keys: list[Any], values: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Call the user's function for each update, up to the first one that fails or gives nothing."""
    place = plan.windows.place
    before = fold.load(stored.take(pa.array(place, mask=place < 0)))
    current = before if len(before) else [None] * len(place)
    new: list[Any] = []
    old: list[Any] = []
    add, initial = fold.add, fold.initial
    columns = (plan.record.tolist(), plan.window.tolist(), plan.kind.tolist(), plan.source.tolist())
    for record, window, kind, source in zip(*columns, strict=True):
        if kind == COPY:
            was, result = None, old[source]
        else:
            try:
                was = initial() if kind == BEGIN else current[window if kind == UPDATE else source]
                result = add(keys[record], values[record], was)
            except Exception:
                break
        if result is None:
            break
        current[window] = result
        old.append(was)
        new.append(result)
    return new, old


class Disturbed:
    """Which keys had records that were too late for a part of their windows, or windows that were taken away.

    There are gaps among their windows then, until time has gone on so far that these do not matter any more. What was
    before the operator began, and before a rollback, is not known, and taken for disturbed.

    Args:
        difference: of the windows.
    """

    def __init__(self, difference: int):
        self.reach = 6 * (difference + 1)
        """How long it matters at most."""
        self._all_until: int | None = None
        self._until: dict[bytes, int] = {}
        self._seen = -1

    def begin(self, now: int) -> None:
        """The stream time before a chunk."""
        if self._all_until is None or now < self._seen:
            self._all_until = now + self.reach if now >= 0 else -1

    def end(self, now: int, closed_before: int) -> None:
        """The stream time after a chunk, and what has closed: that matters no more."""
        self._seen = now
        if len(self._until) > _MOST_KEYS:
            self._all_until = max(self._until.values())
        self._until = {key: until for key, until in self._until.items() if until > max(closed_before, self.all_until)}

    @property
    def all_until(self) -> int:
        return -1 if self._all_until is None else self._all_until

    def add(self, keys: Binary, times: IntArray) -> None:
        """These keys were disturbed at these times."""
        for key, time in zip(keys.to_pylist(), times.tolist(), strict=True):
            self._until[key] = max(self._until.get(key, -1), time + self.reach)

    def until(self, keys: Keys) -> IntArray:
        """The time up to which each key is disturbed."""
        until = np.full(len(keys), self.all_until)
        if self._until:
            known = pa.array(list(self._until), pa.binary())
            place = pc.index_in(keys.data, known).fill_null(-1).to_numpy().astype(np.int64)
            found = np.flatnonzero(place >= 0)
            until[found] = np.maximum(np.array(list(self._until.values()))[place[found]], until[found])
        return until


def is_early(times: IntArray, difference: int) -> BoolArray:
    """Which records are so near to time 0 that windows would begin before it, or meet such windows."""
    early: BoolArray = times < 8 * (difference + 1)
    return early

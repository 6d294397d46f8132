"""Folding along a plan of sliding windows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, BoolArray, IntArray
from penstock.batch import Batch
from penstock.columns import Column, NumberColumn
from penstock.ops.windows.sessions.fold import CountSessions, SessionFold
from penstock.ops.windows.sliding.plan import BEGIN, COPY, UPDATE, Plan
from penstock.serdes import INT


class Folded(NamedTuple):
    """The aggregates after and before each update, and the last of each window."""

    new: Column
    old: Column
    last: Column
    """Of the windows in ``touched``."""
    timestamps: IntArray
    """Theirs."""
    touched: IntArray


def fold_plan(fold: SessionFold, plan: Plan, stored: Binary, records: Batch, is_kept: BoolArray) -> Folded | None:
    """The aggregates of all updates; None when a function failed or took an aggregate away.

    Args:
        stored: the aggregates of the stored windows.
        is_kept: which updates the store takes.
    """
    last = np.full(len(plan.windows.start), -1)
    kept = np.flatnonzero(is_kept)
    last[plan.window[kept]] = kept
    touched = np.flatnonzero(last >= 0)
    last = last[touched]
    if isinstance(fold, CountSessions):
        counts = fold.numbers(stored)
        begin = np.where(plan.base < 0, 0, counts[plan.base]) if len(counts) else 0
        count = begin + plan.added
        new_counts, last_counts = NumberColumn(count, INT), NumberColumn(count[last], INT)
        return Folded(new_counts, _counts_before(count, plan), last_counts, plan.timestamp[last], touched)
    new, old = _call(fold, plan, stored, records)
    if len(new) < len(plan.window):
        return None
    last_results = fold.column([new[update] for update in last.tolist()])
    return Folded(fold.column(new), fold.column(old), last_results, plan.timestamp[last], touched)


def _counts_before(count: IntArray, plan: Plan) -> Column:
    there = plan.kind != COPY
    return NumberColumn(np.where(there, count - 1, 0), INT, there)


def _call(fold: SessionFold, plan: Plan, stored: Binary, records: Batch) -> tuple[list[Any], list[Any]]:
    """Call the user's function for each update, up to the first one that fails or gives nothing."""
    place = plan.windows.place
    before = fold.load(stored.take(pa.array(place, mask=place < 0)))
    current = before if len(before) else [None] * len(place)
    new: list[Any] = []
    old: list[Any] = []
    add, initial, keys, values = fold.add, fold.initial, fold.keys(records), fold.values(records)
    columns = (plan.record.tolist(), plan.window.tolist(), plan.kind.tolist(), plan.source.tolist())
    for record, window, kind, source in zip(*columns, strict=True):
        if kind == COPY:
            was, result = None, old[source] if source >= 0 else current[-1 - source]
        else:
            try:
                was = initial() if kind == BEGIN else current[window if kind == UPDATE else source]
                result = add(keys[record], values[record], was)
            except KeyboardInterrupt:
                raise
            except BaseException:
                break
        if result is None:
            break
        current[window] = result
        old.append(was)
        new.append(result)
    return new, old

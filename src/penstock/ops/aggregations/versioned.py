"""Aggregations into versioned stores (KIP-914).

A put into a versioned store may be too late, or arrive out of order after a deletion. Then the next record of the key
still finds the previous aggregate. Keys that are safe from this within the chunk are folded all at once. The others are
folded in turns, one record of each key at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import BoolArray, IntArray, binary
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import Column
from penstock.ops.core.context import Context
from penstock.ops.core.fold import Fold, Folded, FoldRows
from penstock.ops.core.groups import Groups
from penstock.ops.tables.versioned_table import written_by
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.versioned.puts import VersionedPuts
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.versioned.timeline import Timeline


class VersionedAggregateStore:
    """Folds rows into the aggregates of a versioned store.

    Args:
        sends_old: True if a later step needs old values.
    """

    def __init__(self, node: str, context: Context, fold: Fold, store: VersionedStore, sends_old: bool):
        self._node = node
        self._context = context
        self._fold = fold
        self._store = store
        self._sends_old = sends_old

    def apply(self, groups: Groups, keys: Keys, rows: FoldRows, result: Batch) -> Changes:
        """Fold rows into the store; ``result`` holds the emitted record of each row, apart from its value."""
        codes = groups.unsort(groups.group)
        folded = self._fold_all(groups, keys, codes, rows)
        kept = np.arange(len(codes)) if folded.kept is None else np.flatnonzero(folded.kept)
        new = folded.new.take(kept)
        times = folded.timestamps[kept]
        puts = VersionedPuts(self._store, keys, codes[kept], times, new.encoded())
        if self._store.name in self._context.facts.looked_up:
            self._context.chunk.note(self._store.name, written_by(puts, result.take(kept)))
        self._context.put(self._store.name, puts, result.take(kept).order)
        old = folded.old.take(kept) if self._sends_old else None
        changes = result.take(kept).as_changes(new, times, old)
        changes = replace(changes, latest=None if puts.is_latest.all() else puts.is_latest)
        if not puts.accepted.all():
            self._context.drop(self._node, changes.position[~puts.accepted], "expired-put")
            changes = changes.keep(puts.accepted)
        return changes

    def _fold_all(self, groups: Groups, keys: Keys, codes: IntArray, rows: FoldRows) -> Folded:
        before = self._store.latest(keys).get()
        straight = self._comes_in_order(groups, keys, before, rows.timestamps)
        if straight.all():
            return self._fold.fold(groups, before, rows)
        parts = []
        if straight.any():
            chosen = np.flatnonzero(straight[codes])
            parts.append(_Part(chosen, self._fold_straight(chosen, codes, before, rows)))
        parts += self._fold_by_turns(np.flatnonzero(~straight[codes]), keys, codes, rows)
        return _joined(parts)

    def _comes_in_order(self, groups: Groups, keys: Keys, before: Values, times: IntArray) -> BoolArray:
        """True for the keys whose every put is certain to be the latest version."""
        ordered = times[groups.order]
        first = ordered[groups.starts]
        now = np.maximum(np.maximum.accumulate(times), self._store.observed_stream_time)
        fine = (times >= now - self._store.retention)[groups.order]
        fine[1:] &= (ordered[1:] >= ordered[:-1]) | groups.is_first()[1:]
        in_order = np.logical_and.reduceat(fine, groups.starts) & (first >= before.timestamps)
        new = np.flatnonzero(in_order & (before.timestamps < 0))
        in_order[new] = ~self._store.older(keys, new, first[new]).exists
        return in_order

    def _fold_straight(self, chosen: IntArray, codes: IntArray, before: Values, rows: FoldRows) -> Folded:
        groups = Groups.by_number(codes[chosen])
        part = Values(before.data.take(pa.array(groups.numbers)), before.timestamps[groups.numbers])
        return self._fold.fold(groups, part, _take(rows, chosen))

    def _fold_by_turns(self, chosen: IntArray, keys: Keys, codes: IntArray, rows: FoldRows) -> list[_Part]:
        """Fold the first row of each key, then the second, and so on."""
        times = rows.timestamps
        now = np.maximum(np.maximum.accumulate(times), self._store.observed_stream_time)
        puts = VersionedPuts(self._store, keys, codes[:0], times[:0], binary([]))
        distinct = np.unique(codes[chosen])
        needed = np.concatenate([times[chosen], np.maximum(puts.latest.timestamps[distinct], 0)])
        timelines = puts.timelines(distinct, np.concatenate([codes[chosen], distinct]), needed)
        groups = Groups.by_number(codes[chosen])
        turn = groups.unsort(groups.running_count())
        parts = []
        for number in range(1, int(turn.max()) + 1):
            rows_now = chosen[turn == number]
            mine = [timelines[code] for code in codes[rows_now].tolist()]
            folded = self._fold.fold(Groups.by_number(np.arange(len(mine))), _latest(mine), _take(rows, rows_now))
            kept = np.ones(len(mine), np.bool_) if folded.kept is None else folded.kept
            fits = kept & (folded.timestamps >= now[rows_now] - self._store.retention)
            results = folded.new.encoded().to_pylist()
            for place in np.flatnonzero(fits).tolist():
                mine[place].put(results[place], int(folded.timestamps[place]))
            parts.append(_Part(rows_now, folded))
        return parts


class _Part(NamedTuple):
    rows: IntArray
    folded: Folded


def _joined(parts: list[_Part]) -> Folded:
    """The results of all parts, in the order of their rows."""
    rows = np.concatenate([part.rows for part in parts])
    back = np.argsort(rows)
    kept = None
    if any(part.folded.kept is not None for part in parts):
        kept = np.concatenate(
            [np.ones(len(rows), np.bool_) if folded.kept is None else folded.kept for rows, folded in parts]
        )[back]
    new, old = _column([part.folded.new for part in parts]), _column([part.folded.old for part in parts])
    times = np.concatenate([part.folded.timestamps for part in parts])
    return Folded(new.take(back), old.take(back), times[back], kept)


def _column(columns: list[Column]) -> Column:
    return columns[0].join(columns[1:]) if len(columns) > 1 else columns[0]


def _take(rows: FoldRows, chosen: IntArray) -> FoldRows:
    subtract = None if rows.subtract is None else rows.subtract.take(chosen)
    picked = chosen.tolist()

    def keys() -> list[object]:
        every = rows.keys()
        return [every[row] for row in picked]

    return FoldRows(keys, rows.add.take(chosen), subtract, rows.timestamps[chosen], rows.batch, rows.source[chosen])


def _latest(timelines: list[Timeline]) -> Values:
    latest = [timeline.latest for timeline in timelines]
    data = binary([None if version is None else version.value for version in latest])
    times = [-1 if version is None else version.valid_from for version in latest]
    return Values(data, np.array(times, np.int64))

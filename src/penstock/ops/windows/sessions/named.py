"""Aggregates by name in sessions, for whole columns of records, and record by record where columns do not go.

Records that come to a session one after the other are a stretch, and all stretches are computed at once. A record that
merges sessions begins a stretch of its own, with what they merge to. It has to wait for the stretches that end there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from penstock.arrays import Binary, BoolArray, IntArray
from penstock.columns.batch import Batch
from penstock.columns.fields import FieldsColumn
from penstock.columns.part import Part, joined
from penstock.ops.core.groups import Groups
from penstock.ops.core.named_columns import Unfit
from penstock.ops.core.named_fold import NamedColumns
from penstock.ops.windows.sessions.fold import Folded, Met, UserSessions
from penstock.plan.aggregates.together import Together

_MOST_WAITS = 100
"""Stretches that wait for more others, one after the other, go record by record."""


class NamedSessions(UserSessions):
    """Folds aggregates by name."""

    def __init__(self, together: Together, *functions: Any, **options: Any):
        super().__init__(*functions, **options)
        self._together = together
        self._columns = NamedColumns(together)

    def fold_all(self, met: Met, stored: Binary, batch: Batch) -> Folded | None:
        if self._columns.is_computed and len(met.record):
            kept = self._columns.serde.decode_all(stored)
            try:
                parts = self._parts(met, kept, batch)
            except KeyboardInterrupt:
                raise
            except BaseException:  # of a user's function, too: record by record shows which one fails
                return super().fold_all(met, stored, batch)
            serde = self._columns.serde
            return Folded(FieldsColumn(tuple(parts), serde), self._columns.either(kept, parts, met.number))
        return super().fold_all(met, stored, batch)

    def _parts(self, met: Met, kept: list[Any], batch: Batch) -> list[Part]:
        """Return the fields after each put."""
        stretches = _stretches_of(met, len(kept))
        done: list[tuple[IntArray, list[Part]]] = []
        aggregates: dict[int, Any] = dict(enumerate(kept))
        for wait in range(int(stretches.waits.max()) + 1):
            rows = np.flatnonzero(stretches.waits == wait)
            groups = Groups.by_number(stretches.number[rows])
            first = rows[groups.order[groups.starts]]
            before = [self._merged(met, put, aggregates) for put in first.tolist()]
            record = met.record[rows]

            def keys(record: IntArray = record) -> list[Any]:
                every = batch.key.decoded()
                return [every[row] for row in record.tolist()]

            parts = self._columns.parts(groups, before, keys, batch.value.take(record))
            ordered = rows[groups.order]
            done.append((ordered, parts))
            self._remember(aggregates, stretches, len(kept), ordered, parts)
        return _assembled(done)

    def _merged(self, met: Met, put: int, aggregates: dict[int, Any]) -> Any:
        """Return what the sessions that a put met merge to; None if it met none."""
        found = [aggregates[number] for number in met.number[met.first[put] : met.stop[put]].tolist()]
        return reduce(lambda one, other: self._together.merge(None, one, other), found, None)

    def _remember(
        self, aggregates: dict[int, Any], stretches: _Stretches, kept: int, puts: IntArray, parts: list[Part]
    ) -> None:
        """Note the aggregates that are merged later."""
        ends = np.flatnonzero(stretches.is_merged[puts])
        column = FieldsColumn(tuple(part.take(ends) for part in parts), self._columns.serde)
        aggregates |= zip((puts[ends] + kept).tolist(), column.decoded(), strict=True)


@dataclass(frozen=True)
class _Stretches:
    """The stretches of puts."""

    number: IntArray
    """The stretch of each put."""
    waits: IntArray
    """For each put, how many stretches have to be computed before its own one, one after the other."""
    is_merged: BoolArray
    """The puts whose sessions other puts merge."""


def _stretches_of(met: Met, kept: int) -> _Stretches:
    """Return the stretches of the puts of a chunk.

    Args:
        kept: the number of stored sessions.
    """
    merges = met.stop - met.first > 1
    groups = Groups.by_number(met.seed)
    number = groups.unsort(np.cumsum(groups.is_first() | merges[groups.order]) - 1)
    waits = np.zeros(int(number.max()) + 1, np.int64)
    is_merged = np.zeros(len(number), np.bool_)
    for put in np.flatnonzero(merges).tolist():
        others = met.number[met.first[put] : met.stop[put]] - kept
        others = others[others >= 0]
        is_merged[others] = True
        waits[number[put]] = waits[number[others]].max(initial=-1) + 1
        if waits[number[put]] > _MOST_WAITS:
            raise Unfit
    return _Stretches(number, waits[number], is_merged)


def _assembled(done: list[tuple[IntArray, list[Part]]]) -> list[Part]:
    """Return fields in the order of the puts.

    Args:
        done: puts, and their fields.
    """
    place = np.argsort(np.concatenate([puts for puts, _ in done]))
    found = []
    for every in zip(*(parts for _, parts in done), strict=True):
        if len({part.values.dtype for part in every}) > 1:
            raise Unfit
        found.append(joined(list(every)).take(place))
    return found

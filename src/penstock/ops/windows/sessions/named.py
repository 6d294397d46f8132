"""Aggregates by name in sessions, for whole columns of records, and record by record where columns do not go.

A record that merges sessions begins a stretch of its own, with what they merge to.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np

from penstock.arrays import Binary
from penstock.columns.batch import Batch
from penstock.columns.fields import FieldsColumn
from penstock.ops.core.groups import Groups
from penstock.ops.core.named_fold import NamedColumns
from penstock.ops.core.named_kept import Kept
from penstock.ops.core.unfit import Unfit
from penstock.ops.windows.in_turn import Known, Stretches, in_turn
from penstock.ops.windows.sessions.fold import Folded, Met, UserSessions
from penstock.plan.aggregates.together import Together

_MOST_WAITS = 100
"""Stretches that wait for more others, one after the other, go record by record."""


class NamedSessions(UserSessions):
    """Folds aggregates by name."""

    def __init__(self, together: Together, *functions: Any, **options: Any):
        super().__init__(*functions, **options)
        self._together = together
        self.columns = NamedColumns(together)
        """Computes them for columns."""

    def fold_all(self, met: Met, stored: Binary, batch: Batch) -> Folded | None:
        columns = self.columns
        if not columns.is_computed:
            return super().fold_all(met, stored, batch)
        kept = columns.serde.decode_all(stored)
        try:
            before = partial(self._merged, met)
            parts = in_turn(columns, _stretches_of(met, len(kept)), met.record, batch, kept, before)
        except KeyboardInterrupt:
            raise
        except BaseException:  # of a user's function, too: record by record shows which one fails
            return super().fold_all(met, stored, batch)
        return Folded(
            FieldsColumn(tuple(parts), columns.serde), columns.either(Kept.of_values(kept), parts, met.number)
        )

    def _merged(self, met: Met, put: int, known: Known) -> Any:
        """Return what the sessions that a put met merge to; None if it met none."""
        found = [known[number] for number in met.number[met.first[put] : met.stop[put]].tolist()]
        return reduce(lambda one, other: self._together.merge(None, one, other), found, None)


def _stretches_of(met: Met, kept: int) -> Stretches:
    """Return the stretches of the puts of a chunk.

    Args:
        kept: the number of stored sessions.
    """
    merges = met.stop - met.first > 1
    groups = Groups.by_number(met.seed)
    number = groups.unsort(np.cumsum(groups.is_first() | merges[groups.order]) - 1)
    waits = np.zeros(len(number) + 1, np.int64)
    is_merged = np.zeros(len(number), np.bool_)
    for put in np.flatnonzero(merges).tolist():
        others = met.number[met.first[put] : met.stop[put]] - kept
        others = others[others >= 0]
        is_merged[others] = True
        waits[number[put]] = waits[number[others]].max(initial=-1) + 1
        if waits[number[put]] > _MOST_WAITS:
            raise Unfit
    return Stretches(number, waits[number], is_merged)

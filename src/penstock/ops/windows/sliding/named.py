"""Aggregates by name in sliding windows, for whole columns of puts."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.arrays import Binary, IntArray
from penstock.columns.batch import Batch
from penstock.columns.column import Column
from penstock.ops.core.named_kept import Kept
from penstock.ops.windows.in_turn import Known, Stretches, in_turn
from penstock.ops.windows.sessions.named import NamedSessions
from penstock.ops.windows.sliding.lineage import follow, stretch
from penstock.ops.windows.sliding.rules import COPY


class NamedPuts:
    """The aggregates of puts.

    Args:
        fold: aggregates by name.
        batch: the records.
        stored: the aggregates of the stored windows.
        windows: the largest number of windows.

    Raises:
        BaseException: a record fails, or columns are not for it.
    """

    def __init__(self, fold: NamedSessions, puts: Any, batch: Batch, stored: Binary, windows: int):
        self._columns = fold.columns
        self._kept = fold.columns.serde.decode_all(stored)
        have, count = len(self._kept), len(puts)
        self._current = np.full(windows + 1, -1)
        self._current[:have] = np.arange(have)
        before, after = np.zeros(count, np.int64), np.zeros(count, np.int64)
        follow(puts, self._current, before, after, have)
        adds = puts["kind"] != COPY
        self._before = np.where(adds, before, -1)
        self._after = after
        if (after < 0).any():
            raise ValueError("a window is copied that has no aggregate")
        self._rows = np.flatnonzero(adds)
        self._place = np.cumsum(adds) - 1
        stretches = _stretches_of(before, adds, have)
        record = puts["record"].astype(np.int64)

        def begin(row: int, known: Known) -> Any:
            first = before[self._rows[row]]
            return None if first < 0 else known[int(self._numbers(first))]

        self._parts = in_turn(
            self._columns,
            Stretches(*(column[self._rows] for column in stretches)),
            record[self._rows],
            batch,
            self._kept,
            begin,
        )

    def new(self) -> Column:
        """Return the aggregates after the puts."""
        return self._of(self._after)

    def old(self) -> Column:
        """Return the aggregates before the puts that add a record."""
        return self._of(self._before)

    def last(self, windows: Any) -> Binary:
        """Return the aggregates of windows in the end."""
        return self._of(self._current[windows["number"]]).encoded()

    def _of(self, number: IntArray) -> Column:
        valid = number >= 0
        source = self._numbers(np.where(valid, number, 0))
        return self._columns.either(Kept.of_values(self._kept), self._parts, source, None if valid.all() else valid)

    def _numbers(self, number: Any) -> Any:
        """Return numbers behind those of stored windows without the puts that add nothing."""
        have = len(self._kept)
        return np.where(number < have, number, have + self._place[np.maximum(number - have, 0)])


def _stretches_of(before: IntArray, adds: Any, stored: int) -> tuple[Any, ...]:
    count = len(before)
    number, waits, is_asked = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
    stretch(before, adds, stored, np.ones(count, np.int64), np.full(count, -1), number, waits, is_asked)
    return number, waits, is_asked

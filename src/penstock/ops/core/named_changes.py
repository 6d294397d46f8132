"""Aggregates by name of grouped tables, for whole columns of changes: old values are taken out, new ones added.

Each change is up to two steps, and each step changes the number of rows in its group by one. A group without rows is
gone, and the next step begins it again. The same holds for a sum whose last number is taken out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import BoolArray, IntArray
from penstock.columns.column import BytesColumn, Column
from penstock.columns.fields import FieldsColumn
from penstock.columns.part import Part
from penstock.ops.core.groups import Groups
from penstock.ops.core.named_columns import EXACT, Given, both, objects, summed, whole
from penstock.ops.core.named_fold import NamedColumns
from penstock.ops.core.named_kept import Kept
from penstock.ops.core.unfit import Unfit
from penstock.plan.aggregates.folding import Averaging, Counting, Folding, Summing
from penstock.plan.aggregates.reading import Reading
from penstock.plan.aggregates.together import ROWS, Together
from penstock.state.columns.rows import Values


@dataclass(frozen=True)
class _Steps:
    """The steps of all changes, by group and then in processing order."""

    groups: Groups
    """The steps, in these groups; groups without a step are left out."""
    of: IntArray
    """The group of the rows that each of these groups is."""
    row: IntArray
    """The place of each step's row in the rows' order by group."""
    is_add: BoolArray
    rows: IntArray
    """How many rows the group has after each step."""

    @property
    def sign(self) -> IntArray:
        return np.where(self.is_add, 1, -1)


@dataclass(frozen=True)
class _Input:
    """Input of an aggregate: its values, and where its groups begin again."""

    given: Given
    steps: _Steps
    restart: BoolArray

    def running(self, values: IntArray, base: Part) -> IntArray:
        """Return the sums of numbers so far."""
        parts, first = _cut(self.given.groups, self.restart)
        before = np.zeros(len(parts), np.int64)
        before[first] = whole(base)
        result: IntArray = before[parts.group] + parts.running_sum(values)
        return result

    def total(self, folding: Folding, base: Part, count: IntArray) -> NDArray[Any]:
        """Return the sums of the values so far, which begin again when no number is left."""
        before, values = both(folding, self.given, base)
        if values.values.dtype == np.float64 and not np.isfinite(values.values).all():
            raise Unfit
        parts, first = _cut(self.given.groups, self.restart | _behind(count == 0))
        start = Part(np.zeros(len(parts), values.values.dtype), np.zeros(len(parts), np.bool_))
        there = np.ones(len(first), np.bool_) if before.present is None else before.present
        start.values[first], start.present[first] = before.values, there  # type: ignore[index]
        return summed(parts, start, Part(values.values * self.steps.sign, values.present)).values


def fold_changes(
    columns: NamedColumns, together: Together, groups: Groups, before: Values, keys: Any, gone: Column, added: Column
) -> tuple[FieldsColumn, FieldsColumn] | None:
    """Return the aggregates after and before each change, in processing order; None if they go one by one."""
    if not all(type(one) in changed.registry for one in together.foldings):
        return None
    kept = Kept.of_data(before.data, columns.serde)
    try:
        have = whole(kept.part(ROWS))
        steps = _steps_of(groups, have, gone, added)
        parts = _parts(columns, together, steps, kept, _Values(groups, steps, keys, gone, added))
    except KeyboardInterrupt:
        raise
    except BaseException:  # of a user's function, too: one by one shows which change fails
        return None
    rows = np.concatenate([have, steps.rows])
    until = np.searchsorted(steps.row, np.arange(len(groups.order)), side="right")
    since = np.searchsorted(steps.row, np.arange(len(groups.order)), side="left")
    begin = since[groups.starts][groups.group]

    def column(stop: IntArray) -> FieldsColumn:
        source = groups.unsort(np.where(stop > begin, len(kept) + stop - 1, groups.group))
        valid = rows[source] > 0
        return columns.either(kept, parts, source, None if valid.all() else valid)

    return column(until), column(since)


def _steps_of(groups: Groups, have: IntArray, gone: Column, added: Column) -> _Steps:
    """Return the steps of changes.

    Raises:
        Unfit: a value would be taken out of a group that is not there.
    """
    there = np.stack([_not_null(gone)[groups.order], _not_null(added)[groups.order]], axis=1)
    place = np.flatnonzero(there)
    row, is_add = place // 2, place % 2 == 1
    of = groups.group[row]
    is_first = np.diff(of, prepend=-1) != 0
    own = Groups(of[is_first], np.arange(len(of)), np.flatnonzero(is_first), np.cumsum(is_first) - 1)
    rows = have[of] + own.running_sum(np.where(is_add, 1, -1))
    if (rows < 0).any():
        raise Unfit
    return _Steps(own, of[is_first], row, is_add, rows)


class _Values:
    """The values that steps take out and add."""

    def __init__(self, groups: Groups, steps: _Steps, keys: Any, gone: Column, added: Column):
        rows = groups.order[steps.row]
        self._keys = keys
        self._count = len(rows)
        self._sides = [
            (is_there, rows[is_there], column.take(rows[is_there]))
            for is_there, column in ((~steps.is_add, gone), (steps.is_add, added))
        ]
        self.trusted = isinstance(gone, BytesColumn) and isinstance(added, BytesColumn)
        """Whether they are known to have their type, as they were read from bytes."""

    def read(self, reading: Reading) -> list[Any]:
        """Return what is read of the value of each step."""
        values = np.empty(self._count, object)
        for is_there, rows, column in self._sides:
            values[is_there] = objects(reading.column(partial(self._keys_of, rows), column.decoded()))
        found: list[Any] = values.tolist()
        return found

    def _keys_of(self, rows: IntArray) -> list[Any]:
        every = self._keys()
        return [every[row] for row in rows.tolist()]


def _parts(columns: NamedColumns, together: Together, steps: _Steps, kept: Kept, values: _Values) -> list[Part]:
    """Return the fields after each step."""
    before = kept.take(steps.of)
    found: dict[str, Part] = {ROWS: Part(steps.rows)}
    for names, reading, folding in columns.each():
        base = [before.part(name) for name in names]
        trusted = values.trusted and reading.function is None
        given = Given(steps.groups, before.existed, base, partial(values.read, reading), None, trusted)
        found |= zip(names, changed(folding, _Input(given, steps, _behind(steps.rows == 0))), strict=True)
    return [found[name] for name, _ in together.fields]


@singledispatch
def changed(folding: Folding, given: _Input) -> tuple[Part, ...]:
    """Return the cells after each step.

    Raises:
        Unfit: the values go one by one.
    """
    raise Unfit


@changed.register
def _(folding: Counting, one: _Input) -> tuple[Part, ...]:
    counted = one.steps.sign if folding.every else one.steps.sign * one.given.there
    return (Part(one.running(counted, one.given.base[0])),)


@changed.register
def _(folding: Summing, one: _Input) -> tuple[Part, ...]:
    count = _numbers_there(one, one.given.base[1])
    return Part(one.total(folding, one.given.base[0], count), count > 0), Part(count)


@changed.register
def _(folding: Averaging, one: _Input) -> tuple[Part, ...]:
    count = _numbers_there(one, one.given.base[2])
    total = one.total(folding, one.given.base[1], count)
    if total.dtype == np.int64 and len(total) and np.abs(total).max() >= EXACT:
        raise Unfit
    return Part(total / np.maximum(count, 1), count > 0), Part(total, count > 0), Part(count)


def _numbers_there(one: _Input, base: Part) -> IntArray:
    """Return how many numbers there are after each step."""
    count = one.running(one.steps.sign * one.given.there, base)
    if (count < 0).any():
        raise Unfit
    return count


def _cut(groups: Groups, restart: BoolArray) -> tuple[Groups, IntArray]:
    """Return groups that are cut in front of some steps, and which of them begin a group."""
    is_first = groups.is_first()
    begins = is_first | restart
    starts = np.flatnonzero(begins)
    cut = Groups(np.arange(len(starts)), groups.order, starts, np.cumsum(begins) - 1)
    return cut, np.flatnonzero(is_first[starts])


def _behind(ends: BoolArray) -> BoolArray:
    """Return the steps behind others."""
    begins = np.zeros(len(ends), np.bool_)
    begins[1:] = ends[:-1]
    return begins


def _not_null(column: Column) -> BoolArray:
    missing = column.null_mask()
    return np.ones(len(column), np.bool_) if missing is None else ~missing

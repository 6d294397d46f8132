"""Folds aggregates by name for whole columns of records, and record by record where columns do not go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from penstock.arrays import BoolArray
from penstock.columns.column import BytesColumn, Column
from penstock.columns.fields import FieldsColumn
from penstock.columns.numbers import Numbers
from penstock.columns.part import Part, joined
from penstock.ops.core.groups import Groups
from penstock.ops.core.named_columns import Given, computed, is_computed, objects
from penstock.plan.aggregates.reading import Reading
from penstock.plan.aggregates.together import Together
from penstock.plan.columns import NUMBERS
from penstock.state.columns.rows import Values


class NamedColumns:
    """Computes aggregates by name for the rows of a chunk."""

    def __init__(self, together: Together):
        self._together = together
        self._serde = together.serde
        self._cells = [
            [name, *(f"{name}__{cell.name}" for cell in folding.cells[1:])]
            for name, folding in zip(together.names, together.foldings, strict=True)
        ]
        self._is_computed = all(is_computed(folding) for folding in together.foldings)
        self._names = [name for name, _ in together.fields]

    def fold(
        self, groups: Groups, before: Values, keys: Any, values: Column
    ) -> tuple[FieldsColumn, FieldsColumn] | None:
        """Return the aggregates after and before each row, in processing order; None if they go record by record."""
        if not self._is_computed:
            return None
        kept = self._serde.decode_all(before.data)
        existed = np.array([one is not None for one in kept], np.bool_)
        try:
            parts = self._computed(groups, kept, existed, keys, values)
        except KeyboardInterrupt:
            raise
        except BaseException:  # of a user's function, too: record by record shows which one fails
            return None
        new = FieldsColumn(tuple(Part(*map(groups.unsort, _masked(part))) for part in parts), self._serde)
        return new, self._before(groups, kept, existed, parts)

    def _computed(self, groups: Groups, kept: list[Any], existed: BoolArray, keys: Any, values: Column) -> list[Part]:
        """Return the fields after each row, in the groups' order."""
        together = self._together
        found: dict[str, Part] = {}
        trusted, numbers = isinstance(values, BytesColumn), _numbers(together, values)
        for names, reading, folding in zip(self._cells, together.readings, together.foldings, strict=True):
            base = [[None if one is None else getattr(one, name) for one in kept] for name in names]
            read = partial(_read, reading, keys, values)
            number = None if reading.number is None else numbers.get(reading.number)
            given = Given(groups, existed, base, read, number, trusted and reading.function is None)
            found |= zip(names, computed(folding, given), strict=True)
        return [found[name] for name in self._names]

    def _before(self, groups: Groups, kept: list[Any], existed: BoolArray, parts: list[Part]) -> FieldsColumn:
        """Return what was there before each row: after the row before it, or in the store."""
        rows = np.arange(len(groups.order))
        source = np.where(groups.is_first(), groups.group, len(kept) + rows - 1)

        def made() -> tuple[Part, ...]:
            every = []
            for name, part in zip(self._names, parts, strict=True):
                stored = objects([None if one is None else getattr(one, name) for one in kept])
                every.append(joined([_alike(stored, part), part]).take(groups.unsort(source)))
            return tuple(every)

        valid = groups.unsort(~groups.is_first() | existed[groups.group])
        return FieldsColumn(made, self._serde, None if valid.all() else valid, len(rows))


def _numbers(together: Together, values: Column) -> Numbers:
    """Return the numbers in the fields of values, if the aggregates need nothing else of them."""
    return values.numbers() if isinstance(values, BytesColumn) and together.reads_columns == NUMBERS else {}


def _read(reading: Reading, keys: Callable[[], list[Any]], values: Column) -> list[Any]:
    return reading.column(keys, values.decoded())


def _masked(part: Part) -> tuple[Any, ...]:
    return (part.values,) if part.present is None else (part.values, part.present)


def _alike(stored: Any, part: Part) -> Part:
    """Return what is stored in the form of a field."""
    if part.values.dtype == object:
        return Part(stored)
    there = np.array([one is not None for one in stored], np.bool_)
    return Part(np.where(there, stored, 0).astype(part.values.dtype), None if there.all() else there)

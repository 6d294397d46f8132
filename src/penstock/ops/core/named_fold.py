"""Folds aggregates by name for whole columns of records, and record by record where columns do not go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.columns.column import BytesColumn, Column
from penstock.columns.fields import FieldsColumn
from penstock.columns.part import Part, joined
from penstock.columns.scanned import Fields
from penstock.ops.core.groups import Groups
from penstock.ops.core.named_columns import Given, computed, is_computed, kinds_of, numbers_of, objects
from penstock.ops.core.named_kept import Kept
from penstock.ops.core.unfit import Unfit
from penstock.plan.aggregates.folding import Folding
from penstock.plan.aggregates.reading import Reading
from penstock.plan.aggregates.together import Together
from penstock.plan.used_columns import FIELDS
from penstock.state.columns.rows import Values


class NamedColumns:
    """Computes aggregates by name for the rows of a chunk."""

    def __init__(self, together: Together):
        self._together = together
        self.serde = together.serde
        self._cells = [
            [name, *(f"{name}__{cell.name}" for cell in folding.cells[1:])]
            for name, folding in zip(together.names, together.foldings, strict=True)
        ]
        self.is_computed = all(is_computed(folding) for folding in together.foldings)
        self._names = [name for name, _ in together.fields]

    def fold(
        self, groups: Groups, before: Values, keys: Any, values: Column
    ) -> tuple[FieldsColumn, FieldsColumn] | None:
        """Return the aggregates after and before each row, in processing order; None if they go record by record."""
        if not self.is_computed:
            return None
        kept = Kept.of_data(before.data, self.serde)
        try:
            parts = self.parts(groups, kept, keys, values)
        except KeyboardInterrupt:
            raise
        except BaseException:  # of a user's function, too: record by record shows which one fails
            return None
        valid = groups.unsort(~groups.is_first() | kept.existed[groups.group])
        source = np.where(groups.is_first(), groups.group, len(kept) - 1 + np.arange(len(groups.order)))
        place = _inverse(groups.order)
        new = FieldsColumn(tuple(part.take(place) for part in parts), self.serde)
        return new, self.either(kept, parts, groups.unsort(source), None if valid.all() else valid)

    def parts(self, groups: Groups, kept: Kept, keys: Any, values: Column) -> list[Part]:
        """Return the fields after each row, in the groups' order.

        Args:
            kept: the aggregates of the groups before their rows.
            keys: returns the key of each row.

        Raises:
            BaseException: a row fails, or columns are not for it.
        """
        together = self._together
        found: dict[str, Part] = {}
        trusted, fields = isinstance(values, BytesColumn), _fields(together, values)
        for names, reading, folding in self.each():
            base = [kept.part(name) for name in names]
            read = partial(_read, reading, keys, values)
            number = None if fields is None or reading.number is None else fields.number(reading.number)
            given = Given(groups, kept.existed, base, read, number, trusted and reading.function is None)
            found |= zip(names, computed(folding, given), strict=True)
        return [found[name] for name in self._names]

    def each(self) -> Iterator[tuple[list[str], Reading, Folding]]:
        """Yield the cells, the reading and the rules of each aggregate."""
        return zip(self._cells, self._together.readings, self._together.foldings, strict=True)

    def either(self, kept: Kept, parts: list[Part], source: IntArray, valid: BoolArray | None = None) -> FieldsColumn:
        """Return aggregates that were kept or, by numbers after these, are of the fields; made when asked for."""

        def made() -> tuple[Part, ...]:
            fields = zip(self._names, parts, strict=True)
            return tuple(_behind(kept.part(name), part).take(source) for name, part in fields)

        return FieldsColumn(made, self.serde, valid, len(source))


def _inverse(order: IntArray) -> IntArray:
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def _fields(together: Together, values: Column) -> Fields | None:
    """Return the fields of values, if the aggregates need nothing but numbers of them."""
    return values.fields() if isinstance(values, BytesColumn) and together.reads_columns == FIELDS else None


def _read(reading: Reading, keys: Callable[[], list[Any]], values: Column) -> list[Any]:
    return reading.column(keys, values.decoded())


def _behind(stored: Part, part: Part) -> Part:
    """Return a field's stored values and its new ones, as numbers if all of them are of the same kind."""
    kind = part.values.dtype
    if stored.values.dtype == kind:
        return joined([stored, part])
    if not kind.hasobject and kinds_of(stored) <= kinds_of(part):
        with suppress(Unfit):  # an int of more than 64 bits
            return joined([numbers_of(stored.listed(), kind), part])
    return joined([Part(objects(stored.listed())), Part(objects(part.listed()))])

"""Several aggregates that are kept together, as one: what is added to, merged and taken out of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.plan.aggregates.folding import Cells, Folding
from penstock.plan.aggregates.reading import Reading
from penstock.plan.used_columns import BOTH, FIELDS, VALUE, Columns
from penstock.serdes import Serde
from penstock.serdes.structs import Fields, StructSerde

ROWS = "rows__count"
"""The number of rows in a group of a table: without any, the group is gone."""


@dataclass(frozen=True, eq=False)
class Together:
    """Aggregates with their names, in order, for values of one type."""

    names: tuple[str, ...]
    readings: tuple[Reading, ...]
    foldings: tuple[Folding, ...]
    retracts: bool

    @cached_property
    def serde(self) -> StructSerde:
        """The type of what is kept."""
        return StructSerde(self.fields)

    def __reduce__(self) -> Any:
        return Together, (self.names, self.readings, self.foldings, self.retracts)

    @property
    def fields(self) -> Fields:
        """The fields of the store: results first, then the rest."""
        found = [(name, folding.cells[0].type) for name, folding in self._named()]
        for name, folding in self._named():
            found += [(f"{name}__{cell.name}", cell.type) for cell in folding.cells[1:]]
        return (*found, (ROWS, int)) if self.retracts else tuple(found)

    @property
    def results(self) -> Fields:
        return self.fields[: len(self.names)]

    @property
    def shown(self) -> str:
        """The aggregates as a user wrote them."""
        return ", ".join(f"{name}={folding.called}" for name, folding in self._named())

    @property
    def reads_columns(self) -> Columns:
        """The columns that its readings use; a key is only for functions."""
        every = zip(self.readings, self.foldings, strict=True)
        if not self.retracts and all(folding.ignores or reading.number is not None for reading, folding in every):
            return FIELDS
        functions = [function for one in self.readings for function in one.functions]
        return BOTH if any(one.arity > 1 for one in functions) else VALUE

    def _named(self) -> list[tuple[str, Folding]]:
        return list(zip(self.names, self.foldings, strict=True))

    def add(self, key: Any, value: Any, kept: Any) -> Any:
        """Add a record."""
        read = [reading.of(key, value) for reading in self.readings]
        if kept is None:
            return self._kept([f.begin(v) for f, v in zip(self.foldings, read, strict=True)], 1)
        cells = [f.add(c, v) for f, c, v in zip(self.foldings, self.cells_of(kept), read, strict=True)]
        return self._kept(cells, getattr(kept, ROWS, 0) + 1)

    def subtract(self, key: Any, value: Any, kept: Any) -> Any:
        """Take a row of a table out; None if it was the only one."""
        if getattr(kept, ROWS) <= 1:
            return None
        read = [reading.of(key, value) for reading in self.readings]
        cells = [f.subtract(c, v) for f, c, v in zip(self.foldings, self.cells_of(kept), read, strict=True)]
        return self._kept(cells, getattr(kept, ROWS) - 1)

    def merge(self, key: Any, one: Any, other: Any) -> Any:
        """Merge two sessions."""
        if one is None or other is None:
            return other if one is None else one
        every = zip(self.foldings, self.cells_of(one), self.cells_of(other), strict=True)
        return self._kept([f.merge(a, b) for f, a, b in every], 0)

    def cells_of(self, kept: Any) -> list[Cells]:
        """Return the cells of each aggregate."""
        return [
            (getattr(kept, name), *(getattr(kept, f"{name}__{cell.name}") for cell in folding.cells[1:]))
            for name, folding in self._named()
        ]

    def _kept(self, cells: list[Cells], rows: int) -> Any:
        rest = [one for each in cells for one in each[1:]]
        return self.serde.type(*(each[0] for each in cells), *rest, *([rows] if self.retracts else []))


@dataclass(frozen=True)
class Narrowing:
    """Makes results of what is kept: a class of the user's, or a Struct without the rest."""

    results: Fields
    into: Serde | None
    make: Any = None

    @cached_property
    def serde(self) -> Serde:
        return StructSerde(self.results) if self.into is None else self.into

    def __call__(self, kept: Any) -> Any:
        return self._class(**{name: getattr(kept, name) for name, _ in self.results})

    @cached_property
    def _class(self) -> Any:
        return self.make or StructSerde(self.results).type

    def __reduce__(self) -> Any:
        return Narrowing, (self.results, self.into, self.make)

"""Rows as columns: one way to take, cut, join and select them, whatever the columns are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import BoolArray, IntArray, concat, is_all
from penstock.columns.column import Column


class Kind(NamedTuple):
    """The kind of a column: its operations on rows."""

    take: Callable[[Any, IntArray], Any]
    slice: Callable[[Any, int, int], Any]
    join: Callable[[list[Any], list[int]], Any]
    """Takes the columns, and the number of rows of each."""
    where: Callable[[BoolArray, Any, Any], Any] | None = None


_ARRAY = Kind(
    take=lambda array, rows: array[rows],
    slice=lambda array, start, stop: array[start:stop],
    join=lambda arrays, counts: np.concatenate(arrays),
    where=np.where,
)
_ARROW = Kind(
    take=lambda array, rows: array.take(pa.array(rows)),
    slice=lambda array, start, stop: array.slice(start, stop - start),
    join=lambda arrays, counts: concat(arrays),
    where=lambda mask, one, other: pc.if_else(pa.array(mask), one, other),
)
_COLUMN = Kind(
    take=lambda column, rows: column.take(rows),
    slice=lambda column, start, stop: column.slice(start, stop),
    join=lambda columns, counts: columns[0].join(columns[1:]),
)
_ROWS = Kind(
    take=lambda nested, rows: nested.take(rows),
    slice=lambda nested, start, stop: nested.slice(start, stop),
    join=lambda nested, counts: nested[0].join(*nested[1:]),
    where=lambda mask, one, other: one.where(mask, other),
)
_SCALAR = Kind(
    take=lambda value, rows: value,
    slice=lambda value, start, stop: value,
    join=lambda values, counts: values[0],
    where=lambda mask, one, other: one,
)


class _Kinds(dict[type, Kind]):
    """The kind of a column by its type, looked up once for each type."""

    def __missing__(self, type_: type) -> Kind:
        kinds = ((np.ndarray, _ARRAY), (pa.Array, _ARROW), (Column, _COLUMN), (Rows, _ROWS))
        self[type_] = next((kind for base, kind in kinds if issubclass(type_, base)), _SCALAR)
        return self[type_]


_KINDS = _Kinds()


class _Plan:
    """The fields of a class of rows, and how its instances are read and created."""

    def __init__(self, cls: Any):
        self.names = [field.name for field in fields(cls)]
        self.read: Callable[[Any], tuple[Any, ...]] = attrgetter(*self.names)
        self.kinds: list[Kind | None] = [field.metadata.get("kind") for field in fields(cls)]
        """None if the column itself tells."""
        self.absent: list[Callable[[int], Any] | None] = [field.metadata.get("absent") for field in fields(cls)]
        self.defaults = [None if field.default is MISSING else field.default for field in fields(cls)]
        self._write = [getattr(cls, name).__set__ for name in self.names]

    def make(self, cls: type[AnyRows], columns: list[Any]) -> AnyRows:
        made = cls.__new__(cls)
        for write, column in zip(self._write, columns, strict=True):  # the setters of slots bypass `frozen`
            write(made, column)
        return made


_plan_of: Callable[[Any], _Plan] = cache(_Plan)


class Rows:
    """Base of frozen dataclasses with slots whose fields are columns with equally many rows.

    A column is a numpy or an Arrow array, a ``Column``, or nested ``Rows``; None if the rows do not have it. Any other
    value holds for all rows. If joined rows differ in such a value, the result has the default of its field.
    """

    __slots__ = ()

    def __len__(self) -> int:
        return len(_plan_of(type(self)).read(self)[0])

    def take(self, rows: IntArray) -> Self:
        """Return the rows of these numbers, in their order."""
        if is_all(rows, len(self)):
            return self
        plan = _plan_of(type(self))
        columns = zip(plan.read(self), plan.kinds, strict=True)
        taken = [None if c is None else (kind or _KINDS[type(c)]).take(c, rows) for c, kind in columns]
        return plan.make(type(self), taken)

    def keep(self, mask: BoolArray) -> Self:
        """Return the rows where the mask is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Self:
        """Return the rows from `start` until before `stop`, without a copy if possible."""
        count = len(self)
        stop = min(stop, count)
        start = min(start, stop)
        if stop - start == count:
            return self
        plan = _plan_of(type(self))
        columns = zip(plan.read(self), plan.kinds, strict=True)
        cut = [None if c is None else (kind or _KINDS[type(c)]).slice(c, start, stop) for c, kind in columns]
        return plan.make(type(self), cut)

    def join(self, *others: Self) -> Self:
        """Return these rows, then the others."""
        return joined(type(self), [self, *others])

    def where(self, mask: BoolArray, others: Self) -> Self:
        """Return these rows where the mask is true, the others elsewhere."""
        plan = _plan_of(type(self))
        pairs = zip(plan.read(self), plan.read(others), strict=True)
        return plan.make(type(self), [_KINDS[type(one)].where(mask, one, other) for one, other in pairs])  # type: ignore[misc]

    def with_columns(self, **columns: Any) -> Self:
        """Return these rows with some columns replaced."""
        plan = _plan_of(type(self))
        own = dict(zip(plan.names, plan.read(self), strict=True))
        return plan.make(type(self), list((own | columns).values()))


AnyRows = TypeVar("AnyRows", bound=Rows)


def of_kind(kind: Kind) -> Mapping[str, Any]:
    """Return field metadata: the columns are of this kind."""
    return {"kind": kind}


def if_absent(column: Callable[[int], Any]) -> Mapping[str, Any]:
    """Return field metadata: the column for rows without it, when they are joined with rows that have it.

    By default, joined rows have only the columns that all of them have.
    """
    return {"absent": column}


def joined(cls: type[AnyRows], parts: Sequence[Rows]) -> AnyRows:
    """Return all rows of some parts, as rows of one class."""
    if len(parts) == 1 and type(parts[0]) is cls:
        return parts[0]
    plan, counts = _plan_of(cls), [len(part) for part in parts]
    every = zip(*(plan.read(part) if type(part) is cls else _read(part, plan.names) for part in parts), strict=True)
    return plan.make(cls, [_joined(plan, number, columns, counts) for number, columns in enumerate(every)])


def joined_column(name: str, parts: Sequence[Rows]) -> Any:
    """Return one column of all rows of some parts."""
    plan = _plan_of(type(parts[0]))
    columns = tuple(getattr(part, name) for part in parts)
    return _joined(plan, plan.names.index(name), columns, [len(part) for part in parts])


def _read(part: Rows, names: list[str]) -> tuple[Any, ...]:
    """Return columns by name, None for those that rows of another class do not have."""
    return tuple(getattr(part, name, None) for name in names)


def _joined(plan: _Plan, number: int, columns: tuple[Any, ...], counts: list[int]) -> Any:
    present = [column for column in columns if column is not None]
    if not present:
        return None
    kind, absent = plan.kinds[number] or _KINDS[type(present[0])], plan.absent[number]
    if kind is _SCALAR:
        return present[0] if all(column == present[0] for column in columns) else plan.defaults[number]
    if len(present) < len(columns):
        if absent is None:
            return None
        present = [absent(n) if column is None else column for column, n in zip(columns, counts, strict=True)]
    return kind.join(present, counts)

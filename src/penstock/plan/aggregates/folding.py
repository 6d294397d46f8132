"""The rules of each aggregate, record by record; columns of records have to give the same.

An aggregate keeps a few cells for each key: first its result, then what else it needs. A value of None is left out, as
in SQL, except by ``First`` and ``Last``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, get_args

import msgspec

from penstock.messages import show

Cells = tuple[Any, ...]
MOST, LEAST = 2**63 - 1, -(2**63)
"""The largest and the smallest sum of whole numbers: those of 64 bits."""
_NUMBERS = frozenset((int, float, Decimal))
_SAY_TYPE = (
    ". Values whose type nothing tells are kept as plain JSON: give the type with a class of values, or as the result "
    "of the function, such as -> datetime or -> Decimal"
)


class Cell(NamedTuple):
    """One thing that an aggregate keeps."""

    name: str
    """Its name behind that of the aggregate; empty for the result."""
    type: Any


@dataclass(frozen=True)
class Folding(ABC):
    """The rules of one aggregate.

    Args:
        called: the aggregate as the user wrote it, for errors.
        type: the type of the values, without None.
        retracts: True for grouped tables, whose rows change.
    """

    called: str
    type: Any
    retracts: bool

    @property
    def ignores(self) -> bool:
        """Whether it ignores the values of records, and only counts these."""
        return False

    @property
    @abstractmethod
    def cells(self) -> tuple[Cell, ...]: ...

    @property
    def start(self) -> Cells:
        """The cells before the first record."""
        return (None,) * len(self.cells)

    def begin(self, value: Any) -> Cells:
        """Return the cells after the first record."""
        return self.add(self.start, value)

    @abstractmethod
    def add(self, cells: Cells, value: Any) -> Cells: ...

    @abstractmethod
    def merge(self, one: Cells, other: Cells) -> Cells:
        """Return the cells of two sessions as one; ``one`` ended first."""

    def subtract(self, cells: Cells, value: Any) -> Cells:
        """Take a value out again."""
        raise AssertionError(f"{self.called} is of streams alone")

    def _checked(self, value: Any) -> Any:
        """Return a value if it is a number that can be added here."""
        if type(value) not in _NUMBERS:
            raise TypeError(f"{self.called} takes numbers; got {show(value)} of type {type(value).__name__}")
        if type(value) is Decimal and Decimal not in (self.type, *get_args(self.type)):
            raise TypeError(f"{self.called} got {show(value)} of type Decimal{_SAY_TYPE}")
        if self.retracts and not math.isfinite(value):
            raise ValueError(f"{self.called}: {value} cannot be taken out of a sum again when its row changes")
        return value

    def _incomparable(self, error: TypeError, kind: Any) -> TypeError:
        """Return the error about values that have no order, and what to do about it."""
        return TypeError(f"{self.called}: {error}{_SAY_TYPE if kind is Any else ''}")

    def _sum(self, one: Any, other: Any) -> Any:
        total = other if one is None else one + other
        if type(total) is int and not LEAST <= total <= MOST:
            raise OverflowError(f"{self.called}: the sum {total} does not fit into 64 bits; sum floats instead")
        return total


@dataclass(frozen=True)
class Counting(Folding):
    """Counts values; with ``every``, None too."""

    every: bool

    @property
    def ignores(self) -> bool:
        return self.every

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (Cell("", int),)

    @property
    def start(self) -> Cells:
        return (0,)

    def add(self, cells: Cells, value: Any) -> Cells:
        return (cells[0] + 1,) if self.every or value is not None else cells

    def merge(self, one: Cells, other: Cells) -> Cells:
        return (one[0] + other[0],)

    def subtract(self, cells: Cells, value: Any) -> Cells:
        return (cells[0] - 1,) if self.every or value is not None else cells


@dataclass(frozen=True)
class Summing(Folding):
    """The sum of numbers; None without any. To know that of tables, their number is kept too."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        total = Cell("", self.type | None)
        return (total, Cell("count", int)) if self.retracts else (total,)

    @property
    def start(self) -> Cells:
        return (None, 0) if self.retracts else (None,)

    def add(self, cells: Cells, value: Any) -> Cells:
        if value is None:
            return cells
        total = self._sum(cells[0], self._checked(value))
        return (total, cells[1] + 1) if self.retracts else (total,)

    def merge(self, one: Cells, other: Cells) -> Cells:
        return one if other[0] is None else (self._sum(one[0], other[0]),)

    def subtract(self, cells: Cells, value: Any) -> Cells:
        if value is None:
            return cells
        total, count = cells
        return (self._sum(total, -value), count - 1) if count > 1 else self.start


@dataclass(frozen=True)
class Averaging(Folding):
    """The mean of numbers; None without any."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        mean = Decimal if self.type is Decimal else float
        return Cell("", mean | None), Cell("sum", self.type | None), Cell("count", int)

    @property
    def start(self) -> Cells:
        return None, None, 0

    def add(self, cells: Cells, value: Any) -> Cells:
        if value is None:
            return cells
        return self._of(self._sum(cells[1], self._checked(value)), cells[2] + 1)

    def merge(self, one: Cells, other: Cells) -> Cells:
        return one if other[1] is None else self._of(self._sum(one[1], other[1]), one[2] + other[2])

    def subtract(self, cells: Cells, value: Any) -> Cells:
        if value is None:
            return cells
        return self._of(self._sum(cells[1], -value), cells[2] - 1) if cells[2] > 1 else self.start

    def _of(self, total: Any, count: int) -> Cells:
        return total / count, total, count


@dataclass(frozen=True)
class Choosing(Folding):
    """The smallest or the largest value. NaN is larger than all numbers, as in Spark and PostgreSQL."""

    largest: bool

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (Cell("", optional(self.type)),)

    def add(self, cells: Cells, value: Any) -> Cells:
        if value is None:
            return cells
        chosen = cells[0]
        if chosen is None:
            return (value,)
        if chosen != chosen:
            return cells if self.largest else (value,)
        if value != value:
            return (value,) if self.largest else cells
        try:
            return (value,) if (value > chosen if self.largest else value < chosen) else cells
        except TypeError as error:
            raise self._incomparable(error, self.type) from None

    def merge(self, one: Cells, other: Cells) -> Cells:
        return self.add(one, other[0])


@dataclass(frozen=True)
class Keeping(Folding):
    """The first or the last value, also if that is None."""

    last: bool

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (Cell("", optional(self.type)),)

    def begin(self, value: Any) -> Cells:
        return (value,)

    def add(self, cells: Cells, value: Any) -> Cells:
        return (value,) if self.last else cells

    def merge(self, one: Cells, other: Cells) -> Cells:
        return other if self.last else one


@dataclass(frozen=True)
class Ranking(Folding):
    """The values with the largest ranks, largest first, and of equal ranks the first; values are pairs of both."""

    count: int
    rank: Any
    """The type of ranks."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        return Cell("", list[optional(self.type)]), Cell("by", list[self.rank])  # type: ignore[misc,name-defined]

    @property
    def start(self) -> Cells:
        return [], []

    def add(self, cells: Cells, value: Any) -> Cells:
        if value is None or value[0] is None:
            return cells
        return self._ranked([*zip(cells[1], cells[0], strict=True), value])

    def merge(self, one: Cells, other: Cells) -> Cells:
        return self._ranked([*zip(one[1], one[0], strict=True), *zip(other[1], other[0], strict=True)])

    def _ranked(self, pairs: list[Any]) -> Cells:
        try:
            best = sorted(pairs, key=_rank, reverse=True)[: self.count]
        except TypeError as error:
            raise self._incomparable(error, self.rank) from None
        return [value for _, value in best], [rank for rank, _ in best]


def _rank(pair: Any) -> Any:
    """Return the rank of a pair, in which NaN is larger than all numbers."""
    is_nan = pair[0] != pair[0]
    return is_nan, 0 if is_nan else pair[0]


@dataclass(frozen=True)
class Collecting(Folding):
    """All values in the order of their records, or as many as there may be; also None."""

    limit: int | None

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (Cell("", list[optional(self.type)]),)  # type: ignore[misc]

    @property
    def start(self) -> Cells:
        return ([],)

    def add(self, cells: Cells, value: Any) -> Cells:
        return ([*cells[0], value],) if self.limit is None or len(cells[0]) < self.limit else cells

    def merge(self, one: Cells, other: Cells) -> Cells:
        return ([*one[0], *other[0]][: self.limit],)

    def subtract(self, cells: Cells, value: Any) -> Cells:
        place = _place_of(value, cells[0])
        return ([*cells[0][:place], *cells[0][place + 1 :]],)


def _place_of(value: Any, values: list[Any]) -> int:
    """Return the place of a value in a list: ``True``, 1 and 1.0 are equal, but not the same; NaN is itself."""
    with suppress(TypeError):  # a value that is not JSON
        text = _text(value)
        for place, one in enumerate(values):
            if _text(one) == text:
                return place
    return values.index(value)


def _text(value: Any) -> bytes:
    """Return what tells apart values that come back from bytes."""
    if type(value) is float:
        return repr(value).encode()
    return msgspec.json.encode(value, order="deterministic")


def optional(kind: Any) -> Any:
    """Return a type with None."""
    return kind if kind is Any else kind | None

"""Aggregates that are about right, of any number of values in little room: sketches of Apache DataSketches.

For each record, a sketch is read from its bytes, takes one value and is written again, also where columns are
computed. So it depends on these bytes and the value alone, and never on how records are cut into chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.errors import ConfigError
from penstock.messages import show
from penstock.plan.aggregates.folding import LEAST, MOST, Cell, Cells, Folding, optional
from penstock.plan.aggregates.named import ANY_NUMBER, Field, NamedAggregate, shown_field

_LOG_SIZE = 12
"""A sketch of distinct values has two to the power of so many registers."""
_EXACTNESS = 200
"""How many centroids a sketch of quantiles has, about half of it."""
_EMPTY_TEXT = "\0"
"""Stands for the empty text, which the library leaves out."""


def _library(aggregate: str) -> Any:
    """Return the library of sketches.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import datasketches
    except ImportError:
        raise ConfigError(f"{aggregate} needs Apache DataSketches: pip install 'penstock-streams[sketches]'") from None
    return datasketches


@dataclass(frozen=True)
class Sketching(Folding):
    """Keeps a result, and the bytes of a sketch; empty without a value."""

    @property
    def start(self) -> Cells:
        return self.nothing, b""

    @property
    def nothing(self) -> Any:
        """The result without a value."""
        return None

    @property
    def result(self) -> type:
        """The type of results."""
        return float


@dataclass(frozen=True)
class Distinguishing(Sketching):
    """The number of different values."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        return Cell("", int), Cell("sketch", bytes)

    @property
    def nothing(self) -> int:
        return 0

    @property
    def result(self) -> type:
        return int

    def add(self, cells: Cells, value: Any) -> Cells:
        if value is None:
            return cells
        library = _library(self.called)
        kind = library.hll_sketch
        sketch = kind.deserialize(cells[1]) if cells[1] else kind(_LOG_SIZE, library.tgt_hll_type.HLL_4)
        sketch.update(_same_for_equal(value))
        return self._of(sketch)

    def merge(self, one: Cells, other: Cells) -> Cells:
        if not one[1] or not other[1]:
            return one if one[1] else other
        library = _library(self.called)
        both = library.hll_union(_LOG_SIZE)
        both.update(library.hll_sketch.deserialize(one[1]))
        both.update(library.hll_sketch.deserialize(other[1]))
        return self._of(both.get_result(library.tgt_hll_type.HLL_4))

    def _of(self, sketch: Any) -> Cells:
        return round(sketch.get_estimate()), sketch.serialize_compact()


def _same_for_equal(value: Any) -> Any:
    """Return the text or number to count for a value: the same for values that are equal."""
    kind = type(value)
    if kind is str:
        return value or _EMPTY_TEXT
    if kind is float and value.is_integer() and LEAST <= value <= MOST:
        return int(value)
    if kind is float or (kind is int and LEAST <= value <= MOST):
        return value
    return msgspec.json.encode(value, order="deterministic").decode()


@dataclass(frozen=True)
class Dividing(Sketching):
    """The value below which a share of all numbers is."""

    share: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        return Cell("", optional(float)), Cell("sketch", bytes)

    def add(self, cells: Cells, value: Any) -> Cells:
        if value is None:
            return cells
        number = float(self._checked(value))
        if not math.isfinite(number):
            raise ValueError(f"{self.called} takes finite numbers; got {value}")
        kind = _library(self.called).tdigest_double
        sketch = kind.deserialize(cells[1]) if cells[1] else kind(_EXACTNESS)
        sketch.update(number)
        return self._of(sketch)

    def merge(self, one: Cells, other: Cells) -> Cells:
        if not one[1] or not other[1]:
            return one if one[1] else other
        kind = _library(self.called).tdigest_double
        both = kind.deserialize(one[1])
        both.merge(kind.deserialize(other[1]))
        return self._of(both)

    def _of(self, sketch: Any) -> Cells:
        return sketch.get_quantile(self.share), sketch.serialize()


class ApproxDistinct(NamedAggregate):
    """An estimate of the number of different values, without None: exact up to some hundred values, then mostly within
    2 %.

    It keeps up to 2 KB for each key and window, however many values there are. It needs ``penstock-streams[sketches]``.

    >>> from penstock.testing import pipe
    >>> users = [("a", "ann"), ("a", "bob"), ("a", "ann")]
    >>> pipe(lambda stream: stream.group_by_key().aggregate(users=ApproxDistinct()), users)
    [('a', Aggregates(users=1)), ('a', Aggregates(users=2)), ('a', Aggregates(users=2))]
    """

    def folding(self, kind: Any, retracts: bool) -> Folding:
        _library(repr(self))
        return Distinguishing(repr(self), kind, retracts)


class ApproxQuantile(NamedAggregate):
    """An estimate of the value below which a share of all numbers is, such as 0.99 of them; None without a number.

    The result is best near 0 and 1: for a share of 0.99 the error is mostly at most 0.001 of the share, for 0.5 at most
    0.02. It keeps up to 4 KB for each key and window, however many numbers there are. It needs
    ``penstock-streams[sketches]``.

    Args:
        field: the field, or a function of (value) or (key, value); by default the value itself.
        share: the share of the numbers, from 0 to 1.

    >>> from penstock.testing import pipe
    >>> delays = [("a", 2), ("a", 5), ("a", 3)]
    >>> pipe(lambda stream: stream.group_by_key().aggregate(most=ApproxQuantile(share=1.0)), delays)
    [('a', Aggregates(most=2.0)), ('a', Aggregates(most=5.0)), ('a', Aggregates(most=5.0))]
    """

    needs, takes = "numbers", (int, float)

    def __init__(self, field: Field = None, share: float = 0.5):
        if isinstance(field, int | float):
            raise ConfigError(
                f"ApproxQuantile takes a field before the share; for {field} of the values themselves "
                f"write ApproxQuantile(share={field})"
            )
        super().__init__(field)
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise ConfigError(f"ApproxQuantile: share takes a number from 0 to 1; got {show(share)}")
        self.share = share

    def __repr__(self) -> str:
        return f"ApproxQuantile({'share=' if self.field is None else f'{shown_field(self.field)}, '}{self.share})"

    def folding(self, kind: Any, retracts: bool) -> Folding:
        _library(repr(self))
        return Dividing(repr(self), ANY_NUMBER if kind is Any else kind, retracts, self.share)

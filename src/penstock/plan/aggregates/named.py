"""The aggregates that users name: ``aggregate(orders=Count(), total=Sum("amount"))``."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar, get_args

from penstock.errors import ConfigError, TopologyError
from penstock.messages import show
from penstock.plan.aggregates.folding import (
    Averaging,
    Choosing,
    Collecting,
    Counting,
    Folding,
    Keeping,
    Ranking,
    Summing,
)
from penstock.plan.aggregates.reading import RankedReading, Reading, reading_of, shown_type
from penstock.serdes import Serde
from penstock.usage.java_names import KafkaNames

Field = str | Callable[..., Any] | None
_NUMBERS = (int, float, Decimal)
_ORDERED = (*_NUMBERS, str, datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
ANY_NUMBER = int | float


class NamedAggregate(KafkaNames):
    """An aggregate that has a name in the result of ``aggregate``.

    Args:
        field: the part of each record to aggregate: the name of a field, such as ``"amount"`` or ``"payload.amount"``,
            or a function of (value) or (key, value). By default the value itself.

    >>> Sum("amount"), Count()
    (Sum('amount'), Count())
    """

    needs: ClassVar[str] = ""
    """Its kind of values, for errors; empty if any value will do."""
    takes: ClassVar[tuple[type, ...]] = ()
    """The types that they may have."""
    way_out: ClassVar[str] = "keep all values of a group, as Collect() does without a limit"
    """Advice for grouped tables."""

    retracts: bool = False
    """Whether it can take a value out again, when a row of a table changes."""

    def __init__(self, field: Field = None):
        self.field = field

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.field is None else shown_field(self.field)})"

    def bound(self, value: Serde, where: str, retracts: bool) -> tuple[Reading, Folding]:
        """Return its reading of values of a type, and its rules.

        Raises:
            TopologyError: it does not fit the type.
        """
        if retracts and not self.retracts:
            raise TopologyError(
                f"aggregate at {where}: {self!r} cannot subtract a row, and rows of a table change; {self.way_out}"
            )
        reading = reading_of(self.field, repr(self), value, where)
        self._check(reading, where)
        return reading, self.folding(reading.type, retracts)

    def _check(self, reading: Reading, where: str) -> None:
        """Refuse a reading of another type."""
        every = get_args(reading.type) if isinstance(reading.type, type(ANY_NUMBER)) else (reading.type,)
        if self.takes and not all(one is Any or one in self.takes for one in every):
            raise TopologyError(
                f"aggregate at {where}: {self!r} takes {self.needs}; got values of type {shown_type(reading.type)}"
            )

    @abstractmethod
    def folding(self, kind: Any, retracts: bool) -> Folding:
        """Return its rules for values of a type."""


class Count(NamedAggregate):
    """The number of records, or the number of records whose field is not None.

    >>> from penstock.testing import pipe
    >>> count = {"orders": Count(), "paid": Count("amount")}
    >>> pipe(lambda stream: stream.group_by_key().aggregate(**count), [("a", {"amount": 5}), ("a", {"amount": None})])
    [('a', Aggregates(orders=1, paid=1)), ('a', Aggregates(orders=2, paid=1))]
    """

    retracts = True

    def folding(self, kind: Any, retracts: bool) -> Folding:
        return Counting(repr(self), kind, retracts, every=self.field is None)


class Sum(NamedAggregate):
    """The sum of numbers without None; None if there is no number.

    If a sum of whole numbers does not fit into 64 bits, the record fails.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.group_by_key().aggregate(total=Sum()), [("a", 2), ("a", 5), ("a", 3)])
    [('a', Aggregates(total=2)), ('a', Aggregates(total=7)), ('a', Aggregates(total=10))]
    """

    needs, takes, retracts = "numbers", _NUMBERS, True

    def folding(self, kind: Any, retracts: bool) -> Folding:
        return Summing(repr(self), ANY_NUMBER if kind is Any else kind, retracts)


class Mean(NamedAggregate):
    """The mean of numbers without None; None if there is no number.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.group_by_key().aggregate(mean=Mean()), [("a", 2), ("a", 5), ("a", 3)])
    [('a', Aggregates(mean=2.0)), ('a', Aggregates(mean=3.5)), ('a', Aggregates(mean=3.3333333333333335))]
    """

    needs, takes, retracts = "numbers", _NUMBERS, True

    def folding(self, kind: Any, retracts: bool) -> Folding:
        return Averaging(repr(self), ANY_NUMBER if kind is Any else kind, retracts)


class Min(NamedAggregate):
    """The smallest value without None; None if there is no other. NaN is larger than all numbers.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.group_by_key().aggregate(least=Min()), [("a", 2), ("a", 5), ("a", 3)])
    [('a', Aggregates(least=2)), ('a', Aggregates(least=2)), ('a', Aggregates(least=2))]
    """

    needs, takes = "numbers, text or times", _ORDERED

    def folding(self, kind: Any, retracts: bool) -> Folding:
        return Choosing(repr(self), kind, retracts, largest=False)


class Max(NamedAggregate):
    """The largest value without None; None if there is no other. NaN is larger than all numbers.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.group_by_key().aggregate(most=Max()), [("a", 2), ("a", 5), ("a", 3)])
    [('a', Aggregates(most=2)), ('a', Aggregates(most=5)), ('a', Aggregates(most=5))]
    """

    needs, takes = "numbers, text or times", _ORDERED

    def folding(self, kind: Any, retracts: bool) -> Folding:
        return Choosing(repr(self), kind, retracts, largest=True)


class First(NamedAggregate):
    """The value of the record that came first, even if it is None. If sessions merge, the value of the earliest
    session.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.group_by_key().aggregate(first=First()), [("a", 2), ("a", 5), ("a", 3)])
    [('a', Aggregates(first=2)), ('a', Aggregates(first=2)), ('a', Aggregates(first=2))]
    """

    def folding(self, kind: Any, retracts: bool) -> Folding:
        return Keeping(repr(self), kind, retracts, last=False)


class Last(NamedAggregate):
    """The value of the record that came last, even if it is None. If sessions merge, the value of the latest session.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.group_by_key().aggregate(last=Last()), [("a", 2), ("a", 5), ("a", 3)])
    [('a', Aggregates(last=2)), ('a', Aggregates(last=5)), ('a', Aggregates(last=3))]
    """

    def folding(self, kind: Any, retracts: bool) -> Folding:
        return Keeping(repr(self), kind, retracts, last=True)


class TopN(NamedAggregate):
    """The records with the largest values of a field, largest first. Of equal ones, the records that came first.

    Args:
        count: how many.
        by: the field, or a function of (value) or (key, value); records in which it is None are left out.
        field: the part of each record to keep; by default its value.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.group_by_key().aggregate(top=TopN(2)), [("a", 2), ("a", 5), ("a", 3)])
    [('a', Aggregates(top=[2])), ('a', Aggregates(top=[5, 2])), ('a', Aggregates(top=[5, 3]))]
    """

    needs, takes = "numbers, text or times to rank by", _ORDERED

    def __init__(self, count: int, by: Field = None, field: Field = None):
        super().__init__(field)
        self.count = _positive("TopN", "count", count)
        self.by = by

    def __repr__(self) -> str:
        by = "" if self.by is None else f", by={shown_field(self.by)}"
        return f"TopN({self.count}{by}{'' if self.field is None else f', field={shown_field(self.field)}'})"

    def bound(self, value: Serde, where: str, retracts: bool) -> tuple[Reading, Folding]:
        kept, _ = super().bound(value, where, retracts)
        rank = reading_of(self.by, repr(self), value, where)
        super()._check(rank, where)
        reading = RankedReading(kept.path, kept.function, kept.type, rank)
        return reading, Ranking(repr(self), kept.type, retracts, self.count, rank.type)

    def _check(self, reading: Reading, where: str) -> None:
        """Take values of any type."""

    def folding(self, kind: Any, retracts: bool) -> Folding:
        return Ranking(repr(self), kind, retracts, self.count, Any)


class Collect(NamedAggregate):
    """The values of all records in their order, including None; with a limit, the values of the first records.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.group_by_key().aggregate(all=Collect(limit=2)), [("a", 2), ("a", 5), ("a", 3)])
    [('a', Aggregates(all=[2])), ('a', Aggregates(all=[2, 5])), ('a', Aggregates(all=[2, 5]))]
    """

    way_out = "remove the limit, without which a list knows all values of its group"

    def __init__(self, field: Field = None, limit: int | None = None):
        super().__init__(field)
        self.limit = None if limit is None else _positive("Collect", "limit", limit)
        self.retracts = limit is None

    def __repr__(self) -> str:
        given = [] if self.field is None else [shown_field(self.field)]
        return f"Collect({', '.join([*given, *([] if self.limit is None else [f'limit={self.limit}'])])})"

    def folding(self, kind: Any, retracts: bool) -> Folding:
        return Collecting(repr(self), kind, retracts, self.limit)


def shown_field(field: Field) -> str:
    return str(getattr(field, "__name__", "<function>")) if callable(field) else repr(field)


def _positive(name: str, argument: str, given: Any) -> int:
    """Return a number of values.

    Raises:
        ConfigError: it is none.
    """
    if type(given) is not int or given < 1:
        raise ConfigError(f"{name}: {argument} takes a whole number from 1 on; got {show(given)}")
    return given

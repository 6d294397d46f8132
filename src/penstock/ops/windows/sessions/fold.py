"""Folding values into the aggregates of sessions, which may merge.

For each record, the aggregates of the sessions that it joins are merged into the initial aggregate, in the order of the
sessions' ends. Then the record's value is added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import Binary, IntArray
from penstock.columns.batch import Batch
from penstock.columns.column import Column, NumberColumn
from penstock.figures.moving import moving
from penstock.ops.core.failures import blame
from penstock.ops.core.fold import Keeper
from penstock.ops.core.record_context import Told
from penstock.plan.functions import UserFunction
from penstock.serdes import INT, Serde


class Met(NamedTuple):
    """The sessions that records put, and the sessions that they met. A met session has the number of a stored session
    or, after these, of a put."""

    record: IntArray
    first: IntArray
    """The index of the first session that each put met, and at last the end; met sessions are ordered by end."""
    stop: IntArray
    counts: IntArray
    """The number of records in each session."""
    seed: IntArray
    """The number of the session that each session began with."""
    number: IntArray
    """The number of each met session, in order."""
    met_count: IntArray
    met_seed: IntArray


class Folded(NamedTuple):
    """The aggregates of sessions."""

    new: Column
    """The aggregate after each put."""
    found: Column
    """The aggregate of each met session."""


class SessionFold(ABC):
    """Combines the values of a session into one aggregate, record by record."""

    function: UserFunction | None = None
    """The user's function, for errors."""
    serde: Serde | None = None
    """The type of the function's results."""

    @abstractmethod
    def initial(self) -> Any:
        """Return the initial aggregate, or None."""

    @abstractmethod
    def add(self, key: Any, value: Any, aggregate: Any) -> Any:
        """Return the aggregate with one more value."""

    @abstractmethod
    def fold(self, key: Any, value: Any, found: list[Any]) -> Any:
        """Return the aggregate of a record and the sessions that it joins; all in the form kept during the loop."""

    @abstractmethod
    def fold_all(self, met: Met, stored: Binary, batch: Batch) -> Folded | None:
        """Compute all aggregates; None if a function failed or deleted an aggregate.

        Args:
            stored: the aggregates of the stored sessions.
        """

    def numbers(self, data: Binary) -> IntArray:
        """The number of records in each stored session, if known."""
        return np.zeros(len(data), np.int64)

    @abstractmethod
    def keys(self, batch: Batch) -> Sequence[Any]:
        """The keys as ``fold`` and ``add`` take them. A record's key is read right before these are called."""

    @abstractmethod
    def values(self, batch: Batch) -> Sequence[Any]:
        """The values as ``fold`` takes them."""

    @abstractmethod
    def load(self, data: Binary) -> list[Any]:
        """Turn aggregates from the store into the form kept during the loop."""

    @abstractmethod
    def column(self, results: list[Any]) -> Column:
        """Turn aggregates into a column."""


class CountSessions(SessionFold):
    """Counts the records of a session."""

    def initial(self) -> int:
        return 0

    def add(self, key: Any, value: Any, aggregate: int) -> int:
        return aggregate + 1

    def fold(self, key: Any, value: Any, found: list[int]) -> int:
        return sum(found) + 1

    def fold_all(self, met: Met, stored: Binary, batch: Batch) -> Folded:
        return Folded(NumberColumn(met.counts, INT), NumberColumn(met.met_count, INT))

    def keys(self, batch: Batch) -> Sequence[Any]:
        return range(len(batch))

    def values(self, batch: Batch) -> Sequence[Any]:
        return range(len(batch))

    def load(self, data: Binary) -> list[Any]:
        return INT.decode_all(data)

    def numbers(self, data: Binary) -> IntArray:
        return INT.decode_numbers(data)[0]

    def column(self, results: list[Any]) -> Column:
        valid = np.array([result is not None for result in results], np.bool_)
        return NumberColumn(np.array([result or 0 for result in results], np.int64), INT, valid)


class UserSessions(SessionFold):
    """Folds with user functions of (), (key, value, aggregate) and (key, one aggregate, other aggregate)."""

    def __init__(
        self,
        serde: Serde,
        initialize: Callable[[], Any],
        add: Callable[[Any, Any, Any], Any],
        merge: Callable[[Any, Any, Any], Any],
        function: UserFunction | None,
        merger: UserFunction | None = None,
        told: Told | None = None,
    ):
        self.serde = serde
        self._keeper = Keeper(serde, careful=True)
        self._initialize = initialize
        self._add = add
        self._merge = merge
        self.function = function
        self._merger = merger or function
        self._told = told

    def initial(self) -> Any:
        initial = self._initialize()
        return None if initial is None else self._keeper.write(initial)

    def add(self, key: Any, value: Any, aggregate: Any) -> Any:
        result = self._add(key, value, None if aggregate is None else self._keeper.read(aggregate))
        return None if result is None else self._keeper.write(result)

    def fold(self, key: Any, value: Any, found: list[Any]) -> Any:
        aggregate = self._initialize()
        try:
            for other in found:
                aggregate = self._merge(key, aggregate, self._keeper.read(other))
        except BaseException as error:
            blame(error, self._merger)
            raise
        result = self._add(key, value, aggregate)
        return None if result is None else self._keeper.write(result)

    def fold_all(self, met: Met, stored: Binary, batch: Batch) -> Folded | None:
        aggregates = moving.through(list(self.load(stored)))
        size, keys, values, fold = len(aggregates), self.keys(batch), self.values(batch), self.fold
        columns = (met.record.tolist(), met.first.tolist(), met.stop.tolist())
        of_met = met.number.tolist()
        for record, first, stop in zip(*columns, strict=True):
            try:
                result = fold(keys[record], values[record], [aggregates[number] for number in of_met[first:stop]])
            except KeyboardInterrupt:
                raise
            except BaseException:
                return None
            if result is None:
                return None
            aggregates.append(result)
        return Folded(self.column(aggregates[size:]), self.column([aggregates[number] for number in of_met]))

    def keys(self, batch: Batch) -> Sequence[Any]:
        keys = batch.key.decoded()
        return keys if self._told is None else self._told.along(keys, batch)

    def values(self, batch: Batch) -> Sequence[Any]:
        return batch.value.decoded()

    def load(self, data: Binary) -> list[Any]:
        return self._keeper.load(data)

    def column(self, results: list[Any]) -> Column:
        return self._keeper.column(results)

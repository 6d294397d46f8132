"""Folding values into the aggregates of sessions, which may merge.

For each record the aggregates of the sessions it joins are merged into what the initializer gives, in the order of the
sessions' ends, and then the record's value is added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray
from penstock.batch import Batch
from penstock.columns import Column, NumberColumn
from penstock.ops.core.failures import blame
from penstock.ops.core.fold import Keeper
from penstock.ops.windows.sessions.merges import Merges
from penstock.ops.windows.sessions.runs import Runs
from penstock.plan.functions import UserFunction
from penstock.plan.nodes import Aggregation
from penstock.serdes import INT, Serde


class FoldedRuns(NamedTuple):
    """The aggregates of the sessions that records join, in the order of the runs."""

    new: Column
    before: Column
    """Without the record; meaningless where the record begins the session."""


class FoldedMerges(NamedTuple):
    """The aggregates of sessions that merge."""

    new: Column
    """With each record that is not late."""
    found: Column
    """Of the sessions that these meet."""


class SessionFold(ABC):
    """How the values of a session become one, record by record."""

    function: UserFunction | None = None
    """The user's function, for errors."""
    merges_at_once: ClassVar[bool] = True
    """Whether no function has to be called to merge sessions."""

    @abstractmethod
    def initial(self) -> Any:
        """What an aggregate begins with, None for nothing."""

    @abstractmethod
    def add(self, key: Any, value: Any, aggregate: Any) -> Any:
        """The aggregate with one more value."""

    @abstractmethod
    def fold(self, key: Any, value: Any, found: list[Any]) -> Any:
        """The aggregate of a record and the sessions it joins; all as they are kept while a loop runs."""

    @abstractmethod
    def along(self, runs: Runs, stored: Binary, batch: Batch) -> FoldedRuns | None:
        """The aggregates along runs of records; None when a function failed or took an aggregate away.

        Args:
            stored: the aggregates of the stored sessions.
        """

    def numbers(self, data: Binary) -> IntArray:
        """How many records went into sessions out of the store, where no user's function merges them."""
        raise NotImplementedError

    def along_merges(self, merges: Merges, stored: Binary, batch: Batch) -> FoldedMerges:
        """The aggregates of records that merge sessions, where no user's function does.

        Args:
            stored: the aggregates of the stored sessions.
            batch: the records.
        """
        raise NotImplementedError

    @abstractmethod
    def keys(self, batch: Batch) -> Sequence[Any]:
        """The keys as ``fold`` wants them."""

    @abstractmethod
    def values(self, batch: Batch) -> Sequence[Any]:
        """The values as ``fold`` wants them."""

    @abstractmethod
    def load(self, data: Binary) -> list[Any]:
        """Aggregates out of the store, as they are kept."""

    @abstractmethod
    def column(self, results: list[Any]) -> Column:
        """Aggregates as a column."""


class CountSessions(SessionFold):
    """How many records a session has."""

    def initial(self) -> int:
        return 0

    def add(self, key: Any, value: Any, aggregate: int) -> int:
        return aggregate + 1

    def fold(self, key: Any, value: Any, found: list[int]) -> int:
        return sum(found) + 1

    def along(self, runs: Runs, stored: Binary, batch: Batch) -> FoldedRuns:
        begin = np.zeros(len(runs.base), np.int64)
        goes_on = runs.base >= 0
        begin[goes_on] = self.numbers(stored)[runs.base[goes_on]]
        count = begin + runs.number
        return FoldedRuns(NumberColumn(count, INT), NumberColumn(count - 1, INT))

    def keys(self, batch: Batch) -> Sequence[Any]:
        return range(len(batch))

    def values(self, batch: Batch) -> Sequence[Any]:
        return range(len(batch))

    def load(self, data: Binary) -> list[Any]:
        return INT.decode_all(data)

    def numbers(self, data: Binary) -> IntArray:
        return INT.decode_numbers(data)[0]

    def along_merges(self, merges: Merges, stored: Binary, batch: Batch) -> FoldedMerges:
        return FoldedMerges(NumberColumn(merges.number, INT), NumberColumn(merges.found.number, INT))

    def column(self, results: list[Any]) -> Column:
        valid = np.array([result is not None for result in results], np.bool_)
        return NumberColumn(np.array([result or 0 for result in results], np.int64), INT, valid)


class UserSessions(SessionFold):
    """A user's functions of (), (key, value, aggregate) and (key, one aggregate, other aggregate)."""

    merges_at_once = False

    def __init__(
        self,
        serde: Serde,
        initialize: Callable[[], Any],
        add: Callable[[Any, Any, Any], Any],
        merge: Callable[[Any, Any, Any], Any],
        function: UserFunction | None,
        merger: UserFunction | None = None,
    ):
        self._keeper = Keeper(serde, careful=True)
        self._initialize = initialize
        self._add = add
        self._merge = merge
        self.function = function
        self._merger = merger or function

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

    def along(self, runs: Runs, stored: Binary, batch: Batch) -> FoldedRuns | None:
        base = runs.base[runs.number == 1]
        begin = iter(self.load(stored.take(pa.array(base, mask=base < 0))))
        keys, values, fold = self.keys(batch), self.values(batch), self.fold
        new: list[Any] = []
        before: list[Any] = []
        for row, number in zip(runs.row.tolist(), runs.number.tolist(), strict=True):
            current = next(begin) if number == 1 else new[-1]
            before.append(current)
            try:
                result = fold(keys[row], values[row], [] if current is None else [current])
            except KeyboardInterrupt:
                raise
            except BaseException:
                return None
            if result is None:
                return None
            new.append(result)
        return FoldedRuns(self.column(new), self.column(before))

    def keys(self, batch: Batch) -> Sequence[Any]:
        return batch.key.decoded()

    def values(self, batch: Batch) -> Sequence[Any]:
        return batch.value.decoded()

    def load(self, data: Binary) -> list[Any]:
        return self._keeper.load(data)

    def column(self, results: list[Any]) -> Column:
        return self._keeper.column(results)


def session_fold_of(aggregation: Aggregation, serde: Serde) -> SessionFold:
    """The way to fold of an aggregation in sessions."""
    if aggregation.kind == "count":
        if serde == INT:
            return CountSessions()
        return UserSessions(serde, lambda: 0, lambda key, value, count: count + 1, lambda key, a, b: a + b, None)
    assert aggregation.add is not None
    if aggregation.kind == "reduce":
        reduce = aggregation.add.call

        def add(key: Any, value: Any, aggregate: Any) -> Any:
            return value if aggregate is None else reduce(aggregate, value)

        return UserSessions(serde, lambda: None, add, lambda key, a, b: add(key, b, a), aggregation.add)
    assert aggregation.initialize is not None
    merge = _no_merger if aggregation.merge is None else aggregation.merge.call
    return UserSessions(serde, aggregation.initialize, aggregation.add.call, merge, aggregation.add, aggregation.merge)


def _no_merger(key: Any, one: Any, other: Any) -> Any:
    raise AssertionError("only sessions merge")

"""Folding values into aggregates, row by row, for all groups of a chunk at once.

``Count`` is arithmetic on arrays. A user's functions are called in processing order, with the aggregate of the row's
group; what they return is turned into bytes at once, so that a function may change its aggregate in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import Binary, BoolArray, IntArray, binary, is_too_large
from penstock.batch import Batch
from penstock.columns import BytesColumn, Column, NumberColumn, ValuesColumn
from penstock.errors import SerdeError
from penstock.moving import moving
from penstock.ops.core.context import Context
from penstock.ops.core.failures import misfit_result
from penstock.ops.core.groups import Groups
from penstock.ops.core.record_context import Told
from penstock.plan.functions import UserFunction
from penstock.plan.nodes import Aggregation
from penstock.serdes import INT, Serde
from penstock.state.columns.rows import Values


class Rows(NamedTuple):
    """What is folded: one entry for each row, in processing order."""

    keys: Callable[[], list[Any]]
    add: Column
    """The values to add; null where there is nothing to add and ``subtract`` says what to do."""
    subtract: Column | None
    timestamps: IntArray
    batch: Batch
    """The records that the rows come from, and for each row the record: for errors."""
    source: IntArray


class Folded(NamedTuple):
    """The aggregate of its group after each row, in processing order."""

    new: Column
    old: Column
    """The aggregate before each row; for the first row of a group what the initializer gives, as in Kafka Streams."""
    timestamps: IntArray
    kept: BoolArray | None
    """Rows whose function did not fail; None when none did."""


class Fold(ABC):
    """How values become one."""

    @abstractmethod
    def fold(self, groups: Groups, before: Values, rows: Rows) -> Folded:
        """Fold rows into the aggregates that the store has before."""


def fold_of(aggregation: Aggregation, node: str, serde: Serde, context: Context) -> Fold:
    """The way to fold of an aggregation."""
    if aggregation.kind == "count" and serde == INT:
        return Count()
    if aggregation.kind == "count":
        return UserFold(node, serde, context, lambda: 0, _add_one, _subtract_one)
    assert aggregation.add is not None
    told = Told(context.facts)
    add = told.function(aggregation.add)
    subtract = None if aggregation.subtract is None else told.function(aggregation.subtract)
    initialize = aggregation.initialize
    if aggregation.kind == "reduce":
        add, subtract, initialize = _reducer(add), subtract and _reducer(subtract), None
    return UserFold(node, serde, context, initialize, add, subtract, function=aggregation.add, told=told)


def _add_one(key: Any, value: Any, count: int) -> int:
    return count + 1


def _subtract_one(key: Any, value: Any, count: int) -> int:
    return count - 1


def _reducer(reduce: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    return lambda key, value, aggregate: reduce(aggregate, value)


class Count(Fold):
    """How many values there are: added ones less those taken out again."""

    def fold(self, groups: Groups, before: Values, rows: Rows) -> Folded:
        base, present = INT.decode_numbers(before.data)
        exists = np.ones(len(base), np.bool_) if present is None else present
        base = np.where(exists, base, 0)
        if rows.subtract is None:
            return self._count(groups, before, rows.timestamps, base, exists)
        return self._count_changes(groups, before, rows, base, exists)

    def _count(self, groups: Groups, before: Values, timestamps: IntArray, base: IntArray, exists: BoolArray) -> Folded:
        counts = groups.unsort(base[groups.group] + groups.running_count())
        times = running_timestamps(groups, before, timestamps, None)
        return Folded(NumberColumn(counts, INT), NumberColumn(counts - 1, INT), times, None)

    def _count_changes(self, groups: Groups, before: Values, rows: Rows, base: IntArray, exists: BoolArray) -> Folded:
        """A group exists from its first added value on; before that there is nothing to take a value out of."""
        assert rows.subtract is not None
        adds = _not_null(rows.add)[groups.order]
        takes = _not_null(rows.subtract)[groups.order]
        added = groups.running_sum(adds.astype(np.int64))
        existed = exists[groups.group] | (added - adds > 0)
        now_exists = existed | adds
        delta = adds.astype(np.int64) - (takes & existed)
        counts = base[groups.group] + groups.running_sum(delta)
        new = NumberColumn(groups.unsort(counts), INT, groups.unsort(now_exists))
        old = NumberColumn(groups.unsort(counts - delta), INT, groups.unsort(existed))
        times = running_timestamps(groups, before, rows.timestamps, now_exists)
        return Folded(new, old, times, None)


class UserFold(Fold):
    """A user's functions of (key, value, aggregate), called in processing order.

    Args:
        initialize: what an aggregate begins with; None if it begins with the first value (``reduce``).
        function: the user's that adds, for errors.
        told: tells functions that ask for it the context of their record.
    """

    def __init__(
        self,
        node: str,
        serde: Serde,
        context: Context,
        initialize: Callable[[], Any] | None,
        add: Callable[[Any, Any, Any], Any],
        subtract: Callable[[Any, Any, Any], Any] | None,
        function: UserFunction | None = None,
        told: Told | None = None,
    ):
        self._node = node
        self._serde = serde
        self._keeper = Keeper(serde)
        self._context = context
        self._initialize = initialize
        self._add = add
        self._subtract = subtract
        self._function = function
        self._told = told or Told(context.facts)

    def fold(self, groups: Groups, before: Values, rows: Rows) -> Folded:
        folded = self._fold_with(self._keeper, groups, before, rows)
        if folded is None:  # which row it is, is found when each is encoded by itself
            folded = self._fold_with(Keeper(self._serde, careful=True), groups, before, rows)
            assert folded is not None
        return folded

    def _fold_with(self, keeper: Keeper, groups: Groups, before: Values, rows: Rows) -> Folded | None:
        """The aggregates; None when they cannot be encoded all at once."""
        current = keeper.load(before.data)
        group_of = groups.unsort(groups.group).tolist()
        fold = self._add_all if rows.subtract is None else self._change_all
        old, new, failed = fold(keeper, current, group_of, rows)
        after = keeper.column(new)
        try:
            after.encoded()
        except Exception as problem:
            if is_too_large(problem):
                raise
            return None
        for row, error in failed:
            position = int(rows.batch.position[rows.source[row]])
            error, way_out = misfit_result(error, self._serde, self._function)
            self._context.failed(self._node, position, error, self._function, way_out)
        kept = None
        if failed:
            kept = np.ones(len(new), np.bool_)
            kept[[row for row, _ in failed]] = False
        times = running_timestamps(groups, before, rows.timestamps, _not_null(after)[groups.order], kept)
        return Folded(after, keeper.column(old), times, kept)

    def _add_all(self, keeper: Keeper, current: list[Any], group_of: list[int], rows: Rows) -> _Results:
        """``add`` for each row; the aggregate of a new group is what ``initialize`` gives, or the value itself.

        What a function returned is read back at once, for the next row of its group: so whatever cannot be read is a
        failure of the row that gave it, and never comes into the store.
        """
        old: list[Any] = []
        new = moving.through([])
        failed: list[tuple[int, BaseException]] = []
        add, initialize, read, write, exact = self._add, self._initialize, keeper.read, keeper.write, keeper.exact
        ready: list[Any] = [None] * len(current)
        keys = self._told.along(rows.keys(), rows.batch, rows.source)
        for group, key, value in zip(group_of, keys, rows.add.decoded(), strict=True):
            stored, given = current[group], None
            try:
                if stored is not None:
                    aggregate, ready[group] = ready[group], None
                    result = add(key, value, read(stored) if aggregate is None else aggregate)
                elif initialize is not None:
                    result = initialize()
                    stored = None if result is None else keeper.checked(result)
                    result = add(key, value, result)
                else:
                    result = value
                if result is not None and type(result) is not exact:
                    given = result
                    result = write(given)
                    if result is not None:
                        ready[group] = aggregate = read(result)
                        result = None if aggregate is None else result
                current[group] = result
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                failed.append((len(new), keeper.explained(error, given)))
                result = stored = current[group]
            old.append(stored)
            new.append(result)
        return old, new, failed

    def _change_all(self, keeper: Keeper, current: list[Any], group_of: list[int], rows: Rows) -> _Results:
        """``subtract`` and then ``add`` for each row, where there is something to subtract or to add."""
        assert self._subtract is not None
        assert rows.subtract is not None
        old: list[Any] = []
        new = moving.through([])
        failed: list[tuple[int, BaseException]] = []
        add, subtract, initialize = self._add, self._subtract, self._initialize
        read, checked, exact = keeper.read, keeper.checked, keeper.exact
        keys = self._told.along(rows.keys(), rows.batch, rows.source)
        columns = zip(group_of, keys, rows.subtract.decoded(), rows.add.decoded(), strict=True)
        for group, key, gone, value in columns:
            stored = result = current[group]
            try:
                if stored is not None:
                    result = read(stored)
                    if gone is not None:
                        result = subtract(key, gone, result)
                if value is not None:
                    if result is not None:
                        result = add(key, value, result)
                    elif initialize is not None:
                        result = add(key, value, initialize())
                    else:
                        result = value
                if result is not None and type(result) is not exact:
                    result = checked(result)
                current[group] = result
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                failed.append((len(new), error))
                result = stored
            old.append(stored)
            new.append(result)
        return old, new, failed


_Results = tuple[list[Any], list[Any], list[tuple[int, BaseException]]]


class Keeper:
    """How aggregates are kept while a loop runs over the rows.

    Values that cannot change in place are kept as they are; all others are kept as bytes, so that every call gets an
    aggregate of its own, the same one that it would get from the store.

    Args:
        careful: make sure of every aggregate by itself that it can be written and read again.
    """

    def __init__(self, serde: Serde, careful: bool = False):
        self._serde = serde
        self.exact = None if careful else serde.exact
        """The type whose values are kept without a look; whether they can be written is seen later, all at once."""
        self._encode, decode = serde.converters
        self._keeps_bytes = serde.plain is None and self.exact is None
        self.read: Callable[[Any], Any] = decode if self._keeps_bytes else _same
        self.write: Callable[[Any], Any] = self._encode if self._keeps_bytes else self._as_stored
        if careful and self._keeps_bytes:
            self.write = self.checked

    def _as_stored(self, aggregate: Any) -> Any:
        """The aggregate as it would come back from the store."""
        if type(aggregate) is self.exact:
            return aggregate
        data = self._serde.encode_or_none(aggregate)
        return None if data is None else self._serde.decode(data)

    def checked(self, aggregate: Any) -> Any:
        """An aggregate as it is kept, which can be read again; None for one that is a null as bytes, or comes back as
        one."""
        if not self._keeps_bytes:
            return self._as_stored(aggregate)
        try:
            data = self._encode(aggregate)
            is_null = data is None or self.read(data) is None
        except Exception as error:
            raise self.explained(error, aggregate) from None
        return None if is_null else data

    def explained(self, error: BaseException, aggregate: Any) -> BaseException:
        """An error that may come of an aggregate's type: what its serde says of that, if anything."""
        if aggregate is None or isinstance(error, SerdeError):
            return error
        try:
            self._serde.encode(aggregate)
        except SerdeError as problem:
            return problem
        except Exception:
            return error
        return error

    def load(self, data: Binary) -> list[Any]:
        """Aggregates out of the store, as they are kept."""
        return data.to_pylist() if self._keeps_bytes else self._serde.decode_all(data)

    def column(self, results: list[Any]) -> Column:
        if self._keeps_bytes:
            return BytesColumn(binary(results), self._serde)
        return ValuesColumn(results, self._serde)


def _same(value: Any) -> Any:
    return value


def running_timestamps(
    groups: Groups, before: Values, timestamps: IntArray, exists: BoolArray | None, kept: BoolArray | None = None
) -> IntArray:
    """The timestamp of each aggregate: the largest one since the aggregate began to exist.

    Args:
        exists: whether there is an aggregate after each row, in the groups' order; None for always.
        kept: rows that count at all, in processing order.
    """
    ordered = timestamps[groups.order]
    if kept is not None:
        ordered = np.where(kept[groups.order], ordered, -1)
    restart = np.zeros(len(ordered), np.bool_)
    if exists is not None:
        restart[1:] = ~exists[:-1]
    result = groups.running_max(ordered, restart)
    stored = before.timestamps[groups.group]
    if exists is None:
        result = np.maximum(result, stored)
    else:  # what the store had counts until the aggregate first ceases to exist
        ceased = groups.running_sum((restart & ~groups.is_first()).astype(np.int64)) > 0
        result = np.where(ceased, result, np.maximum(result, stored))
    times: IntArray = groups.unsort(result)
    return times


def _not_null(column: Column) -> BoolArray:
    missing = column.null_mask()
    return np.ones(len(column), np.bool_) if missing is None else ~missing

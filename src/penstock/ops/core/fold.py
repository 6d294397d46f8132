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
from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn, Column, NumberColumn, ValuesColumn
from penstock.errors import SerdeError
from penstock.figures.moving import moving
from penstock.ops.core.context import Context
from penstock.ops.core.failures import misfit_result
from penstock.ops.core.groups import Groups
from penstock.ops.core.named_changes import fold_changes
from penstock.ops.core.named_fold import NamedColumns
from penstock.ops.core.record_context import Told
from penstock.plan.aggregates.together import Together
from penstock.plan.functions import UserFunction
from penstock.plan.nodes import Aggregation
from penstock.serdes import INT, Serde
from penstock.state.columns.rows import Values


class FoldRows(NamedTuple):
    """The rows to fold, in processing order."""

    keys: Callable[[], list[Any]]
    add: Column
    """The values to add; null where there is nothing to add, if the aggregation has a ``subtract``."""
    subtract: Column | None
    timestamps: IntArray
    batch: Batch
    """The records that the rows come from, and the record of each row; both are for errors."""
    source: IntArray


class Folded(NamedTuple):
    """The aggregate of each row's group after that row, in processing order."""

    new: Column
    old: Column
    """The aggregate before each row; for the first row of a group it is the initializer's value, as in Kafka
    Streams."""
    timestamps: IntArray
    kept: BoolArray | None
    """The rows whose function did not fail; None if none failed."""


class Fold(ABC):
    """Combines the values of a group into one aggregate."""

    @abstractmethod
    def fold(self, groups: Groups, before: Values, rows: FoldRows) -> Folded:
        """Fold rows into the aggregates that the store holds."""


def fold_of(aggregation: Aggregation, node: str, serde: Serde, context: Context) -> Fold:
    """Return the fold that carries out an aggregation."""
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
    fold = UserFold(node, serde, context, initialize, add, subtract, function=aggregation.add, told=told)
    return fold if aggregation.together is None else NamedFold(aggregation.together, fold)


def _add_one(key: Any, value: Any, count: int) -> int:
    return count + 1


def _subtract_one(key: Any, value: Any, count: int) -> int:
    return count - 1


def _reducer(reduce: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    return lambda key, value, aggregate: reduce(aggregate, value)


class Count(Fold):
    """Counts values: the added ones minus the subtracted ones."""

    def fold(self, groups: Groups, before: Values, rows: FoldRows) -> Folded:
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

    def _count_changes(
        self, groups: Groups, before: Values, rows: FoldRows, base: IntArray, exists: BoolArray
    ) -> Folded:
        """Count changes of a table. A group exists from its first added value; before that, nothing can be subtracted
        from it."""
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


class NamedFold(Fold):
    """Aggregates by name: whole columns as far as possible, and the rest record by record."""

    def __init__(self, together: Together, one_by_one: UserFold):
        self._together = together
        self._columns = NamedColumns(together)
        self._one_by_one = one_by_one

    def fold(self, groups: Groups, before: Values, rows: FoldRows) -> Folded:
        columns, keys, gone = self._columns, rows.keys, rows.subtract
        if gone is None:
            folded = columns.fold(groups, before, keys, rows.add)
        else:
            folded = fold_changes(columns, self._together, groups, before, keys, gone, rows.add)
        if folded is not None:
            new, old = folded
            exists = None if gone is None else _not_null(new)[groups.order]
            return Folded(new, old, running_timestamps(groups, before, rows.timestamps, exists), None)
        return self._one_by_one.fold(groups, before, rows)


class UserFold(Fold):
    """A user's functions of (key, value, aggregate), called in processing order.

    Args:
        initialize: gives the initial aggregate; None if a group starts with its first value (``reduce``).
        function: the user's function that adds, for errors.
        told: passes the record's context to functions that ask for it.
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

    def fold(self, groups: Groups, before: Values, rows: FoldRows) -> Folded:
        folded = self._fold_with(self._keeper, groups, before, rows)
        if folded is None:  # encoding each aggregate by itself then tells which row fails
            folded = self._fold_with(Keeper(self._serde, careful=True), groups, before, rows)
            assert folded is not None
        return folded

    def _fold_with(self, keeper: Keeper, groups: Groups, before: Values, rows: FoldRows) -> Folded | None:
        """Fold the rows; None if the aggregates cannot be encoded all at once."""
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

    def _add_all(self, keeper: Keeper, current: list[Any], group_of: list[int], rows: FoldRows) -> _Results:
        """Call ``add`` for each row. A new group starts with the result of ``initialize``, or with the value itself.

        Each result is read back at once, for the next row of its group. A result that cannot be read is therefore a
        failure of its own row and never reaches the store.
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

    def _change_all(self, keeper: Keeper, current: list[Any], group_of: list[int], rows: FoldRows) -> _Results:
        """Call ``subtract`` and then ``add`` for each row, as far as it has a value to subtract or to add."""
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
    """Keeps the aggregates while a loop runs over the rows.

    Immutable values are kept as they are. All others are kept as bytes, so that every call gets a fresh aggregate,
    equal to the one that the store would return.

    Args:
        careful: check each aggregate by itself that it can be written and read again.
    """

    def __init__(self, serde: Serde, careful: bool = False):
        self._serde = serde
        self.exact = None if careful else serde.exact
        """The type whose values are kept unchecked; all of them are encoded at once later, which shows whether they can
        be."""
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
        """Return an aggregate in its kept form, which can be read again; None if its bytes are null or read back as
        None."""
        if not self._keeps_bytes:
            return self._as_stored(aggregate)
        try:
            data = self._encode(aggregate)
            is_null = data is None or self.read(data) is None
        except Exception as error:
            raise self.explained(error, aggregate) from None
        return None if is_null else data

    def explained(self, error: BaseException, aggregate: Any) -> BaseException:
        """Return the error, with the advice of the aggregate's serde if it has any."""
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
        """Turn aggregates from the store into their kept form."""
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
        exists: True where there is an aggregate after the row, in the groups' order; None for all rows.
        kept: True for the rows that count, in processing order.
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
    else:  # the timestamp in the store counts until the aggregate first ceases to exist
        ceased = groups.running_sum((restart & ~groups.is_first()).astype(np.int64)) > 0
        result = np.where(ceased, result, np.maximum(result, stored))
    times: IntArray = groups.unsort(result)
    return times


def _not_null(column: Column) -> BoolArray:
    missing = column.null_mask()
    return np.ones(len(column), np.bool_) if missing is None else ~missing

"""Calls of user functions: one tight loop over a chunk, or one call with whole columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import is_
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import BoolArray, IntArray, is_too_large
from penstock.columns.batch import Batch
from penstock.columns.column import Column, ValuesColumn, WindowedColumn
from penstock.columns.returned import from_arrow
from penstock.errors import ProcessingError
from penstock.figures.moving import moving
from penstock.handlers import PROCESSING
from penstock.messages import describe, show
from penstock.ops.core.computed import computed_column, computed_truth
from penstock.ops.core.context import Context
from penstock.ops.core.narrowed import narrowed
from penstock.ops.core.record_context import record_contexts
from penstock.plan.aggregates.together import Narrowing
from penstock.plan.expressions.typed import Construction, Evaluation
from penstock.plan.functions import UserFunction
from penstock.serdes import Serde
from penstock.usage.calls import close, refuse_result, truth, why_result_unusable, wrong_results

_PAIR = "map_values changes values alone, and select_key keys alone"
Results = tuple[Batch, list[Any]]
"""The records for which a function returned a result, and the results."""


class Caller:
    """Calls one function for a node; records for which it raises are handled by the context."""

    def __init__(self, node: str, function: UserFunction, context: Context, kind: str = PROCESSING):
        self.kind = kind
        self.node = node
        self.function = function
        self.context = context

    def of_old_values(self) -> Caller:
        """Return a caller of the same function for previous values, whose failures are counted already."""
        return Caller(self.node, self.function, self.context.of_old_values(), self.kind)

    def rows(self, batch: Batch, *arguments: list[Any], iterated: bool = False) -> Results:
        """Call the function for each row. Return its results and the batch without the rows that failed.

        Args:
            iterated: True if the results are iterated over, so that generators are valid.
        """
        return self.only_results(*self._called(batch, *arguments), iterated)

    def _called(self, batch: Batch, *arguments: list[Any]) -> Results:
        if self.function.wants_context:
            arguments = (*arguments, record_contexts(self.context.facts, batch))
        return self.each(self.function.call, batch, *arguments)

    def only_results(
        self,
        batch: Batch,
        results: list[Any],
        iterated: bool = False,
        parts: Callable[[Any], Iterable[Any]] | None = None,
    ) -> Results:
        """Fail the rows for which the function returned a coroutine or a generator that the step does not run.

        Args:
            parts: splits a result into the values to check; None if it is one value.
        """
        return self.without(batch, results, no_results(results, iterated, parts))

    def each(self, call: Callable[..., Any], batch: Batch, *arguments: list[Any]) -> Results:
        """Call a later part of the function's work for each row. Return the results and the batch without the rows that
        failed."""
        return self.without(batch, *call_each(call, len(batch), *arguments))

    def without(self, batch: Batch, results: list[Any], failed: list[tuple[int, BaseException]]) -> Results:
        """Leave out the rows that failed, and report them to the context."""
        if not failed:
            return batch, results
        for row, error in failed:
            self.context.failed(self.node, int(batch.position[row]), error, self.function, kind=self.kind)
        kept = np.setdiff1d(np.arange(len(results)), [row for row, _ in failed])
        return batch.take(kept), [results[row] for row in kept.tolist()]

    def columns(self, batch: Batch, *arguments: Any) -> Any:
        """Return the result of a columnar function: one value for each row."""
        result = self.call_columnar(batch, *arguments)
        for array in result if isinstance(result, tuple) else (result,):
            length = len(array) if hasattr(array, "__len__") else -1
            if length != len(batch):
                raise ProcessingError(
                    f"{self.node}: the columnar function {self.function.name} at {self.function.location()} must "
                    f"return Arrow arrays of {len(batch)} values, one for each record; got {type(array).__name__} of "
                    f"{length}"
                )
        return result

    def _mask(self, mask: Any) -> Any:
        """Return the result of a columnar predicate as an array of booleans; a null is false."""
        try:
            return (mask if isinstance(mask, pa.ChunkedArray) else pa.array(mask)).cast(pa.bool_()).fill_null(False)
        except pa.ArrowException as error:
            raise ProcessingError(
                f"{self.node}: the columnar function {self.function.name} at {self.function.location()} must return an "
                f"Arrow array of booleans: {describe(error)}"
            ) from None

    def call_columnar(self, batch: Batch, *arguments: Any) -> Any:
        """Call a columnar function; an error concerns the whole chunk."""
        try:
            result = self.function.call(*arguments)
            refuse_result(result)
            return result
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if is_too_large(error):
                raise
            raise ProcessingError(
                f"{self.node}: the columnar function {self.function.name} at {self.function.location()} failed on a "
                f"chunk of {len(batch)} records: {describe(error)}\n"
                "  nothing of this batch was committed; fix the function and start again"
            ) from error

    def predicate(self, batch: Batch) -> tuple[Batch, BoolArray]:
        """The rows for which a function of (key, value) returns true."""
        if self.function.columnar:
            mask = self.columns(batch, batch.key.arrow(), batch.value.arrow())
            return batch, np.asarray(self._mask(mask))
        if isinstance(self.function.call, Evaluation):
            return self._condition(self.function.call, batch)
        batch, results = self._called(batch, batch.key.decoded(), batch.value.decoded())
        if set(map(type, results)) <= {bool}:
            return batch, np.array(results, np.bool_)
        batch, results = self.only_results(batch, results)
        batch, truths = self.each(truth, batch, results)
        return batch, np.array(truths, np.bool_)

    def _condition(self, call: Evaluation, batch: Batch) -> tuple[Batch, BoolArray]:
        """The rows for which an expression is true: by columns, and record by record where these do not tell."""
        every = np.ones(len(batch), np.bool_)
        found, odd = computed_truth(call, batch.value) or (every, every)
        if odd is None:
            return batch, found
        rows = np.flatnonzero(odd)
        results, failed = call_each(lambda value: bool(call(value)), len(rows), batch.value.take(rows).decoded())
        truths = found.copy()
        truths[rows] = [bool(one) for one in results]
        batch, kept = self.without(batch, truths.tolist(), [(int(rows[row]), error) for row, error in failed])
        return batch, np.array(kept, np.bool_)

    def column(self, batch: Batch, serde: Serde) -> tuple[Batch, Column]:
        """The results of a function of (value) or (key, value), as a column."""
        if isinstance(self.function.call, Narrowing) and (narrow := narrowed(self.function.call, batch.value)):
            return batch, narrow
        if isinstance(self.function.call, Evaluation | Construction):
            computed = computed_column(self.function.call, batch.value, serde)
            if computed is not None:
                return batch, computed
        if self.function.columnar:
            arguments = [batch.value.arrow()] if self.function.arity == 1 else [batch.key.arrow(), batch.value.arrow()]
            return batch, from_arrow(self.columns(batch, *arguments), serde)
        values = batch.value.decoded()
        arguments = [values] if self.function.arity == 1 else [batch.key.decoded(), values]
        batch, results = self.rows(batch, *arguments)
        return batch, ValuesColumn(results, serde)

    def written_column(self, batch: Batch, serde: Serde) -> tuple[Batch, Column]:
        """The results as a column, and the batch without the records whose results do not fit its type."""
        batch, column = self.column(batch, serde)
        batch = self.context.encoded(self.node, batch.with_value(column), "value")
        return batch, batch.value

    def pairs(self, batch: Batch, key: Serde, value: Serde) -> tuple[Batch, Column, Column]:
        """The keys and the values that a function of (key, value) returns."""
        if self.function.columnar:
            given = batch.key.arrow()
            keys, values = self.columns(batch, given, batch.value.arrow())
            return batch, _key_column(keys, given, batch.key, key), from_arrow(values, value)
        batch, results = self.rows(batch, batch.key.decoded(), batch.value.decoded())
        if set(map(type, results)) != {tuple} or set(map(len, results)) != {2}:
            batch, results = self.check(batch, results, is_pair, "a pair (key, value)", _PAIR)
        keys, values = [result[0] for result in results], [result[1] for result in results]
        if wrong_results(keys) or wrong_results(values):
            batch, results = self.only_results(batch, results, parts=iter)
            keys, values = [result[0] for result in results], [result[1] for result in results]
        return batch, ValuesColumn(keys, key), as_column(values, batch.value, value)

    def check(
        self, batch: Batch, results: list[Any], fits: Callable[[Any], bool], expected: str, way: str = ""
    ) -> Results:
        """Fail the rows whose results are not what the step expects."""
        if all(map(fits, results)):
            return batch, results
        wrong = [row for row, result in enumerate(results) if not fits(result)]
        says = [f"the function must return {expected}, got {show(results[row])}{way and '; '}{way}" for row in wrong]
        return self.without(batch, results, list(zip(wrong, map(TypeError, says), strict=True)))


def _key_column(keys: Any, given: Any, column: Column, serde: Serde) -> Column:
    """The keys that a columnar function returned, as a column. If it returned the array that it was given, the given
    column, or the one inside its windowed keys."""
    if isinstance(column, WindowedColumn):
        column, given = column.key, given.key
    if keys is given and serde.immutable and column.serde == serde:
        return column
    return from_arrow(keys, serde)


def as_column(values: list[Any], given: Column, serde: Serde) -> Column:
    """The results of a function as a column; the given column if every value came back unchanged."""
    if serde.immutable and given.serde == serde and all(map(is_, values, given.decoded())):
        return given
    return ValuesColumn(values, serde)


def is_pair(result: Any) -> bool:
    return type(result) is tuple and len(result) == 2


def call_each(
    function: Callable[..., Any], count: int, *arguments: Sequence[Any]
) -> tuple[list[Any], list[tuple[int, BaseException]]]:
    """Call ``function`` for each row. Return the results, None where it raised, and those rows with their errors.

    The loop runs inside ``list.extend``. When a call raises, the results so far are kept and the iterator continues
    after the failing row.
    """
    results = moving.through([])
    failed: list[tuple[int, BaseException]] = []
    calls = map(function, *arguments)
    while len(results) < count:
        try:
            results.extend(calls)
            if len(results) < count:  # a StopIteration raised by the function looks like the end of the loop
                raise RuntimeError("the function raised StopIteration")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a call of sys.exit is a failure like any other
            failed.append((len(results), error))
            results.append(None)
    return results, failed


def no_results(
    results: list[Any], iterated: bool = False, parts: Callable[[Any], Iterable[Any]] | None = None
) -> list[tuple[int, BaseException]]:
    """The rows for which the function returned a coroutine or a generator that the step does not run, each with an
    error that says so; see ``Caller.only_results``."""
    if not wrong_results(results if parts is None else chain.from_iterable(map(parts, results)), iterated):
        return []
    found: list[tuple[int, BaseException]] = []
    for row, result in enumerate(results):
        every = (result,) if parts is None else parts(result)
        wrong = [part for part in every if why_result_unusable(type(part), iterated)]
        for part in wrong:
            close(part)
        if wrong:
            says = f"the function returned {why_result_unusable(type(wrong[0]), iterated)}"
            found.append((row, TypeError(says)))
    return found


def row_numbers(counts: list[int] | IntArray) -> tuple[IntArray, IntArray]:
    """For rows with several results each: the row of each result, and its index within the row.

    >>> [array.tolist() for array in row_numbers([2, 0, 1])]
    [[0, 0, 2], [0, 1, 0]]
    """
    sizes = np.array(counts, np.int64)
    rows = np.repeat(np.arange(len(counts)), sizes)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rows, within

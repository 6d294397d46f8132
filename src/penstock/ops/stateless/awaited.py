"""``map_values_async`` and ``filter_async``: a chunk's calls run side by side, and its commit waits for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columns.batch import Batch
from penstock.columns.column import ValuesColumn
from penstock.handlers import PROCESSING
from penstock.messages import show
from penstock.ops.core.awaited import Outcome, call_all
from penstock.ops.core.functions import Caller, Results
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.record_context import record_contexts
from penstock.plan.awaiting import Awaiting
from penstock.serdes import Serde
from penstock.usage.calls import truth


class Calls:
    """Awaits a function for the records of a batch, one by one or in lists."""

    def __init__(self, caller: Caller, how: Awaiting):
        self._caller = caller
        self._how = how

    def results(self, batch: Batch) -> Results:
        """Return the results, in the order of the stream, and the batch without the records that failed."""
        function, values = self._caller.function, batch.value.decoded()
        columns = [values] if function.arity == 1 else [batch.key.decoded(), values]
        if function.wants_context:
            columns.append(record_contexts(self._caller.context.facts, batch))
        outcomes = self._one_by_one(columns) if self._how.batch is None else self._in_lists(columns, self._how.batch)
        failed = [(row, error) for row, (_, error) in enumerate(outcomes) if error is not None]
        batch, results = self._caller.without(batch, [result for result, _ in outcomes], failed)
        return self._caller.only_results(batch, results)

    def _one_by_one(self, columns: list[Any]) -> list[Outcome]:
        return call_all(self._caller.function.call, list(zip(*columns, strict=True)), self._how)

    def _in_lists(self, columns: list[Any], size: int) -> list[Outcome]:
        """Call the function with lists of records. If a list fails, call it with each of its records alone, unless the
        first error stops the program anyway."""
        found = self._called(columns, size)
        wrong = [row for row, (_, error) in enumerate(found) if error is not None]
        if wrong and size > 1 and not self._caller.context.facts.handlers.always_fail(PROCESSING):
            alone = self._called([[column[row] for row in wrong] for column in columns], 1)
            for row, outcome in zip(wrong, alone, strict=True):
                found[row] = outcome
        return found

    def _called(self, columns: list[Any], size: int) -> list[Outcome]:
        count = len(columns[0])
        lists = [tuple(column[first : first + size] for column in columns) for first in range(0, count, size)]
        outcomes = call_all(self._caller.function.call, lists, self._how)
        return [one for given, outcome in zip(lists, outcomes, strict=True) for one in _each(outcome, len(given[-1]))]


def _each(outcome: Outcome, count: int) -> list[Outcome]:
    """The outcome for each record of a call with a list."""
    results, error = outcome
    if error is None and (not isinstance(results, list | tuple) or len(results) != count):
        got = f"{len(results)} results" if isinstance(results, list | tuple) else show(results)
        error = TypeError(f"the function must return a list of {count} results, one for each record; got {got}")
    return [(None, error)] * count if error is not None else [(result, None) for result in results]


class MapValuesAwaited(Operator):
    """New values under the same keys."""

    def __init__(self, calls: Calls, value: Serde):
        self._calls = calls
        self._value = value

    def step(self, batch: Batch, out: Collector) -> None:
        batch, results = self._calls.results(batch)
        out.emit(batch.with_value(ValuesColumn(results, self._value)))


class FilterAwaited(Operator):
    """Keeps the records for which a predicate is true."""

    def __init__(self, calls: Calls, caller: Caller):
        self._calls = calls
        self._caller = caller

    def step(self, batch: Batch, out: Collector) -> None:
        batch, results = self._calls.results(batch)
        batch, truths = self._caller.each(truth, batch, results)
        out.emit(batch.keep(np.array(truths, np.bool_)))

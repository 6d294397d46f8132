"""The record context for functions that ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import OF_CAUSE, Batch, Origins, pairs_of
from penstock.ops.core.notes import TaskFacts
from penstock.plan.functions import UserFunction
from penstock.processor import RecordContext


def record_contexts(facts: TaskFacts, batch: Batch) -> list[RecordContext]:
    """The context of each record of a batch."""
    origins = origins_of(facts, batch)
    columns = (origins.topic.to_pylist(), origins.partition.tolist(), origins.offset.tolist(), batch.timestamp.tolist())
    return list(map(RecordContext, *columns, headers_of(batch)))


def headers_of(batch: Batch) -> Any:
    """The headers of each record of a batch."""
    return repeat((), len(batch)) if batch.headers is None else map(pairs_of, batch.headers.to_pylist())


def origins_of(facts: TaskFacts, batch: Batch) -> Origins:
    """The origin of each record of a batch; empty for records that no input record caused."""
    if batch.held is None:
        return _origins_of_causes(facts, batch.position)
    is_held = batch.held.offset != OF_CAUSE
    return batch.held if is_held.all() else batch.held.where(is_held, _origins_of_causes(facts, batch.position))


def _origins_of_causes(facts: TaskFacts, positions: IntArray) -> Origins:
    if len(positions) < 2 or (np.diff(positions) >= 0).all():
        return facts.origins(positions)
    order = np.argsort(positions, kind="stable")
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return facts.origins(positions[order]).take(back)


class Told:
    """Passes the context of the current record to functions that ask for it, in loops that pass them only the other
    arguments.

    A loop gets its functions from ``function``, and one of the columns that it iterates over from ``along``.
    """

    def __init__(self, facts: TaskFacts):
        self._facts = facts
        self._is_asked = False
        self._now: RecordContext | None = None

    def function(self, function: UserFunction) -> Callable[..., Any]:
        """Return the function as the loop calls it, without the context argument."""
        if not function.wants_context:
            return function.call
        self._is_asked = True
        call = function.call
        return lambda *arguments: call(*arguments, self._now)

    def along(self, values: Sequence[Any], batch: Batch, source: IntArray | None = None) -> Sequence[Any]:
        """Return the values of rows; taking a row's value makes its record the current one.

        Args:
            source: the record of each row; None if each record is one row.
        """
        if not self._is_asked:
            return values
        contexts = record_contexts(self._facts, batch)
        return _Along(self, values, contexts if source is None else [contexts[row] for row in source.tolist()])


class _Along(Sequence[Any]):
    """Values of rows; reading a value makes its record the current one."""

    def __init__(self, told: Told, values: Sequence[Any], contexts: list[RecordContext]):
        self._told = told
        self._values = values
        self._contexts = contexts

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, row: Any) -> Any:
        self._told._now = self._contexts[row]
        return self._values[row]

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self._values)))

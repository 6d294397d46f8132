"""``transform_values``: passes the values of a table through the user's transformer (``KTableTransformValues``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.columns.batch import Batch, Changes, merge
from penstock.columns.column import Column, ValuesColumn
from penstock.errors import ProcessingError
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller, call_each, no_results
from penstock.ops.core.operator import Collector
from penstock.ops.processors.context import TaskProcessorContext
from penstock.ops.processors.hosting import Hosting
from penstock.ops.processors.views import Views
from penstock.ops.tables.table import TableMapValues, TableWriter
from penstock.plan.functions import UserFunction
from penstock.plan.processors import ProcessorFunction
from penstock.processor import STREAM_TIME, PunctuationType
from penstock.serdes import Serde


class TransformValues(Hosting, TableMapValues):
    """Calls the transformer with each new value, including deletions, and with each old value that a later step needs
    and no store has."""

    def __init__(
        self,
        node: str,
        context: Context,
        supplier: ProcessorFunction,
        value: Serde,
        sends_old: bool,
        store: TableWriter | None,
        views: Views,
        context_of: Callable[[], TaskProcessorContext],
        is_step: bool = True,
    ):
        Hosting.__init__(self, node, context, supplier, views, context_of)
        TableMapValues.__init__(self, Caller(node, supplier.function, context), value, sends_old, store)
        self._is_step = is_step

    def _check_start(self) -> None:
        self._check_only_returns()
        if self.own.has_scheduled and not self._is_step:
            raise ProcessingError(
                f"{self.node}: the transformer schedules punctuations, but other steps read its table without a store, "
                "each through a transformer of its own; give the table a store: transform_values(..., store=...)"
            )
        self.own.has_scheduled = False

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        self._begin()
        if self._store is not None or not self._sends_old or batch.old is None:
            super().step(batch, out)
            return
        # for each row the new and then the old value, as in Kafka Streams: the transformer's state shows the order
        old = self._context.of_old_values()
        kept, results = self._made(
            self._rows(batch, batch.value, False, self._context), self._rows(batch, batch.old, True, old)
        )
        column, was_old = ValuesColumn(results, self._value), _was_old(kept)
        value, before = (
            self._in_place(kept.keep(rows), column.take(np.flatnonzero(rows)), len(batch))[0]
            for rows in (~was_old, was_old)
        )
        out.emit(replace(batch, value=value, old=before))

    def mapped(self, batch: Batch, values: Column, is_old: bool = False) -> tuple[Column, BoolArray]:
        """Return the transformed values of all rows, and True for the rows whose transformer call did not fail."""
        self.start()
        kept, results = self._made(self._rows(batch, values, is_old, self._context))
        column: Column = ValuesColumn(results, self._value)
        if self._store is not None:
            kept = self._context.encoded(self.node, kept.with_value(column), "value")
            column = kept.value
        return self._in_place(kept, column, len(batch))

    def _rows(self, batch: Batch, values: Column, is_old: bool, context: Context) -> Batch:
        """The rows that can be read. Their row numbers, and whether their values are old, are added to the end of their
        order."""
        order = (*batch.order, np.arange(len(batch)), np.full(len(batch), int(is_old)))
        part = Batch(batch.key, values, batch.timestamp, order, batch.headers, batch.placed, held=batch.held)
        return context.decoded(self.node, part, "key", "value")

    def _made(self, *parts: Batch) -> tuple[Batch, list[Any]]:
        """Return the results of rows in order, and their rows. Punctuations are called where stream time reaches
        them."""
        part = merge(list(parts)) if any(map(len, parts)) else parts[0]
        done = 0
        results: list[Any] = []
        failed: list[int] = []
        with self.views.open(part.key):
            self.own.begin(part)
            while done < len(part):
                position = self.own.next_punctuation(self._reached)
                stop = len(part) if position is None else int(np.searchsorted(part.position, position, "right"))
                made, wrong = self._transform(part.slice(done, stop))
                results += made
                failed += [done + row for row in wrong]
                done = stop
                self._reached = int(part.position[done - 1]) if done else -1
                if position is not None and done < len(part):
                    self._punctuate(position, self.own.arrivals.time_at(position), STREAM_TIME)
            self.own.end()
        self._check_only_returns()
        self._check_schedules_at_first()
        if not failed:
            return part, results
        fine = np.setdiff1d(np.arange(len(part)), failed)
        return part.take(fine), [results[row] for row in fine.tolist()]

    def _transform(self, part: Batch) -> tuple[list[Any], list[int]]:
        """Return the result of each row, and the rows that failed."""
        results, failed = call_each(self._transformed, len(part), part.key.decoded(), part.value.decoded())
        failed = sorted([*failed, *no_results(results)], key=itemgetter(0))
        was_old = _was_old(part)
        for row, error in failed:
            caller = self._caller.of_old_values() if was_old[row] else self._caller
            caller.context.failed(self.node, int(part.position[row]), error, caller.function, kind=caller.kind)
        return results, [row for row, _ in failed]

    # --- punctuations --------------------------------------------------------------------------------------------

    def call_next(self, type_: PunctuationType, position: int, now: int) -> None:
        """Call the next punctuation."""
        with self.views.open(None):
            next(self._called(position, now, type_), None)

    def _punctuate(self, position: int, now: int, type_: PunctuationType) -> None:
        for _ in self._called(position, now, type_):
            pass

    def _called(self, position: int, now: int, type_: PunctuationType) -> Iterator[None]:
        """Call all punctuations that are due, one after the other."""

        def failed(callback: Callable[[int], object], error: BaseException) -> None:
            function = UserFunction(callback, 1, False, self._supplier.function.where)
            self._context.failed(self.node, position, error, function)

        for _ in self.own.call_due(type_, now, failed):
            self._check_only_returns()
            yield

    # --- what it may not do --------------------------------------------------------------------------------------

    def _check_only_returns(self) -> None:
        """Refuse a transformer that forwarded something."""
        if self.own.take_forwarded()[0]:
            raise ProcessingError(
                f"{self.node}: a transformer of transform_values cannot forward; return the value instead"
            )

    def _check_schedules_at_first(self) -> None:
        """Refuse a transformer that scheduled a punctuation while transforming a row."""
        if self.own.has_scheduled:
            raise ProcessingError(
                f"{self.node}: a transformer of transform_values may schedule punctuations only in init, not while it "
                "makes a value; schedule one there, and keep its work in a store"
            )

    def _transformed(self, key: Any, value: Any) -> Any:
        try:
            return self._hosted.transform(key, value)
        finally:
            self.own.ends.append(0)

    def _in_place(self, kept: Batch, column: Column, count: int) -> tuple[Column, BoolArray]:
        """The results of the rows that did not fail, and null for the others."""
        fine = np.ones(count, np.bool_)
        if len(kept) == count:
            return column, fine
        fine[:] = False
        numbers = _numbers(kept)
        fine[numbers] = True
        rows = np.full(count, len(kept))
        rows[numbers] = np.arange(len(kept))
        return ValuesColumn([*column.decoded(), None], self._value).take(rows), fine


def _numbers(part: Batch) -> IntArray:
    """The row numbers that ``_rows`` added to the end of the order."""
    numbers = part.order[-2]
    assert isinstance(numbers, np.ndarray)
    return numbers


def _was_old(part: Batch) -> BoolArray:
    """True for rows with old values."""
    is_old = part.order[-1]
    assert isinstance(is_old, np.ndarray)
    return np.equal(is_old, 1)

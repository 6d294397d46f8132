"""``transform_values``: the values of a table through a transformer of the user's (``KTableTransformValues``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.arrays import BoolArray
from penstock.batch import Batch, Changes
from penstock.columns import Column, ValuesColumn
from penstock.errors import ProcessingError
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.processors.context import TaskProcessorContext
from penstock.ops.processors.views import Views
from penstock.ops.tables.table import TableMapValues, TableWriter, row_numbers_of
from penstock.plan.processors import ProcessorFunction
from penstock.serdes import Serde


class TransformValues(TableMapValues):
    """Calls the transformer with each new value, deletions too, and with each old one that somebody needs and no store
    has."""

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
    ):
        super().__init__(Caller(node, supplier.function, context), value, sends_old, store)
        self.node = node
        self._context = context
        self._supplier = supplier
        self._views = views
        self._context_of = context_of
        self._own = context_of()
        self._transformer: Any = None

    def start(self) -> None:
        """Make the transformer, unless it is there."""
        if self._transformer is not None:
            return
        self._own = self._context_of()
        transformer: Any = self._supplier.make()
        self._views.on_refused = self._own.refused
        with self._views.open(None):
            transformer.init(self._own)
        self._check_only_returns()
        self._transformer = transformer

    def restart(self) -> None:
        """The transaction was rolled back: a new transformer takes the place of this one."""
        self._views.abandon()
        self.close()

    def close(self) -> None:
        transformer, self._transformer = self._transformer, None
        if transformer is not None:
            transformer.close()

    def step(self, batch: Batch) -> Changes | None:
        self.start()
        return super().step(batch)

    def mapped(self, batch: Batch, values: Column, is_old: bool = False) -> tuple[Column, BoolArray]:
        """The transformed values of all rows; and for which rows the transformer did not fail."""
        self.start()
        part = Batch(batch.key, values, batch.timestamp, batch.order, batch.headers, batch.placed)
        part = replace(part, order=(*part.order, np.arange(len(part))))
        part = self._context.decoded(self.node, part, "key", "value")
        caller = self._caller.of_old_values() if is_old else self._caller
        with self._views.open(batch.key):
            self._own.begin(part)
            kept, results = caller.each(self._transformed, part, part.key.decoded(), part.value.decoded())
            self._own.end()
        self._check_only_returns()
        column: Column = ValuesColumn(results, self._value)
        if self._store is not None:
            kept = caller.context.encoded(self.node, kept.with_value(column), "value")
            column = kept.value
        return self._in_place(kept, column, len(batch))

    def _check_only_returns(self) -> None:
        """Refuse a transformer that forwarded or scheduled something, in ``init`` or for a row."""
        if self._own.take_forwarded()[0]:
            raise ProcessingError(
                f"{self.node}: a transformer of transform_values cannot forward; it returns the value"
            )
        if self._own.has_scheduled:
            raise ProcessingError(
                f"{self.node}: a transformer of transform_values cannot schedule punctuations, since it cannot "
                "forward; use table.to_stream().process(...)"
            )

    def _transformed(self, key: Any, value: Any) -> Any:
        try:
            return self._transformer.transform(key, value)
        finally:
            self._own.ends.append(0)

    def _in_place(self, kept: Batch, column: Column, count: int) -> tuple[Column, BoolArray]:
        """The results of the rows that did not fail, null for the others."""
        fine = np.ones(count, np.bool_)
        if len(kept) == count:
            return column, fine
        fine[:] = False
        fine[row_numbers_of(kept)] = True
        rows = np.full(count, len(kept))
        rows[fine] = np.arange(len(kept))
        return ValuesColumn([*column.decoded(), None], self._value).take(rows), fine

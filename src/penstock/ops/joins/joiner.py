"""Joiners: user functions of the values of both sides."""

from __future__ import annotations

import numpy as np

from penstock.arrays import BoolArray
from penstock.columns.batch import Batch
from penstock.columns.column import Column, ValuesColumn, null_column
from penstock.columns.returned import from_arrow
from penstock.ops.core.functions import Caller
from penstock.ops.tables.table import did_not_fail, row_numbers_of
from penstock.serdes import Serde


class Joiner:
    """Calls a function of (left, right), (key, left, right) or, with a global table, (key, mapped key, left, right).

    Args:
        swapped: True if the records come from the right side.
    """

    def __init__(self, caller: Caller, value: Serde, swapped: bool = False):
        self._caller = caller
        self._value = value
        self._swapped = swapped

    @property
    def node(self) -> str:
        return self._caller.node

    @property
    def takes_mapped_keys(self) -> bool:
        """Whether the function takes the keys that were looked up."""
        return self._caller.function.arity == 4

    def join(self, batch: Batch, own: Column, other: Column, mapped: Column | None = None) -> tuple[Batch, Column]:
        """The results for all records, and the batch without the records for which the function failed.

        Args:
            mapped: the keys that were looked up, for a function that takes them.
        """
        columns = [other, own] if self._swapped else [own, other]
        if self.takes_mapped_keys:
            assert mapped is not None
            columns.insert(0, mapped)
        if self._caller.function.arity >= 3:
            columns.insert(0, batch.key)
        if self._caller.function.columnar:
            arrays = self._caller.columns(batch, *(column.arrow() for column in columns))
            return batch, from_arrow(arrays, self._value)
        batch, results = self._caller.rows(batch, *(column.decoded() for column in columns))
        return batch, ValuesColumn(results, self._value)

    def of_old_values(self) -> Joiner:
        """Return this joiner for previous values, whose failures are counted already."""
        return Joiner(self._caller.of_old_values(), self._value, self._swapped)

    def join_where(self, mask: BoolArray, batch: Batch, own: Column, other: Column) -> tuple[Column, BoolArray]:
        """The results where the mask is true, null elsewhere; and True for the records whose function did not fail."""
        count = len(batch)
        rows = np.flatnonzero(mask)
        columns = (batch.key, own, batch.timestamp, (*batch.order, np.arange(count)), batch.headers, batch.placed)
        part = Batch(*columns, held=batch.held)
        if len(rows) < count:
            part, own, other = part.take(rows), own.take(rows), other.take(rows)
        kept, results = self.join(part, own, other)
        kept = self._caller.context.encoded(self.node, kept.with_value(results), "value")
        results = kept.value
        if len(kept) == count:
            return results, np.ones(count, np.bool_)
        places = np.full(count, len(kept), np.int64)
        places[row_numbers_of(kept)] = np.arange(len(kept))
        return results.join([null_column(1, self._value)]).take(places), did_not_fail(batch, rows, kept)

"""``flat_map`` and ``flat_map_values``: any number of records for each one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from penstock.columns.batch import Batch
from penstock.columns.column import ValuesColumn
from penstock.ops.core.functions import Caller, is_pair, row_numbers
from penstock.ops.core.operator import Collector, Operator
from penstock.record import Record
from penstock.serdes import Serde


class FlatMap(Operator):
    """Emits the pairs that a function returns for each record; ``key`` is None if it returns only values."""

    def __init__(self, caller: Caller, key: Serde | None, value: Serde):
        self._caller = caller
        self._key = key
        self._value = value

    def step(self, batch: Batch, out: Collector) -> None:
        arguments = [batch.value.decoded()]
        if self._caller.function.arity == 2:
            arguments.insert(0, batch.key.decoded())
        batch, results = self._caller.rows(batch, *arguments, iterated=True)
        expected = "values to iterate over" if self._key is None else "pairs (key, value) to iterate over"
        one = "[result]" if self._key is None else "[(key, value)]"
        way = f"for one result return {one}, for none []; a text or a dict is not taken apart"
        batch, results = self._caller.check(batch, results, _is_iterable, expected, way)
        batch, lists = self._caller.each(list, batch, results)  # runs a generator
        if self._key is not None:
            batch, lists = self._caller.check(batch, lists, _are_pairs, expected, way)
        parts = iter if self._key is None else chain.from_iterable
        batch, lists = self._caller.only_results(batch, lists, parts=parts)
        rows, within = row_numbers([len(items) for items in lists])
        several = batch.take(rows)
        several = replace(several, order=(*several.order, within))
        items = list(chain.from_iterable(lists))
        if self._key is not None:
            several = several.with_key(ValuesColumn([item[0] for item in items], self._key))
            items = [item[1] for item in items]
        out.emit(several.with_value(ValuesColumn(items, self._value)))


def _is_iterable(result: Any) -> bool:
    return hasattr(result, "__iter__") and not isinstance(result, str | bytes | bytearray | Mapping | Record)


def _are_pairs(items: list[Any]) -> bool:
    return all(map(is_pair, items))

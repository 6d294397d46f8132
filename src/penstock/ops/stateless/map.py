"""``map``, ``map_values`` and ``select_key`` on streams."""

from __future__ import annotations

from penstock.columns.batch import Batch
from penstock.columns.column import ValuesColumn
from penstock.columns.returned import from_arrow
from penstock.ops.core.functions import Caller
from penstock.ops.core.operator import Collector, Operator
from penstock.plan.expressions.typed import Evaluation
from penstock.serdes import Serde


class Map(Operator):
    """New keys and values."""

    def __init__(self, caller: Caller, key: Serde, value: Serde):
        self._caller = caller
        self._key = key
        self._value = value

    def step(self, batch: Batch, out: Collector) -> None:
        batch, key, value = self._caller.pairs(batch, self._key, self._value)
        out.emit(batch.with_key(key).with_value(value))


class MapValues(Operator):
    """New values under the same keys."""

    def __init__(self, caller: Caller, value: Serde):
        self._caller = caller
        self._value = value

    def step(self, batch: Batch, out: Collector) -> None:
        batch, value = self._caller.column(batch, self._value)
        out.emit(batch.with_value(value))


class SelectKey(Operator):
    """New keys for the same values."""

    def __init__(self, caller: Caller, key: Serde):
        self._caller = caller
        self._key = key

    def step(self, batch: Batch, out: Collector) -> None:
        if self._caller.function.columnar:
            keys = self._caller.columns(batch, batch.key.arrow(), batch.value.arrow())
            out.emit(batch.with_key(from_arrow(keys, self._key)))
        elif isinstance(self._caller.function.call, Evaluation):
            batch, found = self._caller.column(batch, self._key)
            out.emit(batch.with_key(found))
        else:
            batch, given = self._caller.rows(batch, batch.key.decoded(), batch.value.decoded())
            out.emit(batch.with_key(ValuesColumn(given, self._key)))

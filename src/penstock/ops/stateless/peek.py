"""``peek`` and ``foreach``: a function called for its effect."""

from __future__ import annotations

from penstock.columns.batch import Batch
from penstock.ops.core.functions import Caller
from penstock.ops.core.operator import Collector, Operator


class Peek(Operator):
    """Calls a function with each record and hands the records on."""

    def __init__(self, caller: Caller):
        self._caller = caller

    def step(self, batch: Batch, out: Collector) -> None:
        if self._caller.function.columnar:
            self._caller.call_columnar(batch, batch.key.arrow(), batch.value.arrow())
        else:
            batch, _ = self._caller.rows(batch, batch.key.decoded(), batch.value.decoded())
        out.emit(batch)

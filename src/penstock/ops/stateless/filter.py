"""``filter`` and ``filter_not`` on streams."""

from __future__ import annotations

from penstock.columns.batch import Batch
from penstock.ops.core.functions import Caller
from penstock.ops.core.operator import Collector, Operator


class Filter(Operator):
    """Keeps the records for which a predicate is true, or for which it is false."""

    def __init__(self, caller: Caller, negate: bool):
        self._caller = caller
        self._negate = negate

    def step(self, batch: Batch, out: Collector) -> None:
        batch, holds = self._caller.predicate(batch)
        out.emit(batch.keep(~holds if self._negate else holds))

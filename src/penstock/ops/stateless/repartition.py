"""The filter before a repartition topic, which leaves out records without a key."""

from __future__ import annotations

from penstock.columns.batch import Batch
from penstock.handlers import PRODUCTION
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Collector, Operator


class KeyFilter(Operator):
    """Leaves out the records without a key, silently, as Kafka Streams does before repartition topics.

    Args:
        keeps_null_keys: let them through, because a later join needs them.
    """

    def __init__(self, node: str, context: Context, keeps_null_keys: bool = False):
        self._keeps_null_keys = keeps_null_keys
        self._node = node
        self._context = context

    def step(self, batch: Batch, out: Collector) -> None:
        batch = self._context.encoded(self._node, batch, "key", kind=PRODUCTION)
        missing = batch.key.null_mask()
        out.emit(batch if missing is None or self._keeps_null_keys else batch.keep(~missing))

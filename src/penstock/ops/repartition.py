"""What comes before a repartition topic: records without a key vanish."""

from __future__ import annotations

from penstock.batch import Batch
from penstock.ops.base import Operator
from penstock.ops.context import Context


class KeyFilter(Operator):
    """Leaves out the records without a key, silently, as Kafka Streams does before repartition topics."""

    def __init__(self, node: str, context: Context):
        self._node = node
        self._context = context

    def step(self, batch: Batch) -> Batch:
        batch = self._context.encoded(self._node, batch, "key")
        missing = batch.key.null_mask()
        return batch if missing is None else batch.keep(~missing)

"""Records as they come in: their time, and whether they can be read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.batch import Batch
from penstock.metrics import LATENESS
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.core.operator import Operator
from penstock.plan.functions import UserFunction
from penstock.state.clock import StreamTime
from penstock.times import parsed


class Source(Operator):
    """Takes the time from where the user says, and finds records that do not decode before anybody works on them.

    Args:
        clock: the stream time of this source's records; how far each is behind it is its lateness.
        decodes: which of ``key`` and ``value`` somebody downstream looks into; the others are not decoded.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        timestamp: UserFunction | None,
        decodes: tuple[str, ...],
        clock: StreamTime,
    ):
        self._node = node
        self._context = context
        self._timestamp = None if timestamp is None else Caller(node, timestamp, context)
        self._decodes = decodes
        self._clock = clock

    def step(self, batch: Batch) -> Batch:
        batch = self._context.decoded(self._node, batch, *self._decodes)
        if self._timestamp is not None:
            batch = self._with_time(batch, self._timestamp)
        self._context.observe(LATENESS, self._node, self._clock.advance(batch.timestamp) - batch.timestamp)
        return batch

    def _with_time(self, batch: Batch, caller: Caller) -> Batch:
        values = batch.value.decoded()
        arguments = [values] if caller.function.arity == 1 else [batch.key.decoded(), values]
        batch, times = caller.rows(batch, *arguments)
        batch, times = caller.check(batch, times, _is_time, _EXPECTED)
        return replace(batch, timestamp=np.array([parsed(time) for time in times], np.int64))


_EXPECTED = "the record's time, an int of milliseconds that is not negative"


def _is_time(value: object) -> bool:
    time = parsed(value)
    return time is not None and 0 <= time < 2**63

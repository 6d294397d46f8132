"""Records as they arrive: sets their times and checks that they can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from penstock.columns.batch import Batch
from penstock.figures.metrics import LATENESS
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.stateless.left_out import LeftOut
from penstock.ops.stateless.timestamps import EXPECTED, INVALID, ExtractedTimes, is_time
from penstock.plan.functions import UserFunction
from penstock.plan.timestamps import Extractor, extractor_of
from penstock.state.clock import StreamTime
from penstock.values.times import parsed
from penstock.values.timestamps import FailOnInvalidTimestamp


class Source(Operator):
    """Sets the time of each record as the user says, and leaves out records that do not decode before any step uses
    them.

    Args:
        clock: returns clocks by name: the clock of the source, which record lateness is measured against, and those of
            partitions.
        is_internal: True if it reads a repartition topic.
        left_out: notices fields of values that their type does not have; None where nothing is lost by that.
        decodes: which of ``key`` and ``value`` later steps use; the others are not decoded.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        timestamp: UserFunction | Extractor | None,
        decodes: tuple[str, ...],
        clock: Callable[[str], StreamTime],
        is_internal: bool = False,
        left_out: LeftOut | None = None,
    ):
        self._node = node
        self._context = context
        self._timestamp = Caller(node, timestamp, context) if isinstance(timestamp, UserFunction) else None
        extractor = timestamp if isinstance(timestamp, Extractor) else FAIL_ON_INVALID
        self._extracted = ExtractedTimes(node, extractor, context, clock)
        self._carries = isinstance(timestamp, UserFunction) or is_internal
        self._extracts = isinstance(timestamp, Extractor)
        self._decodes = decodes
        self._left_out = left_out
        self._clock = clock(node)

    def step(self, batch: Batch, out: Collector) -> None:
        if self._left_out is not None:
            self._left_out.look(batch.value)
        batch = self._context.read(self._node, batch, *self._decodes)
        if self._timestamp is not None:
            batch = self._with_time(batch, self._timestamp)
        elif self._extracts or (not self._carries and len(batch) and int(batch.timestamp.min()) < 0):
            batch = self._extracted.of(batch)
        self._context.observe(LATENESS, self._node, self._clock.advance(batch.timestamp) - batch.timestamp)
        out.emit(batch)

    def _with_time(self, batch: Batch, caller: Caller) -> Batch:
        values = batch.value.decoded()
        arguments = [values] if caller.function.arity == 1 else [batch.key.decoded(), values]
        batch, times = caller.rows(batch, *arguments)
        if set(map(type, times)) != {int}:
            times = [one if (ms := parsed(one)) is None else ms for one in times]  # invalid times are refused below
        batch, times = caller.check(batch, times, is_time, EXPECTED)
        batch = replace(batch, timestamp=np.array(times, np.int64))
        self._context.drop(self._node, batch.position[batch.timestamp < 0], INVALID)
        return batch.keep(batch.timestamp >= 0)


FAIL_ON_INVALID = extractor_of(FailOnInvalidTimestamp)

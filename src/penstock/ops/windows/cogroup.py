"""``cogroup``: several grouped streams aggregated together, each with its own aggregator.

The values of all streams pass through the same step, each as a pair of its side and the value itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.arrays import Binary, BoolArray, IntArray, nulls
from penstock.columns.batch import Batch
from penstock.columns.column import Column, ValuesColumn, pick
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Collector, Operator
from penstock.serdes import BYTES
from penstock.state.clock import StreamTime


class SidedColumn(ValuesColumn):
    """Values of several streams, as pairs (side, value); null where the value is null. They have no bytes."""

    __slots__ = ()

    def take(self, rows: IntArray) -> Column:
        return SidedColumn(pick(self._values, rows), self.serde)

    def null_mask(self) -> BoolArray | None:
        missing = np.array([value is None for _, value in self._values], np.bool_)
        return missing if missing.any() else None

    def encoded(self) -> Binary:
        return nulls(len(self._values))

    def sides(self) -> IntArray:
        """The side of each value."""
        return np.array([side for side, _ in self._values], np.int64)

    def _join(self, every: list[Any]) -> Column:
        return SidedColumn([value for column in every for value in column._values], self.serde)


class CogroupInput(Operator):
    """Marks the values of one of the streams with its side."""

    def __init__(self, node: str, context: Context, side: int):
        self._node = node
        self._context = context
        self._side = side

    def step(self, batch: Batch, out: Collector) -> None:
        batch = self._context.encoded(self._node, batch, "key", "value")
        side = self._side
        out.emit(batch.with_value(SidedColumn([(side, value) for value in batch.value.decoded()], BYTES)))


class SideTimes:
    """The stream times of the sides, one for each."""

    def __init__(self, clocks: list[StreamTime]):
        self._clocks = clocks

    def observe(self, batch: Batch) -> IntArray:
        """The stream time of its side at each record, including that record."""
        assert isinstance(batch.value, SidedColumn)
        sides = batch.value.sides()
        times = np.empty(len(batch), np.int64)
        for side, clock in enumerate(self._clocks):
            rows = np.flatnonzero(sides == side)
            times[rows] = clock.advance(batch.timestamp[rows])
        return times


class OneTime:
    """The stream time of one operator."""

    def __init__(self, clock: StreamTime):
        self._clock = clock

    @property
    def now(self) -> int:
        return self._clock.now

    def observe(self, batch: Batch) -> IntArray:
        """The stream time at each record, including that record."""
        return self._clock.advance(batch.timestamp)


ObservedTime = OneTime | SideTimes

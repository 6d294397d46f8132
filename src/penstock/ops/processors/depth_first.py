"""Processors in tasks that process records depth first: what they forward is processed at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.columns.batch import Batch, Order, Origins, order_columns
from penstock.columns.column import Column
from penstock.figures.moving import moving
from penstock.ops.core.operator import Collector
from penstock.ops.processors.context import TaskProcessorContext
from penstock.ops.processors.forwarded import Forwarded
from penstock.ops.processors.operator import Process, records_of
from penstock.ops.processors.punctuations import BEHIND
from penstock.plan.functions import UserFunction
from penstock.processor import PunctuationType
from penstock.record import Record
from penstock.usage.calls import refuse_result


class DepthFirstContext(TaskProcessorContext):
    """The context of a processor that forwards at once: ``forward`` returns when all later steps have processed the
    record."""

    of: DepthFirstProcess

    def forward(self, record: Record, child: str | None = None) -> None:
        if not self.of.is_depth_first or self._is_starting or type(record) is not Record:
            super().forward(record, child)
            return
        to = {} if child is None else {0: self._number_of(child)}
        self.of.send(record, to)


class DepthFirstProcess(Process):
    """A processor that takes either one record at a time, or a chunk like every other processor."""

    is_depth_first = False
    """True if forwarded records are processed at once."""
    down: Collector
    """Processes records at once."""
    failure: BaseException | None = None
    """The error of a later step, which is reported already."""

    _order: Order = ()
    _number = 0
    """The number of records forwarded so far at the current place in the processing order."""
    _given: Column | None = None
    _held: Origins | None = None

    def new_context(self) -> TaskProcessorContext:
        own = super().new_context()
        assert isinstance(own, DepthFirstContext)
        own.of = self
        return own

    def receive(self, record: Batch) -> None:
        """Process one record and everything that it causes."""
        record = self._context.decoded(self.node, record, "key", "value")
        if not len(record):
            return
        own = self._begin()
        moving.steps += 1
        depth = max(len(record.order), 4)
        self._order, self._number = tuple(order_columns(record.order, 1, depth)), 0
        self._given, self._held = record.key, record.held
        with self.views.open(None):
            own.begin(record)
            try:
                refuse_result(self._hosted.process(next(records_of(record))))
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._failed(own.position(), error, self._supplier.function)
            own.end()
        self._go_on()

    def send(self, record: Record, to: dict[int, int]) -> None:
        """Send on a forwarded record at once."""
        order = (*self._order, np.array([self._number]))
        self._number += 1
        try:
            self._emit(Forwarded([record], to, order, self._given, self._held), self.down)
        except BaseException as error:
            self.failure = error
            raise
        self.views.report()

    # --- punctuations --------------------------------------------------------------------------------------------

    def call_next(self, type_: PunctuationType, position: int, now: int) -> None:
        """Call the next punctuation, and process everything that it causes."""

        def failed(callback: Callable[[int], object], error: BaseException) -> None:
            self._failed(position, error, UserFunction(callback, 1, False, self._supplier.function.where))

        own = self._begin()
        scheduled = own.queues[type_].next_at()
        self._order, self._number = (np.array([position]), BEHIND, scheduled or 0, self.number), 0
        self._given = self._held = None
        with self.views.open(None):
            next(own.call_due(type_, now, failed), None)
        self._go_on()

    def _failed(self, position: int | None, error: BaseException, function: UserFunction) -> None:
        if error is self.failure:
            raise error
        self._fail(position, error, function)

    def _go_on(self) -> None:
        """Raise an error that the processor caught although it must stop the program."""
        if self.failure is not None:
            raise self.failure

"""Operators that have something of the user's with a life of its own: a processor, or a transformer of values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.batch import NO_RECORD
from penstock.calls import refuse_result
from penstock.errors import PenstockError, ProcessingError
from penstock.messages import describe
from penstock.ops.core.arrivals import NO_ARRIVALS
from penstock.ops.core.context import Context
from penstock.ops.core.failures import users_lines
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.processors.context import TaskProcessorContext
from penstock.ops.processors.views import Views
from penstock.plan.processors import ProcessorFunction
from penstock.processor import STREAM_TIME, WALL_CLOCK_TIME, PunctuationType


class Hosting(Operator):
    """Has it made when the first chunk comes, for then its stores are there, and calls its punctuations.

    Args:
        context_of: makes the context of a new one.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        supplier: ProcessorFunction,
        views: Views,
        context_of: Callable[[], TaskProcessorContext],
    ):
        self.node = node
        self._context = context
        self._supplier = supplier
        self.views = views
        self._context_of = context_of
        self._hosted: Any = None
        self.own = self.new_context()
        self._reached = -1
        """The position of the last record of the chunk that came here."""

    def new_context(self) -> TaskProcessorContext:
        """The context of a new one."""
        return self._context_of()

    # --- its life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Make it, unless it is there."""
        if self._hosted is not None:
            return
        self.own = self.new_context()
        self.views.on_refused = self.own.refused
        with self.views.open(None):
            made = self._made_ready()
        self.own.started()
        self._check_start()
        self._hosted = made

    def _made_ready(self) -> Any:
        """One that the user's supplier has made, and that knows its context."""
        try:
            made = self._supplier.make()
            refuse_result(made.init(self.own), f"{self.node}: init", ProcessingError)
        except PenstockError:
            raise
        except Exception as error:
            lines = "".join(f"\n  the line: {line}" for line in users_lines(error))
            raise ProcessingError(
                f"{self.node} could not be made ready: {describe(error)}{lines}\n  nothing of this batch was "
                "committed; mend the processor's supplier or its init, and start again"
            ) from error
        return made

    @abstractmethod
    def _check_start(self) -> None:
        """Refuse what it may not do in ``init``."""

    def restart(self) -> None:
        """The transaction was rolled back: it may know what never happened, so a new one takes its place."""
        self.views.abandon()
        self.close()

    def close(self) -> None:
        """End its life."""
        hosted, self._hosted = self._hosted, None
        if hosted is not None:
            hosted.close()

    def _begin(self) -> TaskProcessorContext:
        self.start()
        arrivals = self._context.chunk.arrivals
        self.own.arrivals = NO_ARRIVALS if arrivals is None else arrivals
        return self.own

    # --- punctuations --------------------------------------------------------------------------------------------

    def next_at(self, type_: PunctuationType) -> int | None:
        """When its next punctuation is due."""
        return self._begin().queues[type_].next_at()

    def end_of_chunk(self, out: Collector) -> None:
        """Call the punctuations that are due behind the last record that came here."""
        own = self._begin()
        position, self._reached = own.next_punctuation(self._reached), -1
        if position is None:
            return
        with self.views.open(None):
            while position is not None:
                self._punctuate(position, own.arrivals.time_at(position), STREAM_TIME)
                position = own.next_punctuation(self._reached)
        self._send_punctuated(out)

    def punctuate(self, out: Collector) -> None:
        now, at = self._context.facts.wall_clock_ms(), self.next_at(WALL_CLOCK_TIME)
        if at is not None and at <= now:
            with self.views.open(None):
                self._punctuate(NO_RECORD, now, WALL_CLOCK_TIME)
            self._send_punctuated(out)

    @abstractmethod
    def _punctuate(self, position: int, now: int, type_: PunctuationType) -> None:
        """Call all punctuations whose time has come."""

    def _send_punctuated(self, out: Collector) -> None:
        """Emit what punctuations forwarded."""
        return

"""Operators that host a user's object with a life cycle: a processor, or a transformer of values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.columns.batch import NO_RECORD
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
from penstock.usage.calls import refuse_result


class Hosting(Operator):
    """Creates the object at the first chunk, when its stores are open, and calls its punctuations.

    Args:
        context_of: creates the context of a new object.
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
        """The position of the last record of the chunk that reached this step."""

    def new_context(self) -> TaskProcessorContext:
        """Create the context of a new object."""
        return self._context_of()

    # --- its life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Create the object, unless it exists."""
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
                "committed; fix the processor's supplier or its init, and start again"
            ) from error
        return made

    @abstractmethod
    def _check_start(self) -> None:
        """Refuse actions that are not allowed in ``init``."""

    def restart(self) -> None:
        """Replace the object after a rollback, since it may know of things that never happened."""
        self.views.abandon()
        self.close()

    def close(self) -> None:
        """Close the object."""
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
        """The time of its next punctuation."""
        return self._begin().queues[type_].next_at()

    def end_of_chunk(self, out: Collector) -> None:
        """Call the punctuations that are due after the last record that reached this step."""
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
        """Call all punctuations that are due."""

    def _send_punctuated(self, out: Collector) -> None:
        """Emit the records that punctuations forwarded."""
        return

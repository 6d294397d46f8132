"""The operator interface: an operator takes a chunk of records and emits its results to a collector."""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.columns.batch import Batch


class Collector(ABC):
    """Takes the records that one step emits, and brings them to the steps after it."""

    sends_at_once = False
    """True if emitted records need not wait for anything else, so that a step may emit in small pieces."""
    is_seen = False
    """True if a later step reads this step's store. Then the step must emit each result of a record right after storing
    it, before it stores the next."""

    @abstractmethod
    def emit(self, batch: Batch | None, branch: int | None = None) -> None:
        """Send records on, in processing order; None stands for no records.

        Args:
            branch: the one later step that gets them; None for all.
        """


class Operator(ABC):
    """One node at work inside one task. It knows its stores and its context, but not where it runs."""

    @abstractmethod
    def step(self, batch: Batch, out: Collector) -> None:
        """Emit the results of a chunk of records."""

    def end_of_chunk(self, out: Collector) -> None:
        """Emit results of the chunk as a whole, rather than of one record; called even if no record reached this
        step."""
        return

    def advance_time(self, out: Collector) -> None:
        """Emit results that are due because time has advanced without a record."""
        return

    def punctuate(self, out: Collector) -> None:
        """Call the punctuations that are due by the wall clock."""
        return

    @property
    def flushes(self) -> bool:
        """True if the operator may hold results back until the commit."""
        return type(self).flush is not Operator.flush

    def flush(self, out: Collector) -> None:
        """Emit the results that were held back until the commit."""
        return

    def release(self, out: Collector) -> None:
        """Emit those of these results that no further record can change."""
        return


class PassThrough(Operator):
    """Hands records on unchanged; enough for sources, merges and branches."""

    def step(self, batch: Batch, out: Collector) -> None:
        out.emit(batch)


class TwoSided(Operator):
    """An operator with two inputs, which it tells apart."""

    @abstractmethod
    def step_both(self, left: Batch | None, right: Batch | None, out: Collector) -> None:
        """Emit the results of a chunk whose records come from either input."""

    def step(self, batch: Batch, out: Collector) -> None:
        self.step_both(batch, None, out)

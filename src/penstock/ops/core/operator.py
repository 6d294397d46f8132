"""What an operator is: it takes a chunk of records, and a collector takes what it sends on."""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.batch import Batch


class Collector(ABC):
    """Takes what one step sends on, and brings it to the steps behind."""

    sends_at_once = False
    """Whether what is emitted need not wait for anything else, so that a step may emit much in pieces."""
    is_seen = False
    """Whether a step behind sees this one's store: then each result of a record is emitted when the store has it, and
    not yet the next."""

    @abstractmethod
    def emit(self, batch: Batch | None, branch: int | None = None) -> None:
        """Send records on, in processing order; None stands for no records.

        Args:
            branch: the one of the steps behind that gets them; None for all.
        """


class Operator(ABC):
    """One node at work inside one task. It knows its stores and its context, and nothing of where it runs."""

    @abstractmethod
    def step(self, batch: Batch, out: Collector) -> None:
        """Emit what becomes of a chunk of records."""

    def end_of_chunk(self, out: Collector) -> None:
        """Emit what a chunk causes that is no answer to one of its records; called even if none of them came here."""
        return

    def advance_time(self, out: Collector) -> None:
        """Emit what becomes due because time went on without a record."""
        return

    def punctuate(self, out: Collector) -> None:
        """Call the punctuations that are due by the wall clock."""
        return

    @property
    def flushes(self) -> bool:
        """Whether something may be held back until the commit."""
        return type(self).flush is not Operator.flush

    def flush(self, out: Collector) -> None:
        """Emit what was held back until the commit."""
        return


class PassThrough(Operator):
    """Hands records on as they are; sources, merges and branches need no more."""

    def step(self, batch: Batch, out: Collector) -> None:
        out.emit(batch)


class TwoSided(Operator):
    """An operator that tells apart what comes from the first and what from the second step above it."""

    @abstractmethod
    def step_both(self, left: Batch | None, right: Batch | None, out: Collector) -> None:
        """Emit what becomes of the records of a chunk that come from either side."""

    def step(self, batch: Batch, out: Collector) -> None:
        self.step_both(batch, None, out)

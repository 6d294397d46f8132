"""What an operator is: a step over one chunk of records, and a flush at each commit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from penstock.batch import Batch


class Operator(ABC):
    """One node at work inside one task. It knows its stores and its context, and nothing of where it runs."""

    @abstractmethod
    def step(self, batch: Batch) -> Batch | tuple[Batch, ...] | None:
        """What becomes of a chunk of records; one batch for each branch if the operator splits."""

    def step_in_pieces(self, batch: Batch) -> Iterator[Batch | tuple[Batch, ...] | None]:
        """What becomes of a chunk in pieces, one after the other, where it may be more than fits in memory."""
        yield self.step(batch)

    def step_singly(self, record: Batch) -> Iterator[Batch | tuple[Batch, ...] | None]:
        """What becomes of one record, so that behind each piece the stores have what it tells, and not yet the next."""
        yield self.step(record)

    def end_of_chunk(self) -> Batch | None:
        """What a chunk causes that is no answer to one of its records; asked for even if none of them came here."""
        return None

    def advance_time(self) -> Batch | None:
        """What becomes due because time went on without a record."""
        return None

    @property
    def flushes(self) -> bool:
        """Whether something may be held back until the commit."""
        return type(self).flush is not Operator.flush

    def flush(self) -> Batch | None:
        """What was held back until the commit."""
        return None


class PassThrough(Operator):
    """Hands records on as they are; sources, merges and branches need no more."""

    def step(self, batch: Batch) -> Batch:
        return batch


class TwoSided(Operator):
    """An operator that tells apart what comes from the first and what from the second step above it."""

    @abstractmethod
    def step_both(self, left: Batch | None, right: Batch | None) -> Batch | None:
        """What becomes of the records of a chunk that come from either side."""

    def step(self, batch: Batch) -> Batch | None:
        return self.step_both(batch, None)

"""The steps of a task, wired up, and what goes in and comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.batch import Batch, merge
from penstock.ops.core.operator import Collector, Operator
from penstock.plan.physical import Part

Inputs = dict[str, Batch]
"""Records by the names of the sources that they go into."""

Outputs = dict[str, list[Batch]]
"""What reached each sink, by its name."""

Write = Callable[[Outputs], None]
"""Takes what reached the sinks."""

Own = Mapping[int, Callable[[Collector], None]]
"""The steps that have something to send on of themselves, by their numbers, and what emits it."""


class Inlet(NamedTuple):
    """One of the steps whose results come into a step."""

    above: int
    """Its number."""
    branch: int
    """Which of its branches comes here."""
    turn: int | None
    """How many of the steps behind it get a record before this one; None when it is the only one."""

    def taken(self, batch: Batch) -> Batch:
        """What comes in of a batch that the step above emits."""
        return batch if self.turn is None else batch.on_branch(self.turn)


class Step(NamedTuple):
    """An operator at its place."""

    part: Part
    operator: Operator
    inlets: tuple[Inlet, ...]
    alone: tuple[int, ...]
    """The steps behind it, if its results meet nothing else on their way and so may go down in pieces."""
    lap: int
    """In which lap around a circle it has its turn."""


class Gathered(Collector):
    """What a step sends on, until somebody takes it."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int | None, Batch]] = []
        """Each with its branch."""

    def emit(self, batch: Batch | None, branch: int | None = None) -> None:
        if batch is not None and len(batch):
            self.pieces.append((branch, batch))

    def batch(self, branch: int = 0) -> Batch | None:
        """All that went down a branch, in processing order; None for no records."""
        pieces = [batch for to, batch in self.pieces if to is None or to == branch]
        if len(pieces) > 1:
            return merge(pieces)
        return pieces[0] if pieces else None

"""The connected steps of a task, and the types of their input and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.columns.batch import Batch, merge
from penstock.ops.core.operator import Collector, Operator
from penstock.plan.physical import Part

Inputs = dict[str, Batch]
"""Records by the names of the sources that they enter."""

Outputs = dict[str, list[Batch]]
"""The output of each sink, by its name."""

Write = Callable[[Outputs], None]
"""Takes the output of the sinks."""

Own = Mapping[int, Callable[[Collector], None]]
"""Steps that send records on their own, by their numbers, with the function that emits them."""


class Inlet(NamedTuple):
    """The connection from a step to a step below it."""

    above: int
    """The number of the step above."""
    branch: int
    """The branch of that step that comes here."""
    turn: int | None
    """How many of its children get a record before this one; None if this is the only one."""

    def taken(self, batch: Batch) -> Batch:
        """Return the part of a batch from the step above that comes in here."""
        return batch if self.turn is None else batch.on_branch(self.turn)


class Step(NamedTuple):
    """An operator at its place."""

    part: Part
    operator: Operator
    inlets: tuple[Inlet, ...]
    alone: tuple[int, ...]
    """The steps below it, if its results are merged with no others and so may be passed down in pieces."""
    lap: int
    """The lap around a cycle in which it has its turn."""


class Gathered(Collector):
    """Collects a step's output until it is taken."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int | None, Batch]] = []
        """Each batch with its branch."""

    def emit(self, batch: Batch | None, branch: int | None = None) -> None:
        if batch is not None and len(batch):
            self.pieces.append((branch, batch))

    def batch(self, branch: int = 0) -> Batch | None:
        """Return all output of a branch, in processing order; None if empty."""
        pieces = [batch for to, batch in self.pieces if to is None or to == branch]
        if len(pieces) > 1:
            return merge(pieces)
        return pieces[0] if pieces else None

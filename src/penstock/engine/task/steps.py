"""The steps of a task, wired up, and what comes out of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.batch import Batch
from penstock.ops.core.operator import Operator
from penstock.plan.physical import Part

Inputs = dict[str, Batch]
"""Records by the names of the sources that they go into."""

Outputs = dict[str, list[Batch]]
"""What reached each sink, by its name."""

Result = Batch | tuple[Batch, ...] | None
"""What becomes of the records that reach a step."""


class Step(NamedTuple):
    """An operator at its place."""

    part: Part
    operator: Operator
    above: tuple[int, ...]
    """The steps whose results come in."""
    branches: tuple[int | None, ...]
    """For each of them, which of its branches this is; None when it has no other."""
    in_pieces: bool
    """Whether its results may go down in pieces, since they meet nothing else on their way."""
    lap: int
    """In which lap around a circle it has its turn."""


Own = Callable[[Step], Result]
"""What a step sends on of itself, besides what becomes of the records that reach it."""

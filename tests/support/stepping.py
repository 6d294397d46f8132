"""Operators alone, without a task around them."""

from __future__ import annotations

from penstock.columns.batch import Batch
from penstock.engine.task.steps import Gathered
from penstock.ops.core.operator import Operator


def stepped(operator: Operator, batch: Batch, branch: int = 0) -> Batch | None:
    """What an operator sends down a branch when it takes a chunk; None for no records."""
    out = Gathered()
    operator.step(batch, out)
    return out.batch(branch)

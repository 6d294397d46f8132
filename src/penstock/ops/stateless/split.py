"""``split``: each record goes down the first branch whose predicate holds."""

from __future__ import annotations

import numpy as np

from penstock.batch import Batch
from penstock.ops.core.functions import Caller
from penstock.ops.core.operator import Operator, PassThrough


class Split(Operator):
    """One batch for each branch; a branch without a predicate takes what is left when its turn comes last."""

    def __init__(self, callers: list[Caller | None]):
        self._callers = callers

    def step(self, batch: Batch) -> tuple[Batch, ...]:
        branches: dict[int, Batch] = {}
        rest = batch
        for index, caller in sorted(enumerate(self._callers), key=lambda pair: pair[1] is None):
            if caller is None:
                branches[index] = rest
                rest = rest.take(np.zeros(0, np.int64))
            else:
                rest, holds = caller.predicate(rest)
                branches[index] = rest.keep(holds)
                rest = rest.keep(~holds)
        return tuple(branches[index] for index in range(len(self._callers)))


class Branch(PassThrough):
    """Takes the batch of its own branch."""

    def __init__(self, index: int):
        self.index = index

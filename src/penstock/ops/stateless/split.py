"""``split``: each record takes the first branch whose predicate is true."""

from __future__ import annotations

from penstock.columns.batch import Batch
from penstock.ops.core.functions import Caller
from penstock.ops.core.operator import Collector, Operator, PassThrough


class Split(Operator):
    """Sends each record down one branch; the branch without a predicate, if any, comes last and takes the rest."""

    def __init__(self, callers: list[Caller | None]):
        self._callers = callers

    def step(self, batch: Batch, out: Collector) -> None:
        rest: Batch | None = batch
        for index, caller in sorted(enumerate(self._callers), key=lambda pair: pair[1] is None):
            if caller is None or rest is None:
                out.emit(rest, index)
                rest = None
            else:
                rest, holds = caller.predicate(rest)
                out.emit(rest.keep(holds), index)
                rest = rest.keep(~holds)


class Branch(PassThrough):
    """Takes the records of its own branch."""

    def __init__(self, index: int):
        self.index = index

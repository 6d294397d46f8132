"""Changes of the left table that go past the right table, ahead of all responses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.batch import Batch, Changes
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Operator
from penstock.ops.tables.lookup import UNKNOWN


class Announce(Operator):
    """Changes of the left table on their way to where results are made, ahead of all responses."""

    def __init__(self, context: Context):
        self._context = context

    def step(self, batch: Batch) -> Batch | None:
        assert isinstance(batch, Changes)
        if self._context.facts.roots is None:
            return None
        return replace(batch.as_stream(), timestamp=np.full(len(batch), UNKNOWN))

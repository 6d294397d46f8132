"""Subscriptions are answered with the right table's values when they arrive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.arrays import Binary, is_missing, is_present, nulls
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import BytesColumn
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.foreign_key.messages import Instruction, LeftValues, Responses, Subscriptions
from penstock.ops.tables.lookup import Lookup
from penstock.serdes import BYTES, Serde


class SubscriptionJoin(Operator):
    """Answers each subscription with the right table's value at its arrival."""

    def __init__(self, right: Lookup, left_key: Serde):
        self._right = right
        self._left_key = left_key

    def step(self, batch: Batch, out: Collector) -> None:
        names_nothing = is_missing(batch.key.encoded())
        known = self._right.find(batch.keep(~names_nothing))
        times = np.maximum(known.batch.timestamp, known.timestamp)
        out.emit(self._responses(replace(known.batch, timestamp=times), known.value.encoded()))
        if names_nothing.any():
            rest = batch.keep(names_nothing)
            out.emit(self._responses(rest, nulls(len(rest))))

    def _responses(self, batch: Batch, found: Binary) -> Changes:
        said = Subscriptions.of(batch)
        instruction = said.instruction
        subscribes = instruction >= Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
        responds = (instruction >= Instruction.DELETE_KEY_AND_PROPAGATE) & (instruction != Instruction.SUPERSEDE)
        responds &= (instruction != Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE) | is_present(found)
        right = found if subscribes.all() else BytesColumn(found, BYTES).where(subscribes).encoded()
        left = said.left
        if said.overtakes.any():
            left = replace(LeftValues.unpacked(left), overtakes=said.overtakes).packed()
        return Responses(said.primary_key, right, left).as_changes(batch, self._left_key).keep(responds)

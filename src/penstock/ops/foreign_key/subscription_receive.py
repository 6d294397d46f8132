"""Subscriptions arrive at the right table and are stored there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.arrays import BoolArray, IntArray, is_present, take
from penstock.columns.batch import Batch
from penstock.ops.core.context import Context
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.written import Written
from penstock.ops.foreign_key.messages import Instruction, Subscriptions
from penstock.state.columns.rows import Values
from penstock.state.kinds.subscription import SubscriptionStore, combined_keys


class SubscriptionReceive(Operator):
    """Stores subscriptions by foreign key and left key."""

    def __init__(self, context: Context, store: SubscriptionStore):
        self._context = context
        self._store = store

    def step(self, batch: Batch, out: Collector) -> None:
        named = batch.keep(is_present(batch.key.encoded()))
        if len(named):
            self._remember(named)
        out.emit(batch)

    def _remember(self, batch: Batch) -> None:
        said = Subscriptions.of(batch)
        keys, codes = group_keys(combined_keys(said.foreign_key, said.primary_key))
        if said.overtakes.any():
            overtaking = keys.data.take(pa.array(codes[said.overtakes]))
            self._context.commit.subscribed_overtaking[self._store.name].append(overtaking)
        groups = Groups.by_number(codes)
        located = self._store.locate(keys)
        before = located.get()
        stays = _stays(groups, said.instruction, is_present(before.data))
        values = Values(batch.value.where(stays).encoded(), batch.timestamp)
        self._context.chunk.note(self._store.name, Written(keys, before, codes, values, batch.order))
        last = groups.last_rows
        self._store.put(located, Values(take(values.data, last), batch.timestamp[last]))


def _stays(groups: Groups, instruction: IntArray, before: BoolArray) -> BoolArray:
    """True where a subscription exists after an instruction; ``before`` says for which keys one existed at the
    start."""
    stays: BoolArray = instruction >= Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
    supersedes = instruction == Instruction.SUPERSEDE
    if not supersedes.any():
        return stays
    steps = 2 * np.arange(len(stays)) + stays[groups.order]
    last = groups.running_max(np.where(supersedes[groups.order], -1, steps))
    there: BoolArray = groups.unsort(np.where(last < 0, before[groups.group], last & 1 == 1))
    return there

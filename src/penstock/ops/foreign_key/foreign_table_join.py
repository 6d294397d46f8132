"""The right table's side of a foreign-key join: sends its changes to subscribers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, concat, is_present, take
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import BytesColumn, null_column
from penstock.ops.core.context import Context
from penstock.ops.core.functions import row_numbers
from penstock.ops.core.groups import group_keys
from penstock.ops.core.left_changes import differ
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.foreign_key.messages import LeftValues, Responses
from penstock.ops.foreign_key.versioned import only_latest
from penstock.ops.tables.lookup import values_as_of
from penstock.serdes import BYTES, Serde
from penstock.state.kinds.subscription import SubscriptionStore


class ForeignTableJoin(Operator):
    """Sends each change of a right row to all subscribers of the row, in the order of their keys."""

    def __init__(
        self,
        node: str,
        context: Context,
        store: SubscriptionStore,
        left_key: Serde,
        is_versioned: bool,
        subscribe: str,
    ):
        self._node = node
        self._subscribe = subscribe
        self._context = context
        self._store = store
        self._left_key = left_key
        self._is_versioned = is_versioned

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        batch = only_latest(self._node, self._context, batch, self._is_versioned)
        foreign, codes = group_keys(batch.key.encoded())
        written = self._context.chunk.written.get(self._store.name)
        found = self._store.subscribers(foreign, None if written is None else written.keys)
        if not len(found.keys):
            return
        counts = np.bincount(found.foreign, minlength=len(foreign))
        begin = np.cumsum(counts) - counts
        row, number = row_numbers(counts[codes])
        subscriber = begin[codes[row]] + number
        right = BytesColumn(batch.value.encoded(), BYTES)
        asked = Batch(null_column(len(batch)), right, batch.timestamp, batch.order, batch.headers).take(row)
        left = values_as_of(self._context, self._store.name, found.values, found.keys, subscriber, asked).data
        there = is_present(left)
        if not there.all():
            chosen = np.flatnonzero(there)
            asked, left = asked.take(chosen), take(left, chosen)
            subscriber, number = subscriber[chosen], number[chosen]
        key = found.left.take(pa.array(subscriber))
        left = self._left_values(left, self._overtaking(found.keys.data)[subscriber])
        left = self._as_changed(key, left, asked.position)
        caused = replace(asked, order=(*asked.order, number))
        out.emit(Responses(key, asked.value.encoded(), left).as_changes(caused, self._left_key))

    @staticmethod
    def _left_values(left: Binary, overtakes: BoolArray) -> Binary:
        """Return the left values of subscriptions, marked where a response may overtake an earlier one."""
        return replace(LeftValues.unpacked(left), overtakes=overtakes).packed() if overtakes.any() else left

    def _overtaking(self, subscriptions: Binary) -> BoolArray:
        """True for subscriptions that arrived while responses to earlier changes may still be in flight, which theirs
        may overtake."""
        if self._context.commit.more_is_waiting:
            return np.ones(len(subscriptions), np.bool_)
        came = self._context.commit.subscribed_overtaking[self._store.name]
        if not came:
            return np.zeros(len(subscriptions), np.bool_)
        found: BoolArray = pc.is_in(subscriptions, value_set=concat(came)).to_numpy(zero_copy_only=False)
        return found

    def _as_changed(self, key: Binary, left: Binary, position: IntArray) -> Binary:
        """Return the left values that responses carry. Those that the causing record has replaced are marked as
        superseded.

        A left row may have been deleted and then set to an equal value again.
        """
        changes = self._context.chunk.left_changes.get(self._subscribe)
        if changes is None:
            return left
        last = changes.last(key, position)
        own = np.flatnonzero(last >= 0)
        had = LeftValues.unpacked(take(left, own))
        is_late = differ(had.value, changes.value.take(pa.array(last[own])))
        altered = np.flatnonzero(is_late | had.superseded)
        if not len(altered):
            return left
        is_late, own = is_late[altered], own[altered]
        value = take(had.value, altered)
        renewed = LeftValues(value, changes.serial[last[own]], superseded=is_late, overtakes=~is_late)
        source = np.arange(len(left))
        source[own] = len(left) + np.arange(len(own))
        return concat([left, renewed.packed()]).take(pa.array(source))

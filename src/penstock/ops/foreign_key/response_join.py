"""Responses arrive back at the left table, where they become results."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, fixed_binary, is_present, take
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import BytesColumn
from penstock.ops.core.context import Context
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.left_changes import LeftChanges, differ
from penstock.ops.core.operator import Collector, TwoSided
from penstock.ops.foreign_key.messages import LeftValues, Responses
from penstock.ops.joins.joiner import Joiner
from penstock.serdes import Serde
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.key_value import KeyValueStore

LATE_RESPONSE = "late-response"
"""The reason of drops of responses to a left value that is no longer the latest."""


class ResponseJoin(TwoSided):
    """Joins the left value and the right value of a response; an inner join deletes its result if there is no right
    value.

    A response is too late if a response to a later change of the same row has overtaken it. To detect this, the join
    remembers the serial numbers of responses that may overtake others: until the commit, and in the store as long as
    late responses may arrive. A response is also too late if the record that caused it has meanwhile changed its left
    row; announcements tell of such changes.
    """

    def __init__(
        self, context: Context, store: KeyValueStore, joiner: Joiner, left: Serde, right: Serde, is_left: bool
    ):
        self._context = context
        self._store = store
        self._here = KeyValueStore(store.name, in_memory=True)
        self._remembers = False
        self._is_empty: bool | None = None
        """True if the store is empty; None before the first look in a commit."""
        self._joiner = joiner
        self._left = left
        self._right = right
        self._is_left = is_left
        self._announced = LeftChanges.none()

    def step_both(self, left: Batch | None, right: Batch | None, out: Collector) -> None:
        if right is not None:
            self._announced = self._announced.followed_by(self._changes(right))
        if left is not None:
            out.emit(self._results(left))

    def _changes(self, batch: Batch) -> LeftChanges:
        """The announced changes, by the record that caused them."""
        assert self._context.facts.roots is not None
        roots = self._context.facts.roots(batch.position)
        return LeftChanges(batch.key.encoded(), batch.value.encoded(), roots, np.zeros(len(batch), np.int64))

    def _changed_meanwhile(self, batch: Batch, left: Binary) -> BoolArray:
        """True for responses to left values that the causing record has replaced."""
        changed = np.zeros(len(batch), np.bool_)
        if len(self._announced.key):
            assert self._context.facts.roots is not None
            last = self._announced.last(batch.key.encoded(), self._context.facts.roots(batch.position))
            own = np.flatnonzero(last >= 0)
            changed[own] = differ(take(left, own), take(self._announced.value, last[own]))
        return changed

    def _results(self, batch: Batch) -> Batch:
        responses = Responses.of(batch)
        left, right = LeftValues.unpacked(responses.left), _sent_back(responses.foreign_value)
        late = self._late(responses.primary_key, left) | self._changed_meanwhile(batch, left.value)
        value = left.value
        if late.any():
            self._context.drop(self._joiner.node, batch.position[late], LATE_RESPONSE)
            kept = np.flatnonzero(~late)
            batch, value, right = batch.take(kept), take(value, kept), take(right, kept)
        has_result = is_present(value) if self._is_left else is_present(right) & is_present(value)
        sides = BytesColumn(value, self._left), BytesColumn(right, self._right)
        joined, fine = self._joiner.join_where(has_result, batch, *sides)
        assert isinstance(batch, Changes)
        return batch.as_stream().with_value(joined).keep(fine)

    def _late(self, primary_key: Binary, left: LeftValues) -> BoolArray:
        """True for responses that are too late."""
        if not left.overtakes.any() and not self._remembers and self._has_nothing_stored():
            return left.superseded
        self._remembers = True
        keys, codes = group_keys(primary_key)
        groups = Groups.by_number(codes)
        last = self._here.get(keys).timestamps
        if not self._has_nothing_stored():
            last = np.maximum(last, self._store.get(keys).timestamps)
        overtaking = np.where(left.overtakes & ~left.superseded, left.serial, -1)[groups.order]
        highest = groups.running_max(np.maximum(overtaking, last[groups.group]))
        raised = np.flatnonzero(highest[groups.ends] > last)
        self._here.put(self._here.locate(keys.take(raised)), _numbers(highest[groups.ends][raised]))
        is_overtaken: BoolArray = groups.unsort(highest) > left.serial
        return left.superseded | is_overtaken

    def flush(self, out: Collector) -> None:
        if not self._context.commit.more_is_waiting:
            self._forget()
        elif (last := self._here.changes()) is not None:
            self._store.put(self._store.locate(last.keys), last.values)
        self._here = KeyValueStore(self._store.name, in_memory=True)
        self._remembers = False
        self._is_empty = None
        if not self._context.commit.more_is_waiting:
            self._announced = self._announced.of_last_record()

    def _forget(self) -> None:
        """Forget all serial numbers once no response can be too late."""
        if not self._has_nothing_stored():
            keys = pa.array([key for key, _, _ in self._store.rows()], pa.binary())
            self._store.delete(self._store.locate(Keys(keys)))

    def _has_nothing_stored(self) -> bool:
        if self._is_empty is None:
            self._is_empty = next(iter(self._store.rows()), None) is None
        return self._is_empty


def _sent_back(right: Binary) -> Binary:
    """Right values as Kafka Streams reads them from responses: empty bytes mean null."""
    empty = pc.equal(pc.binary_length(right), 0)
    return pc.if_else(empty, pa.scalar(None, pa.binary()), right) if pc.any(empty).as_py() else right


def _numbers(numbers: IntArray) -> Values:
    """Rows of empty bytes that hold numbers in place of timestamps."""
    return Values(fixed_binary(np.zeros((len(numbers), 0), np.uint8)), numbers)

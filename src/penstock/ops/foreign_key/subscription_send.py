"""The left table's side of a foreign-key join: sends its changes to the right table as subscriptions."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, BoolArray, IntArray, concat, is_present, take
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import Column
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.core.left_changes import LeftChanges, differ
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.foreign_key.messages import Instruction, LeftValues, Subscriptions
from penstock.ops.foreign_key.silent_table import SilentTable, Touched
from penstock.ops.foreign_key.versioned import only_latest
from penstock.ops.tables.lookup import UNKNOWN
from penstock.ops.tables.table import did_not_fail, present_rows, row_numbers_of
from penstock.serdes import Serde
from penstock.state.clock import StreamTime


class SubscriptionSend(Operator):
    """Sends changes of the left table as subscriptions, under the foreign keys that a function extracts from them.

    A row for which the function fails leaves the join as if it was deleted: its subscription could not be found again.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        caller: Caller,
        foreign_key: Serde,
        is_left: bool,
        is_versioned: bool,
        counter: StreamTime,
        silent: SilentTable | None,
    ):
        self._counter = counter
        self._silent = silent
        self._touched: Touched | None = None
        self._node = node
        self._context = context
        self._caller = caller
        self._foreign_key = foreign_key
        self._is_left = is_left
        self._is_versioned = is_versioned

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        assert batch.old is not None
        batch = only_latest(self._node, self._context, batch, self._is_versioned)
        assert batch.old is not None
        new, fine = self._extracted(self._caller, batch, batch.value)
        old, was_fine = self._extracted(self._caller.of_old_values(), batch, batch.old)
        if not (fine & was_fine).all():
            batch = replace(batch, value=batch.value.where(fine), old=batch.old.where(was_fine))
        out.emit(self._subscriptions(batch, old, new))

    def _extracted(self, caller: Caller, batch: Batch, values: Column) -> tuple[Binary, BoolArray]:
        """The foreign keys of some values, null for a row without one; and True for the rows whose function did not
        fail."""
        present, part = present_rows(batch, values)
        kept, found = caller.written_column(part, self._foreign_key)
        fine = did_not_fail(batch, present, kept)
        if len(kept) == len(batch):
            return found.encoded(), fine
        places = np.full(len(batch), -1, np.int64)
        places[row_numbers_of(kept)] = np.arange(len(kept))
        return found.encoded().take(pa.array(places, mask=places < 0)), fine

    def _subscriptions(self, batch: Changes, old: Binary, new: Binary) -> Changes:
        """For each change, the message to the old foreign key and then the one to the new foreign key."""
        assert batch.old is not None
        exists, existed = is_present(batch.value.encoded()), is_present(batch.old.encoded())
        has, differs = is_present(new), differ(old, new)
        leaves = is_present(old) & differs
        if (existed & ~(exists & has)).any():
            self._context.commit.overtaking.add(self._node)  # the next change may name any row
        if self._is_left:
            (leaving, coming), comes = _left_join(len(batch)), exists | existed
        else:
            (leaving, coming), comes = _inner_join(leaves, has), has
            self._context.drop(self._node, batch.position[exists & ~has], "null-foreign-key")
        turns = _Turns.of(leaves, comes)
        left, every = self._left_values(batch)
        overtakes = (existed & differs)[turns.row] | every
        said = Subscriptions(
            foreign_key=turns.choose(old, new),
            primary_key=take(batch.key.encoded(), turns.row),
            instruction=np.where(turns.second == 0, leaving[turns.row], coming[turns.row]),
            overtakes=overtakes,
            left=take(left.packed(), turns.row),
        )
        return said.as_changes(batch.take(turns.row), self._foreign_key, turns.second)

    def _left_values(self, batch: Changes) -> tuple[LeftValues, bool]:
        """The left values of changes, and True if the responses to all of them may overtake others."""
        serial = self._counter.now + 1 + np.arange(len(batch))
        changes = self._note(LeftChanges(batch.key.encoded(), batch.value.encoded(), batch.position, serial))
        self._counter.now += len(batch)
        superseded = changes.superseded()[: len(batch)]
        commit = self._context.commit
        if superseded.any():
            commit.overtaking.add(self._node)
        every = self._silent is not None or commit.more_is_waiting or self._node in commit.overtaking
        return LeftValues.of(batch.value.encoded(), serial, superseded), every

    def _note(self, sent: LeftChanges) -> LeftChanges:
        """Add the chunk's silent changes to the sent ones, and note all of them."""
        changes = sent
        if self._silent is not None:
            self._touched = rows = self._silent.touched(sent)
            serial = self._counter.now + np.searchsorted(sent.position, rows.position)
            changes = sent.followed_by(LeftChanges(rows.key.encoded(), rows.after.encoded(), rows.position, serial))
        self._context.chunk.left_changes[self._node] = changes
        return changes

    def flush(self, out: Collector) -> None:
        self.end_of_chunk(out)

    def end_of_chunk(self, out: Collector) -> None:
        if self._silent is None:
            return
        if self._touched is None:
            self._note(LeftChanges.none())
        assert self._touched is not None
        rows, self._touched = self._touched.changed(), None
        before = Batch(rows.key, rows.before, np.full(len(rows.position), UNKNOWN), (rows.position,))
        foreign, _ = self._extracted(self._caller.of_old_values(), before, rows.before)
        count = len(before)
        left = LeftValues.of(rows.before.encoded(), np.zeros(count, np.int64), np.ones(count, np.bool_))
        instruction, overtakes = np.full(count, Instruction.SUPERSEDE), np.zeros(count, np.bool_)
        said = Subscriptions(foreign, rows.key.encoded(), instruction, overtakes, left.packed())
        out.emit(said.as_changes(before, self._foreign_key, -1).keep(is_present(foreign)))


class _Turns(NamedTuple):
    """The rows that leave an old foreign key or join a new one, in order: a row leaves before it joins."""

    row: IntArray
    second: IntArray
    """0 for leaving, 1 for joining."""
    rows: int
    """The number of rows."""

    @classmethod
    def of(cls, leaves: BoolArray, comes: BoolArray) -> _Turns:
        gone, there = np.flatnonzero(leaves), np.flatnonzero(comes)
        row = np.concatenate([gone, there])
        second = np.repeat([0, 1], [len(gone), len(there)])
        in_order = np.lexsort((second, row))
        return cls(row[in_order], second[in_order], len(leaves))

    def choose(self, old: Binary, new: Binary) -> Binary:
        """Pick the old foreign key of rows that leave, and the new one of rows that join."""
        if self.second.all():
            return take(new, self.row)
        return concat([old, new]).take(pa.array(self.row + self.second * self.rows))


def _left_join(count: int) -> tuple[IntArray, IntArray]:
    """Instructions for leaving and for joining: a row has a result whether or not there is a right value."""
    return (
        np.full(count, Instruction.DELETE_KEY_NO_PROPAGATE),
        np.full(count, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE),
    )


def _inner_join(leaves: BoolArray, has: BoolArray) -> tuple[IntArray, IntArray]:
    """Instructions for leaving and for joining: the previous result, if any, must be deleted."""
    return (
        np.where(has, Instruction.DELETE_KEY_NO_PROPAGATE, Instruction.DELETE_KEY_AND_PROPAGATE),
        np.where(
            leaves,
            Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE,
            Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE,
        ),
    )

"""Joins of tables by a foreign key: each row of the left table meets the row of the right table that it names.

A change of the left table is sent, as a *subscription*, to the task that has the right table's key; what that has for
it is sent back as a *response*. Kafka Streams sends a hash of the left value along, looks the value up again when the
response comes, and drops it when the value has changed since. Here the value itself travels, so that a result does not
depend on how much is under way at once, and with it a number that grows with every change: where the right table has
several partitions, a change that names another row than the one before may overtake it; the response to the earlier one
then comes after that to the later one, and is dropped.

What one record does is done before any response to it comes. So where it changes a row of the left table twice, or a
row of the left table and the row of the right table that this one named, the responses to the older left value are
dropped, as in Kafka Streams. So are responses to rows that were changed in silence (see ``silent_table``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, concat, fixed_binary, take
from penstock.batch import Batch, Changes, merge
from penstock.columns import BytesColumn, Column, null_column
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.operator import Operator, TwoSided
from penstock.ops.foreign_key.left_changes import LeftChanges, differ, missing
from penstock.ops.foreign_key.messages import (
    DELETE,
    DELETE_AND_RESPOND,
    FORGET,
    RESPOND,
    RESPOND_IF_FOUND,
    SUPERSEDED,
    Numbered,
    instructed,
    instructions_of,
    numbered,
    parts_of,
)
from penstock.ops.foreign_key.silent_table import SilentTable, Touched
from penstock.ops.joins.joiner import Joiner
from penstock.ops.tables.lookup import UNKNOWN, Lookup, values_as_of
from penstock.ops.tables.table import did_not_fail, present_rows, row_numbers_of
from penstock.ops.tables.written import Written
from penstock.serdes import BYTES, Serde
from penstock.state.clock import StreamTime
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.subscription import SubscriptionStore, combined_keys

LATE_RESPONSE = "late-response"
"""The reason of drops of responses to a left value that is not the latest."""


class Subscribe(Operator):
    """Changes of the left table as subscriptions, under the foreign keys that a function takes out of them."""

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

    def step(self, batch: Batch) -> Changes:
        assert isinstance(batch, Changes)
        assert batch.old is not None
        batch = only_latest(self._node, self._context, batch, self._is_versioned)
        assert batch.old is not None
        new, fine = self._extracted(batch, batch.value)
        old, was_fine = self._extracted(batch, batch.old)
        kept = np.flatnonzero(fine & was_fine)
        if len(kept) < len(batch):
            self._context.overtaking.add(self._node)
        batch, new, old = batch.take(kept), take(new, kept), take(old, kept)
        return self._subscriptions(batch, old, new)

    def _extracted(self, batch: Batch, values: Column) -> tuple[Binary, BoolArray]:
        """The foreign keys of some values, null where there is none; and for which the function did not fail."""
        present, part = present_rows(batch, values)
        kept, found = self._caller.written_column(part, self._foreign_key)
        fine = did_not_fail(batch, present, kept)
        if len(kept) == len(batch):
            return found.encoded(), fine
        places = np.full(len(batch), -1, np.int64)
        places[row_numbers_of(kept)] = np.arange(len(kept))
        return found.encoded().take(pa.array(places, mask=places < 0)), fine

    def _subscriptions(self, batch: Changes, old: Binary, new: Binary) -> Changes:
        had, has = ~missing(old), ~missing(new)
        exists = ~missing(batch.value.encoded())
        assert batch.old is not None
        existed = ~missing(batch.old.encoded())
        differs = differ(old, new)
        leaves = had & differs
        if self._is_left:
            leaving = np.full(len(batch), DELETE)
            comes, coming = exists | existed, np.full(len(batch), RESPOND)
        else:
            leaving = np.where(has, DELETE, DELETE_AND_RESPOND)
            comes, coming = has, np.where(leaves, RESPOND, RESPOND_IF_FOUND)
            self._context.drop(self._node, batch.position[exists & ~has], "null-foreign-key")
        gone, there = np.flatnonzero(leaves), np.flatnonzero(comes)
        row = np.concatenate([gone, there])
        second = np.concatenate([np.zeros(len(gone), np.int64), np.ones(len(there), np.int64)])
        in_order = np.lexsort((second, row))
        row, second = row[in_order], second[in_order]
        instruction = np.concatenate([leaving[gone], coming[there]])[in_order]
        keys = take(new, row) if not len(gone) else concat([old, new]).take(pa.array(row + second * len(batch)))
        if (existed & ~(exists & has)).any():
            self._context.overtaking.add(self._node)  # what names nothing now may name anything later
        serial, every = self._serials(batch)
        left = take(numbered(serial, batch.value.encoded()), row)
        return self._sent(keys, instruction, batch.take(row), left, second, (existed & differs)[row] | every)

    def _sent(
        self,
        foreign: Binary,
        instruction: IntArray,
        rows: Batch,
        left: Binary,
        second: IntArray | int,
        overtakes: BoolArray | bool,
    ) -> Changes:
        """Subscriptions of rows of the left table."""
        return Changes(
            BytesColumn(foreign, self._foreign_key),
            BytesColumn(left, BYTES),
            rows.timestamp,
            (*rows.order, second),
            rows.headers,
            old=BytesColumn(instructed(instruction, rows.key.encoded(), overtakes), BYTES),
        )

    def _serials(self, batch: Changes) -> tuple[IntArray, bool]:
        """The serial numbers of changes, and whether all of them may overtake others."""
        serial = self._counter.now + 1 + np.arange(len(batch))
        changes = self._note(LeftChanges(batch.key.encoded(), batch.value.encoded(), batch.position, serial))
        self._counter.now += len(batch)
        superseded = changes.superseded()[: len(batch)]
        if superseded.any():
            self._context.overtaking.add(self._node)
        every = self._silent is not None or self._context.more_is_waiting or self._node in self._context.overtaking
        return np.where(superseded, SUPERSEDED, serial), every

    def _note(self, sent: LeftChanges) -> LeftChanges:
        """All changes of a chunk, when these are sent."""
        changes = sent
        if self._silent is not None:
            self._touched = rows = self._silent.touched(sent)
            serial = self._counter.now + np.searchsorted(sent.position, rows.position)
            changes = sent.followed_by(LeftChanges(rows.key.encoded(), rows.after.encoded(), rows.position, serial))
        self._context.left_changes[self._node] = changes
        return changes

    def flush(self) -> Changes | None:
        return self.unasked()

    def unasked(self) -> Changes | None:
        if self._silent is None:
            return None
        if self._touched is None:
            self._note(LeftChanges.none())
        assert self._touched is not None
        rows, self._touched = self._touched.changed(), None
        before = Batch(rows.key, rows.before, np.full(len(rows.position), UNKNOWN), (rows.position,))
        foreign, _ = self._extracted(before, rows.before)
        left = numbered(np.full(len(before), SUPERSEDED), rows.before.encoded())
        return self._sent(foreign, np.full(len(before), FORGET), before, left, -1, False).keep(~missing(foreign))


class Receive(Operator):
    """Remembers subscriptions by foreign key and left key."""

    def __init__(self, context: Context, store: SubscriptionStore):
        self._context = context
        self._store = store

    def step(self, batch: Batch) -> Batch:
        assert isinstance(batch, Changes)
        named = batch.keep(~missing(batch.key.encoded()))
        if len(named):
            self._remember(named)
        return batch

    def _remember(self, batch: Changes) -> None:
        assert batch.old is not None
        instruction, left_key, overtakes = instructions_of(batch.old.encoded())
        keys, codes = group_keys(combined_keys(batch.key.encoded(), left_key))
        if overtakes.any():
            self._context.subscribed_overtaking[self._store.name].append(keys.data.take(pa.array(codes[overtakes])))
        groups = Groups.by_number(codes)
        located = self._store.locate(keys)
        before = located.get()
        stays = _stays(groups, instruction, ~missing(before.data))
        values = Values(batch.value.where(stays).encoded(), batch.timestamp)
        self._context.written[self._store.name] = Written(keys, before, codes, values, batch.order)
        last = groups.last_rows
        self._store.put(located, Values(take(values.data, last), batch.timestamp[last]))


def _stays(groups: Groups, instruction: IntArray, before: BoolArray) -> BoolArray:
    """Whether there is a subscription after each of some instructions, given for which keys there was one before."""
    stays: BoolArray = instruction >= RESPOND
    forgets = instruction == FORGET
    if not forgets.any():
        return stays
    steps = 2 * np.arange(len(stays)) + stays[groups.order]
    last = groups.running_max(np.where(forgets[groups.order], -1, steps))
    there: BoolArray = groups.unsort(np.where(last < 0, before[groups.group], last & 1 == 1))
    return there


class SubscriptionJoin(Operator):
    """Answers subscriptions with what the right table has when they come."""

    def __init__(self, right: Lookup, left_key: Serde):
        self._right = right
        self._left_key = left_key

    def step(self, batch: Batch) -> Batch:
        assert isinstance(batch, Changes)
        names_nothing = missing(batch.key.encoded())
        known = self._right.find(batch.keep(~names_nothing))
        assert isinstance(known.batch, Changes)
        times = np.maximum(known.batch.timestamp, known.timestamp)
        answers = self._answers(known.batch, known.value, times)
        if not names_nothing.any():
            return answers
        rest = batch.keep(names_nothing)
        return merge([answers, self._answers(rest, null_column(len(rest)), rest.timestamp)])

    def _answers(self, batch: Changes, found: Column, times: IntArray) -> Changes:
        assert batch.old is not None
        said = instructions_of(batch.old.encoded())
        instruction = said.instruction
        answers = (instruction >= DELETE_AND_RESPOND) & (instruction != FORGET)
        answers &= (instruction != RESPOND_IF_FOUND) | ~missing(found.encoded())
        right = BytesColumn(found.encoded(), BYTES).where(instruction >= RESPOND)
        left = batch.value
        if said.overtakes.any():
            serial, value, _ = parts_of(left.encoded())
            left = BytesColumn(numbered(serial, value, said.overtakes), BYTES)
        return Changes(BytesColumn(said.key, self._left_key), right, times, batch.order, old=left).keep(answers)


class ForeignTableJoin(Operator):
    """Tells all subscribers of a changed row of the right table, in the order of their keys."""

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

    def step(self, batch: Batch) -> Batch | None:
        assert isinstance(batch, Changes)
        batch = only_latest(self._node, self._context, batch, self._is_versioned)
        foreign, codes = group_keys(batch.key.encoded())
        written = self._context.written.get(self._store.name)
        found = self._store.subscribers(foreign, None if written is None else written.keys)
        if not len(found.keys):
            return None
        counts = np.bincount(found.foreign, minlength=len(foreign))
        begin = np.cumsum(counts) - counts
        row = np.repeat(np.arange(len(batch)), counts[codes])
        number = np.arange(len(row)) - np.repeat(np.cumsum(counts[codes]) - counts[codes], counts[codes])
        subscriber = begin[codes[row]] + number
        right = BytesColumn(batch.value.encoded(), BYTES)
        asked = Batch(null_column(len(batch)), right, batch.timestamp, batch.order, batch.headers).take(row)
        left = values_as_of(self._context, self._store.name, found.values, found.keys, subscriber, asked).data
        there = ~missing(left)
        if not there.all():
            chosen = np.flatnonzero(there)
            asked, left = asked.take(chosen), take(left, chosen)
            subscriber, number = subscriber[chosen], number[chosen]
        key = found.left.take(pa.array(subscriber))
        overtakes = self._overtaking(found.keys.data)[subscriber]
        if overtakes.any():
            serial, value, _ = parts_of(left)
            left = numbered(serial, value, overtakes)
        left = self._as_changed(key, left, asked.position)
        return Changes(
            BytesColumn(key, self._left_key),
            asked.value,
            asked.timestamp,
            (*asked.order, number),
            asked.headers,
            old=BytesColumn(left, BYTES),
        )

    def _overtaking(self, subscriptions: Binary) -> BoolArray:
        """Which subscriptions came while there may be responses under way which those to them overtake."""
        if self._context.more_is_waiting:
            return np.ones(len(subscriptions), np.bool_)
        came = self._context.subscribed_overtaking[self._store.name]
        if not came:
            return np.zeros(len(subscriptions), np.bool_)
        found: BoolArray = pc.is_in(subscriptions, value_set=concat(came)).to_numpy(zero_copy_only=False)
        return found

    def _as_changed(self, key: Binary, left: Binary, position: IntArray) -> Binary:
        """The values that responses carry: those that the record that causes the response has replaced come too late.

        A row that was forgotten before may have come to be the same again.
        """
        changes = self._context.left_changes.get(self._subscribe)
        if changes is None:
            return left
        last = changes.last(key, position)
        own = np.flatnonzero(last >= 0)
        serial, value, _ = parts_of(left.take(pa.array(own)))
        is_late = differ(value, changes.value.take(pa.array(last[own])))
        altered = np.flatnonzero(is_late | (serial == SUPERSEDED))
        if not len(altered):
            return left
        is_late, own = is_late[altered], own[altered]
        serial = np.where(is_late, SUPERSEDED, changes.serial[last[own]])
        renewed = numbered(serial, value.take(pa.array(altered)), ~is_late)
        source = np.arange(len(left))
        source[own] = len(left) + np.arange(len(own))
        return concat([left, renewed]).take(pa.array(source))


class Announce(Operator):
    """Changes of the left table on their way to where results are made, ahead of all responses."""

    def __init__(self, context: Context):
        self._context = context

    def step(self, batch: Batch) -> Batch | None:
        assert isinstance(batch, Changes)
        if self._context.roots is None:
            return None
        return replace(batch.as_stream(), timestamp=np.full(len(batch), UNKNOWN))


class Respond(TwoSided):
    """Joins the left value and the right value that a response brings; without a right value an inner join deletes.

    Responses to a change come too late when there was one to a later change of the same row already, which overtook it.
    For that the serial numbers of responses that may overtake others are remembered: until the commit, and in the store
    while anything may come later. Responses to rows that the record which caused them has changed meanwhile come too
    late as well, where that is announced.
    """

    def __init__(
        self, context: Context, store: KeyValueStore, joiner: Joiner, left: Serde, right: Serde, is_left: bool
    ):
        self._context = context
        self._store = store
        self._here = KeyValueStore(store.name, in_memory=True)
        self._remembers = False
        self._is_empty: bool | None = None
        """Whether nothing is in the store; None before the first look in a commit."""
        self._joiner = joiner
        self._left = left
        self._right = right
        self._is_left = is_left
        self._announced = LeftChanges.none()

    def step_both(self, left: Batch | None, right: Batch | None = None) -> Batch | None:
        if right is not None:
            self._announced = self._announced.followed_by(self._changes(right))
        return None if left is None else self._results(left)

    def _changes(self, batch: Batch) -> LeftChanges:
        """What is announced, by the records that caused it."""
        assert self._context.roots is not None
        roots = self._context.roots(batch.position)
        return LeftChanges(batch.key.encoded(), batch.value.encoded(), roots, np.zeros(len(batch), np.int64))

    def _changed_meanwhile(self, batch: Batch, left: Binary) -> BoolArray:
        """Which responses are to left values that the record which caused them has replaced."""
        changed = np.zeros(len(batch), np.bool_)
        if len(self._announced.key):
            assert self._context.roots is not None
            last = self._announced.last(batch.key.encoded(), self._context.roots(batch.position))
            own = np.flatnonzero(last >= 0)
            changed[own] = differ(take(left, own), take(self._announced.value, last[own]))
        return changed

    def _results(self, batch: Batch) -> Batch:
        assert isinstance(batch, Changes)
        assert batch.old is not None
        said = parts_of(batch.old.encoded())
        late, left = self._late(batch, said) | self._changed_meanwhile(batch, said.left), said.left
        if late.any():
            self._context.drop(self._joiner.node, batch.position[late], LATE_RESPONSE)
            kept = np.flatnonzero(~late)
            batch, left = batch.take(kept), take(left, kept)
        right = _sent_back(batch.value.encoded())
        has_result = ~missing(left) if self._is_left else ~(missing(right) | missing(left))
        value, fine = self._joiner.join_where(
            has_result, batch, BytesColumn(left, self._left), BytesColumn(right, self._right)
        )
        return batch.as_stream().with_value(value).keep(fine)

    def _late(self, batch: Batch, said: Numbered) -> BoolArray:
        """Which responses come too late."""
        late: BoolArray = said.serial == SUPERSEDED
        if not said.overtakes.any() and not self._remembers and self._has_nothing_stored():
            return late
        self._remembers = True
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        last = self._here.get(keys).timestamps
        if not self._has_nothing_stored():
            last = np.maximum(last, self._store.get(keys).timestamps)
        overtaking = np.where(said.overtakes, said.serial, -1)[groups.order]
        highest = groups.running_max(np.maximum(overtaking, last[groups.group]))
        late |= groups.unsort(highest) > said.serial
        raised = np.flatnonzero(highest[groups.ends] > last)
        self._here.put(self._here.locate(keys.take(raised)), _numbers(highest[groups.ends][raised]))
        return late

    def flush(self) -> None:
        if not self._context.more_is_waiting:
            self._forget()
        elif (last := self._here.changes()) is not None:
            self._store.put(self._store.locate(last.keys), last.values)
        self._here = KeyValueStore(self._store.name, in_memory=True)
        self._remembers = False
        self._is_empty = None
        if not self._context.more_is_waiting:
            self._announced = self._announced.of_last_record()

    def _forget(self) -> None:
        """Nothing can come late any more."""
        if not self._has_nothing_stored():
            keys = pa.array([key for key, _, _ in self._store.rows()], pa.binary())
            self._store.delete(self._store.locate(Keys(keys)))

    def _has_nothing_stored(self) -> bool:
        if self._is_empty is None:
            self._is_empty = next(iter(self._store.rows()), None) is None
        return self._is_empty


def _sent_back(right: Binary) -> Binary:
    """Right values as Kafka Streams reads them out of responses: one of no bytes is none."""
    empty = pc.equal(pc.binary_length(right), 0)
    return pc.if_else(empty, pa.scalar(None, pa.binary()), right) if pc.any(empty).as_py() else right


def _numbers(numbers: IntArray) -> Values:
    """Rows of no bytes that hold numbers in place of timestamps."""
    return Values(fixed_binary(np.zeros((len(numbers), 0), np.uint8)), numbers)


def only_latest(node: str, context: Context, batch: Changes, is_versioned: bool) -> Changes:
    """The changes of a versioned table without those that are not the latest of their keys, which are dropped."""
    if batch.latest is None or not is_versioned:
        return batch
    context.drop(node, batch.position[~batch.latest], "out-of-order")
    return batch.only_latest()

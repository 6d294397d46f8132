"""Joins of streams with tables: each record is joined with the table's value for its key (KIP-914)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, fixed_binary, last_numbers, nulls, without_last
from penstock.columns.batch import Batch, merge, take_order
from penstock.columns.column import BytesColumn, Column, ValuesColumn, null_column
from penstock.columns.returned import from_arrow
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.core.nulls import complete, drop_nulls
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.record_context import origins_of
from penstock.ops.joins.joiner import Joiner
from penstock.ops.tables.lookup import Lookup
from penstock.ops.tables.table import row_numbers_of
from penstock.serdes import Serde
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.buffer import Entries, TimeOrderedBuffer, in_order
from penstock.state.kinds.held import Updates, unpack


class StreamTableJoin(Operator):
    """Looks up the key of each record and calls the joiner with the value found.

    Args:
        is_left: keep records without a key or without a table value; they are joined with None.
    """

    def __init__(self, node: str, context: Context, table: Lookup, joiner: Joiner, is_left: bool):
        self._node = node
        self._context = context
        self._table = table
        self._joiner = joiner
        self._is_left = is_left
        self._needed = ("value",) if is_left else ("key", "value")
        """The columns without which a record is dropped."""

    def step(self, batch: Batch, out: Collector) -> None:
        batch = self._context.encoded(self._node, batch, "key")
        batch = drop_nulls(self._node, self._context, batch, *self._needed)
        if len(batch):
            out.emit(self._joined(batch, batch.key))

    def _joined(self, batch: Batch, keys: Column) -> Batch:
        """Join the records with the table's values for these keys. In a left join, keys may be null."""
        batch, other = self._look_up(batch, keys)
        missing = other.null_mask()
        if missing is not None and not self._is_left:
            batch, other = batch.keep(~missing), other.take(np.flatnonzero(~missing))
        batch, value = self._joiner.join(batch, batch.value, other)
        return batch.with_value(value)

    def _look_up(self, batch: Batch, keys: Column) -> tuple[Batch, Column]:
        """Look up the table's values, null for null keys. Also returns the records without those for which a function
        of the table failed."""
        without = keys.null_mask()
        asked = np.arange(len(batch)) if without is None else np.flatnonzero(~without)
        if not asked.size:
            return batch, null_column(len(batch))
        numbered = replace(batch.with_key(keys), order=(*batch.order, np.arange(len(batch)))).take(asked)
        found = self._table.find(numbered)
        rows = row_numbers_of(found.batch)
        if len(rows) == len(batch):
            return batch, found.value
        places = np.full(len(batch), len(rows), np.int64)
        places[rows] = np.arange(len(rows))
        fine = np.ones(len(batch), np.bool_)
        fine[np.setdiff1d(asked, rows)] = False
        kept = np.flatnonzero(fine)
        other = found.value.join([null_column(1, found.value.serde)]).take(places[kept])
        return batch.keep(fine), other


class BufferedStreamTableJoin(StreamTableJoin):
    """A join of a stream with a table that has a grace period.

    A record waits in a buffer until the buffer's stream time has passed the record's time by the grace period, and is
    looked up then. A record that arrives later than that is looked up at once.

    Waiting records are emitted in the order of their times, then of the bytes of their keys, then of their arrival.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        table: Lookup,
        joiner: Joiner,
        is_left: bool,
        buffer: TimeOrderedBuffer,
    ):
        super().__init__(node, context, table, joiner, is_left)
        self._buffer = buffer

    def step(self, batch: Batch, out: Collector) -> None:
        batch = complete(self._node, self._context, batch, *self._needed)
        if not len(batch):
            return
        at_once, held = self._sorted_out(batch)
        rows = np.flatnonzero(held)
        released = self._pass_through(batch.take(rows)) if rows.size else None
        direct = batch.keep(at_once)
        parts = [part for part in (direct, released) if part is not None and len(part)]
        if parts:
            joined = merge([replace(part, order=(*part.order, 0)) if part is direct else part for part in parts])
            out.emit(self._joined(joined, joined.key))

    def _sorted_out(self, batch: Batch) -> tuple[BoolArray, BoolArray]:
        """True for the records to look up at once, because they are too late or have no key; and True for those that
        wait."""
        without_key = batch.key.null_mask()
        has_key = np.ones(len(batch), np.bool_) if without_key is None else ~without_key
        time = np.maximum.accumulate(np.where(has_key, batch.timestamp, -1))
        before = np.maximum(np.append(-1, time[:-1]), self._buffer.observed_stream_time)
        held = has_key & (batch.timestamp >= before - self._buffer.retention)
        return ~held, held

    def _pass_through(self, batch: Batch) -> Batch | None:
        """Put records into the buffer. Return the buffered records that are due, at the places of the records that make
        them due."""
        grace = self._buffer.retention
        time = np.maximum(np.maximum.accumulate(batch.timestamp), self._buffer.observed_stream_time)
        entries = self._entries(batch)
        waiting = self._buffer.due(int(time[-1]))
        until = time - grace
        from_chunk = np.maximum(np.searchsorted(until, batch.timestamp), np.arange(len(batch)))
        own = np.flatnonzero(from_chunk < len(batch))
        triggers = np.concatenate([np.searchsorted(until, waiting.times), from_chunk[own]])
        self._buffer.advance(int(time[-1]))
        stays = np.flatnonzero(from_chunk == len(batch))
        if stays.size:
            kept = entries.take(stays)
            self._buffer.put(self._buffer.locate(Keys(kept.keys, kept.times)), kept.values)
        released = waiting.join(entries.take(own))
        if not len(released.times):
            return None
        order = in_order(released.times, _as_numbered(released.keys))
        order = order[np.argsort(triggers[order], kind="stable")]
        return self._as_batch(batch, released.take(order), triggers[order])

    def _entries(self, batch: Batch) -> Entries:
        """The records as the buffer keeps them: each key ends with a number, so that no record replaces another."""
        first = self._buffer.numbers.get("arrived", 0)
        self._buffer.numbers["arrived"] = first + len(batch)
        numbers = fixed_binary((first + np.arange(len(batch))).astype(">i8"))
        keys = pc.binary_join_element_wise(batch.key.encoded(), numbers, b"")
        nothing = nulls(len(batch))
        none = np.zeros(len(batch), np.int64)
        origins = origins_of(self._context.facts, batch)
        packed = Updates(batch.value.encoded(), nothing, nothing, batch.headers, none, none, origins).pack()
        return Entries(keys, batch.timestamp, Values(packed, batch.timestamp))

    def _as_batch(self, batch: Batch, entries: Entries, triggers: IntArray) -> Batch:
        updates = unpack(entries.values.data)
        return Batch(
            BytesColumn(without_last(entries.keys, 8), batch.key.serde),
            BytesColumn(updates.new, batch.value.serde),
            entries.times,
            (*take_order(batch.order, triggers), np.arange(len(triggers))),
            updates.headers,
            held=updates.origins,
        )


def _as_numbered(keys: Binary) -> Binary:
    """The buffer's keys in Kafka Streams' order: the number after each key has four bytes and starts at 1. This matters
    if one key equals another one followed by NUL."""
    numbers = fixed_binary(((last_numbers(keys) + 1) % 2**31).astype(">i4"))
    return pc.binary_join_element_wise(without_last(keys, 8), numbers, b"")


class GlobalTableJoin(StreamTableJoin):
    """Joins with a global table, whose key a function computes; the records keep their own keys."""

    def __init__(
        self,
        node: str,
        context: Context,
        table: Lookup,
        selector: Caller,
        table_key: Serde,
        joiner: Joiner,
        is_left: bool,
    ):
        super().__init__(node, context, table, joiner, is_left)
        self._selector = selector
        self._table_key = table_key

    def step(self, batch: Batch, out: Collector) -> None:
        batch = drop_nulls(self._node, self._context, batch, "value")
        batch, keys = self._encoded(*self._selected(batch))
        missing = keys.null_mask()
        if missing is not None and not self._is_left:
            self._context.drop(self._node, batch.position[missing], "null-key")
            batch, keys = batch.keep(~missing), keys.take(np.flatnonzero(~missing))
        if len(batch):
            out.emit(self._joined(batch, keys))

    def _joined(self, batch: Batch, keys: Column) -> Batch:
        """Join the records with the table's values for these keys, and give the keys to a joiner that takes them."""
        if not self._joiner.takes_mapped_keys:
            return super()._joined(batch, keys)
        numbered = replace(batch, order=(*batch.order, np.arange(len(batch))))
        numbered, other = self._look_up(numbered, keys)
        missing = other.null_mask()
        if missing is not None and not self._is_left:
            numbered, other = numbered.keep(~missing), other.take(np.flatnonzero(~missing))
        mapped = keys.take(row_numbers_of(numbered))
        batch = replace(numbered, order=numbered.order[:-1])
        batch, value = self._joiner.join(batch, batch.value, other, mapped)
        return batch.with_value(value)

    def _encoded(self, batch: Batch, keys: Column) -> tuple[Batch, Column]:
        """The records whose selected keys encode, and these keys."""
        numbered = replace(batch.with_key(keys), order=(*batch.order, np.arange(len(batch))))
        fine = self._context.encoded(self._node, numbered, "key")
        return batch.take(row_numbers_of(fine)), BytesColumn(fine.key.encoded(), self._table_key)

    def _selected(self, batch: Batch) -> tuple[Batch, Column]:
        if self._selector.function.columnar:
            keys = self._selector.columns(batch, batch.key.arrow(), batch.value.arrow())
            return batch, from_arrow(keys, self._table_key)
        batch, keys = self._selector.rows(batch, batch.key.decoded(), batch.value.decoded())
        return batch, ValuesColumn(keys, self._table_key)

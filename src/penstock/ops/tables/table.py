"""Tables without aggregation: sources, ``filter``, ``map_values``, ``to_stream``."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from penstock.arrays import BoolArray, IntArray, is_missing
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import BytesColumn, Column, as_written, null_column
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.nulls import complete
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.written import Written
from penstock.ops.tables.update_cache import EmitCache, values_before, without_absent
from penstock.serdes import Serde
from penstock.state.columns.rows import Values
from penstock.state.store import StateStore


class TableWriter(Protocol):
    """Writes a table's changes into its store, and returns the changes to send on."""

    def write(self, batch: Batch, skips_repeated_deletions: bool = False, old: Column | None = None) -> Changes | None:
        """Write new values. Return the changes to send on now.

        Args:
            skips_repeated_deletions: leave out deletions of keys without a value; requires that the store sends old
                values.
            old: the old values to send on, if they differ from the store's.
        """

    def flush(self) -> Changes | None:
        """Return the changes that were held back until the commit."""


class TableStore:
    """The store of a table: writes changes, and knows the previous value of each key.

    Args:
        sends_old: True if a later step needs old values.
        caching: emit the last update of each key and commit, instead of every one.
        tells_stored: emit every update with the previous value of the store as its old value, as with caching.
    """

    def __init__(self, context: Context, store: StateStore, sends_old: bool, caching: bool, tells_stored: bool = False):
        self._context = context
        self._store = store
        self._sends_old = sends_old
        self._cache = EmitCache(sends_old, context, store, tells_stored) if caching or tells_stored else None

    def write(self, batch: Batch, skips_repeated_deletions: bool = False, old: Column | None = None) -> Changes | None:
        """Write new values. A repeated deletion changes nothing in the store, so the caller may leave it out."""
        if not len(batch):
            return None
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        located = self._store.locate(keys)
        before, data = located.get(), batch.value.encoded()
        last = groups.last_rows
        final, times = data.take(last), batch.timestamp[last]
        if final.null_count:
            times = np.where(is_missing(final), -1, times)
        self._store.put(located, Values(final, times))
        if self._store.name in self._context.facts.looked_up:
            values = Values(data, batch.timestamp)
            self._context.chunk.note(self._store.name, Written(keys, before, codes, values, batch.order))
        serde = batch.value.serde
        if self._cache is not None:
            batch = batch.with_value(as_written(batch.value))
        if self._cache is None or self._cache.wants_every:
            if self._cache is not None or (old is None and self._sends_old):
                old = values_before(groups, before, batch.value)
            changes = batch.as_changes(batch.value, batch.timestamp, old)
            return changes if self._cache is None else self._cache.take(changes)
        in_order = np.argsort(last)
        newest = batch.take(last[in_order])
        self._cache.add(
            newest.as_changes(newest.value, newest.timestamp, BytesColumn(before.data, serde).take(in_order))
        )
        return None

    def flush(self) -> Changes | None:
        return None if self._cache is None else self._cache.flush()


class StoredTable(Operator):
    """A step whose result is a table. It may have a store, which may hold the changes back."""

    def __init__(self, store: TableWriter | None):
        self._store = store

    def flush(self, out: Collector) -> None:
        if self._store is not None:
            out.emit(self._store.flush())


class TableSource(StoredTable):
    """Turns records into changes of a table; records without a key are dropped. Without a store, old values are
    unknown."""

    def __init__(self, node: str, context: Context, store: TableWriter | None):
        super().__init__(store)
        self._node = node
        self._context = context

    def step(self, batch: Batch, out: Collector) -> None:
        batch = complete(self._node, self._context, batch, "key")
        if self._store is None:
            out.emit(batch.as_changes(batch.value, batch.timestamp, None))
        else:
            out.emit(self._store.write(batch))


class TableFilter(StoredTable):
    """Keeps the rows for which a predicate is true; other rows become deletions. A row for which the predicate fails is
    also deleted if a later step needs old values that no store has: at its next change, the row has no old value then.

    Deletions of rows without a value are left out, except in versioned tables, where a second deletion may be the later
    one (KIP-914).
    """

    def __init__(self, caller: Caller, negate: bool, sends_old: bool, store: TableWriter | None, is_versioned: bool):
        super().__init__(store)
        self._caller = caller
        self._negate = negate
        self._sends_old = sends_old
        self._skips = sends_old and not is_versioned

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        holds, fine = self.holds(batch, batch.value)
        if not fine.all() and not (self._sends_old and self._store is None):
            batch, holds = batch.keep(fine), holds[fine]
        value = batch.value.where(holds)
        if self._store is not None:
            changes = self._store.write(batch.as_stream().with_value(value), skips_repeated_deletions=self._skips)
        else:
            old = None
            if self._sends_old and batch.old is not None:
                old = batch.old.where(self.holds(batch, batch.old, is_old=True)[0])
            changes = replace(batch, value=value, old=old)
        out.emit(changes if changes is None or changes.old is None or not self._skips else without_absent(changes))

    def holds(self, batch: Batch, values: Column, is_old: bool = False) -> tuple[BoolArray, BoolArray]:
        """True for rows that have a value for which the predicate is true; and True for rows whose predicate did not
        fail."""
        present, part = present_rows(batch, values)
        kept, result = (self._caller.of_old_values() if is_old else self._caller).predicate(part)
        holds = np.zeros(len(batch), np.bool_)
        holds[row_numbers_of(kept)] = result != self._negate
        return holds, did_not_fail(batch, present, kept)


class TableMapValues(StoredTable):
    """Maps the values of a table's rows; deletions stay deletions. A row for which the function fails is deleted if a
    later step needs old values that no store has: at its next change, the row has no old value then."""

    def __init__(self, caller: Caller, value: Serde, sends_old: bool, store: TableWriter | None):
        super().__init__(store)
        self._caller = caller
        self._value = value
        self._sends_old = sends_old

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        value, fine = self.mapped(batch, batch.value)
        if not fine.all() and not (self._sends_old and self._store is None):
            batch, value = batch.keep(fine), value.take(np.flatnonzero(fine))
        if self._store is not None:
            out.emit(self._store.write(batch.as_stream().with_value(value)))
            return
        old = None
        if self._sends_old and batch.old is not None:
            old = self.mapped(batch, batch.old, is_old=True)[0]
        out.emit(replace(batch, value=value, old=old))

    def mapped(self, batch: Batch, values: Column, is_old: bool = False) -> tuple[Column, BoolArray]:
        """The new values of all rows, null for rows without a value; and True for rows whose function did not fail."""
        present, part = present_rows(batch, values)
        caller = self._caller.of_old_values() if is_old else self._caller
        column = caller.column if self._store is None else caller.written_column
        kept, mapped = column(part, self._value)
        if len(kept) == len(batch):
            return mapped, np.ones(len(batch), np.bool_)
        places = np.full(len(batch), len(kept), np.int64)
        places[row_numbers_of(kept)] = np.arange(len(kept))
        return mapped.join([null_column(1, self._value)]).take(places), did_not_fail(batch, present, kept)


def present_rows(batch: Batch, values: Column) -> tuple[IntArray, Batch]:
    """The rows with a value, as records whose row numbers are added to the end of their order."""
    missing = values.null_mask()
    rows = np.arange(len(batch)) if missing is None else np.flatnonzero(~missing)
    part = Batch(batch.key, values, batch.timestamp, batch.order, batch.headers, batch.placed, held=batch.held)
    if missing is not None:
        part = part.take(rows)
    return rows, replace(part, order=(*part.order, rows))


def row_numbers_of(part: Batch) -> IntArray:
    """The numbers that ``present_rows`` added to the end of the order."""
    rows = part.order[-1]
    assert isinstance(rows, np.ndarray)
    return rows


def did_not_fail(batch: Batch, present: IntArray, kept: Batch) -> BoolArray:
    fine = np.ones(len(batch), np.bool_)
    if len(kept) < len(present):
        fine[present] = False
        fine[row_numbers_of(kept)] = True
    return fine


class ToStream(Operator):
    """The new values of a table's changes as records."""

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        out.emit(batch.as_stream())

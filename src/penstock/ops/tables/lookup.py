"""Look-ups in tables, as of a record's place in the processing order.

The values of a table without a store are computed from the tables before it, back to the tables with a store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray, is_missing
from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn, Column
from penstock.columns.rows import Rows
from penstock.figures.metrics import BEYOND_HISTORY
from penstock.ops.core.context import Context
from penstock.ops.core.groups import group_keys
from penstock.ops.core.written import ranks
from penstock.ops.tables.table import TableFilter, TableMapValues
from penstock.serdes import Serde
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.versioned.puts import VersionedPuts
from penstock.state.kinds.versioned.reads import Questions, earliest_of, versions_as_of
from penstock.state.kinds.versioned.store import VersionedStore

UNKNOWN = -1
"""The timestamp of a missing value."""


@dataclass(frozen=True, slots=True)
class Found(Rows):
    """The values found for the records of ``batch``, without the records for which a function failed."""

    batch: Batch
    value: Column
    timestamp: IntArray
    """``UNKNOWN`` if the value is null."""

    def missing(self) -> BoolArray:
        """True for records that found no value."""
        mask = self.value.null_mask()
        return np.zeros(len(self.batch), np.bool_) if mask is None else mask


class Lookup(ABC):
    """Looks up values of one table."""

    @abstractmethod
    def find(self, batch: Batch) -> Found:
        """Find the value of each record's key at the time when the record is processed."""


class StoreLookup(Lookup):
    """Looks up values in the table's own store."""

    def __init__(self, context: Context, store: KeyValueStore | VersionedStore, value: Serde):
        self._context = context
        self._store = store
        self._value = value

    def find(self, batch: Batch) -> Found:
        keys, codes = group_keys(batch.key.encoded())
        current = self._store.get(keys)
        values = values_as_of(self._context, self._store.name, current, keys, codes, batch)
        return Found(batch, BytesColumn(values.data, self._value), times_of(values))


class Sent(Enum):
    """The values that a join finds in a table that holds its updates back until the commit: those that the table has
    sent.

    For a step that receives the table's changes, the table therefore changes together with them, not before.
    """

    IN_TURN = 1
    """While a commit sends updates, only the updates sent already."""
    AT_ONCE = 2
    """All updates of the commit from the first one on, as in Kafka Streams: for results whose old values no step
    needs."""


class SentLookup(Lookup):
    """Looks up values in the store of a table that holds its updates back until the commit."""

    def __init__(self, context: Context, store: KeyValueStore, value: Serde, sent: Sent):
        self._context = context
        self._store = store
        self._value = value
        self._is_in_turn = sent == Sent.IN_TURN
        store.show_committed()

    def find(self, batch: Batch) -> Found:
        keys, codes = group_keys(batch.key.encoded())
        sent = self._context.chunk.sent.get(self._store.name)
        current = self._store.get(keys, committed=sent is None)
        if sent is not None and self._is_in_turn:
            values = sent.as_of(current, keys, codes, batch.order)
        else:
            values = current.take(codes)
        return Found(batch, BytesColumn(values.data, self._value), times_of(values))


class VersionsLookup(Lookup):
    """Looks up values in the table's own versioned store, as of each record's time (KIP-914).

    Args:
        before: read the store as it was before the record that causes the look-up was put into it.
    """

    def __init__(self, context: Context, store: VersionedStore, value: Serde, before: bool = False):
        self._context = context
        self._store = store
        self._value = value
        self._before = before

    def find(self, batch: Batch) -> Found:
        keys, codes = group_keys(batch.key.encoded())
        turns = turns_of(self._context, self._store, batch, self._before)
        asked = Questions(codes, batch.timestamp, turns.own)
        value = BytesColumn(versions_as_of(self._store, keys, asked, turns.puts, turns.of_puts), self._value)
        missing = value.null_mask()
        if missing is None:
            return Found(batch, value, batch.timestamp)
        beyond = missing & (batch.timestamp < earliest_of(self._store, asked, turns.puts, turns.of_puts))
        if count := int(np.count_nonzero(beyond)):
            self._context.count(BEYOND_HISTORY, self._store.name, count, "versioned")
        return Found(batch, value, np.where(missing, UNKNOWN, batch.timestamp))


class Turns(NamedTuple):
    """The turns of a chunk's puts into a versioned store, and of look-ups, in the processing order."""

    puts: VersionedPuts | None
    of_puts: IntArray | None
    """The turn of each put; None if there are no puts."""
    own: IntArray
    """The turn of each record that looks up a value."""


def turns_of(context: Context, store: VersionedStore, batch: Batch, before: bool = False) -> Turns:
    """The turns of a chunk's puts into a store, and of the records that look up values there."""
    puts, order = context.chunk.puts.get(store.name, (None, ()))
    if puts is None or not len(puts.codes) or not len(batch):
        return Turns(puts, None, np.zeros(len(batch), np.int64))
    return Turns(puts, *ranks(order, batch.order, len(puts.codes), len(batch), before))


def times_of(values: Values) -> IntArray:
    """The timestamps of values; ``UNKNOWN`` for missing ones."""
    if not values.data.null_count:
        return values.timestamps
    return np.where(is_missing(values.data), UNKNOWN, values.timestamps)


def values_as_of(context: Context, store: str, current: Values, keys: Keys, codes: IntArray, batch: Batch) -> Values:
    """The values of keys when the records of a batch are processed, derived from the values after the chunk."""
    written = context.chunk.written.get(store)
    if written is not None and len(written.codes):
        return written.as_of(current, keys, codes, batch.order)
    return current.take(codes)


class FilterLookup(Lookup):
    """Looks up values of a filtered table."""

    def __init__(self, above: Lookup, filter_: TableFilter):
        self._above = above
        self._filter = filter_

    def find(self, batch: Batch) -> Found:
        found = self._above.find(batch)
        holds, fine = self._filter.holds(found.batch, found.value)
        if not holds.all():
            found = found.with_columns(
                value=found.value.where(holds), timestamp=np.where(holds, found.timestamp, UNKNOWN)
            )
        return found.keep(fine)


class MapLookup(Lookup):
    """Looks up values of a table with mapped values."""

    def __init__(self, above: Lookup, mapper: TableMapValues):
        self._above = above
        self._mapper = mapper

    def find(self, batch: Batch) -> Found:
        found = self._above.find(batch)
        value, fine = self._mapper.mapped(found.batch, found.value)
        missing = value.null_mask()
        timestamp = found.timestamp if missing is None else np.where(missing, UNKNOWN, found.timestamp)
        return found.with_columns(value=value, timestamp=timestamp).keep(fine)

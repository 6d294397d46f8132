"""Which updates of a table go on: every one, or the last of each key and commit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.batch import Changes, join, order_columns
from penstock.columns import BytesColumn, Column, NumberColumn
from penstock.ops.core.context import Context
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.written import Written
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.store import StateStore

_GARBAGE = 32 << 20
"""How many bytes of updates may be held that are not the last ones of their keys."""

_GARBAGE_RECORDS = 1 << 20
"""How many of them, whatever they are."""


class EmitCache:
    """Holds updates back until the commit and sends on the last one of each key.

    Its old value is the one before the first of them; a key that had no value and has none now is left out. The order
    is that of the last updates, as in Kafka Streams' cache.

    Args:
        store: where the table is kept.
        each: send every update on at once, with the old values that a cache tells.
    """

    def __init__(self, sends_old: bool, context: Context, store: StateStore, each: bool = False) -> None:
        self._sends_old = sends_old
        self._context = context
        self._store = store
        self.each = each or context.facts.commits_each_record
        """Whether updates go on at once: all are asked for, or each record is a commit of its own, and causes one
        update of a key at most."""
        self._held: list[Changes] = []
        self.held_bytes = 0
        """How many bytes the updates have that are held, numbers not counted."""
        self._needed = 0
        self._records = self._needed_records = 0

    def add(self, changes: Changes) -> None:
        """Take updates with their old values; what is not the last of its key any more is thrown away at times."""
        if not len(changes):
            return
        self._held.append(changes)
        self.held_bytes += _size(changes)
        self._note_records(self._records + len(changes))
        if self.held_bytes > 2 * self._needed + _GARBAGE or self._records > 2 * self._needed_records + _GARBAGE_RECORDS:
            self._held = [_last_of_each_key(self._held)]
            self.held_bytes = self._needed = _size(self._held[0])
            self._needed_records = len(self._held[0])
            self._note_records(self._needed_records)

    def _note_records(self, records: int) -> None:
        self._context.held_records += records - self._records
        self._records = records

    def flush(self) -> Changes | None:
        held, self._held = self._held, []
        self.held_bytes = self._needed = self._needed_records = 0
        self._note_records(0)
        if not held:
            return None
        last = without_absent(_last_of_each_key(held))
        if len(last) and isinstance(self._store, KeyValueStore) and self._store.shows_committed:
            self._note(last, self._store)
        return last if self._sends_old else replace(last, old=None)

    def at_once(self, updates: Changes) -> Changes:
        """What goes on of updates that are each the last one of its key and commit."""
        updates = without_absent(updates)
        return updates if self._sends_old else replace(updates, old=None)

    def _note(self, last: Changes, store: KeyValueStore) -> None:
        """Note for joins of tables, to which the table changes only now, when it does."""
        keys, values = Keys(last.key.encoded()), Values(last.value.encoded(), last.timestamp)
        before = store.get(keys, committed=True)
        self._context.chunk.sent[store.name] = Written(keys, before, np.arange(len(last)), values, last.order)


def without_absent(updates: Changes) -> Changes:
    """The updates without those of keys that had no value and have none now."""
    assert updates.old is not None
    gone, absent = updates.value.null_mask(), updates.old.null_mask()
    return updates if gone is None or absent is None else updates.keep(~(gone & absent))


def _size(changes: Changes) -> int:
    """How many bytes the values of updates have; numbers are worth no look."""
    columns = [column for column in (changes.value, changes.old) if not isinstance(column, NumberColumn | None)]
    return sum(column.encoded().nbytes for column in columns)


def _last_of_each_key(held: list[Changes]) -> Changes:
    """The last update of each key, in processing order.

    What a flush brings is caused by records of before, so the last is the one that came last.
    """
    every = join(held)
    assert every.old is not None
    _, codes = group_keys(every.key.encoded())
    groups = Groups.by_number(codes)
    last, first = groups.last_rows, groups.order[groups.starts]
    places = [column[last] for column in order_columns(every.order, len(every), len(every.order))]
    in_order = np.lexsort(places[::-1])
    return replace(every.take(last[in_order]), old=every.old.take(first[in_order]))


def values_before(groups: Groups, before: Values, values: Column) -> Column:
    """The value of its key before each row: that of the key's row before in the chunk, else what the store had."""
    count = len(groups)
    source = np.empty(len(groups.order), np.int64)
    source[1:] = groups.order[:-1] + count
    source[groups.starts] = np.arange(count)
    return BytesColumn(before.data, values.serde).join([values]).take(groups.unsort(source))

"""Which updates of a table are emitted: every one, or the last one of each key and commit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import Changes, join, order_columns
from penstock.columns.column import BytesColumn, Column, NumberColumn, WindowedColumn
from penstock.ops.core.context import Context
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.written import Written
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.store import StateStore

_GARBAGE = 32 << 20
"""The most bytes of held updates that are not the last ones of their keys."""

_GARBAGE_RECORDS = 1 << 18
"""The largest number of such updates, whatever their size."""

_LARGEST = 2**63 - 1


class EmitCache:
    """Holds updates back until the commit, and then emits the last one of each key.

    Its old value is the one before the key's first update. A key that had no value and has none now is left out. The
    order is that of the last updates, as in Kafka Streams' cache.

    Args:
        store: the name of the table's store.
        each: emit every update at once, with the old values that a cache emits.
    """

    def __init__(self, sends_old: bool, context: Context, store: StateStore, each: bool = False) -> None:
        self._sends_old = sends_old
        self._context = context
        self._store = store
        self.each = each or context.facts.commits_each_record
        """True if updates are emitted at once: because all of them are wanted, or because each record is a commit of
        its own and updates a key at most once."""
        self._of_each_record = context.facts.flushes_each_record
        self.wants_every = self.each or self._of_each_record
        """Whether it is given every update, and not only the last one of each key and chunk."""
        self._held: list[Changes] = []
        self.held_bytes = 0
        """The size of the held updates in bytes, without numbers."""
        self._needed = 0
        self._records = self._needed_records = 0
        self._passed_on = 0
        """The updates that it has of another cache, which sends now."""
        self.closed_before: int | None = None
        """Windows that end earlier are closed, and no longer change."""
        context.on_rollback.append(self._forget)

    def take(self, updates: Changes) -> Changes | None:
        """Take all updates of a chunk. Return what is emitted at once."""
        if self.each:
            updates = without_absent(updates)
            return updates if self._sends_old else replace(updates, old=None)
        self.add(updates)
        return None

    def add(self, changes: Changes) -> None:
        """Take updates with their old values. Updates that are no longer the last of their keys are discarded from time
        to time."""
        if not len(changes):
            return
        self._held.append(changes)
        if self._context.caches_send:
            self._passed_on += len(changes)
        self.held_bytes += _size(changes)
        self._note_records(self._records + len(changes))
        if self.held_bytes > 2 * self._needed + _GARBAGE or self._records > 2 * self._needed_records + _GARBAGE_RECORDS:
            self._hold(self._last())

    def _hold(self, last: Changes) -> None:
        """Hold updates that are each the last one of their key, and no others."""
        self._held = [last]
        self.held_bytes = self._needed = _size(last)
        self._needed_records = len(last)
        self._note_records(self._needed_records)

    def _note_records(self, records: int) -> None:
        self._context.held_records += records - self._records
        self._records = records

    def _forget(self) -> None:
        """Forget the updates that it holds: they were rolled back."""
        self._held = []
        self.held_bytes = self._needed = self._needed_records = self._passed_on = 0
        self._note_records(0)
        self.closed_before = None

    def _last(self) -> Changes:
        return _last_of_each_key(self._held, self._of_each_record)

    def flush(self) -> Changes | None:
        last = self._last() if self._held else None
        self._held = []
        self.held_bytes = self._needed = self._needed_records = 0
        self._note_records(0)
        return None if last is None else self._sent(last)

    def release(self) -> Changes | None:
        """Return the last updates of closed windows, and hold the others back."""
        if self.closed_before is None or not self._held:
            return None
        last = self._last()
        assert isinstance(last.key, WindowedColumn)
        is_closed = last.key.end < self.closed_before
        self._hold(last.keep(~is_closed))
        return self._sent(last.keep(is_closed))

    def _sent(self, last: Changes) -> Changes:
        """Return what is emitted of the last updates of keys."""
        self._context.sent_records += max(len(last) - self._passed_on, 0)
        self._passed_on = 0
        if len(last) and isinstance(self._store, KeyValueStore) and self._store.shows_committed:
            self._note(last, self._store)
        return last if self._sends_old else replace(last, old=None)

    def _note(self, last: Changes, store: KeyValueStore) -> None:
        """Note the writes for joins, for which the table changes only when the updates are emitted."""
        keys, values = Keys(last.key.encoded()), Values(last.value.encoded(), last.timestamp)
        before = store.get(keys, committed=True)
        self._context.chunk.sent[store.name] = Written(keys, before, np.arange(len(last)), values, last.order)


def without_absent(updates: Changes) -> Changes:
    """Leave out updates of keys that had no value and have none now."""
    assert updates.old is not None
    gone, absent = updates.value.null_mask(), updates.old.null_mask()
    return updates if gone is None or absent is None else updates.keep(~(gone & absent))


def _size(changes: Changes) -> int:
    """The bytes of the updates' values; numbers are too small to count."""
    columns = [column for column in (changes.value, changes.old) if not isinstance(column, NumberColumn | None)]
    return sum(column.encoded().nbytes for column in columns)


def _last_of_each_key(held: list[Changes], of_each_record: bool) -> Changes:
    """The last update of each key, or of each key and record, in processing order.

    Updates of a flush are caused by earlier records, so the last update of a key is the one that arrived last. Keys
    that had no value and have none now, such as those of merged sessions, are left out: a later update of such a key
    has no old value either.
    """
    every = join(held)
    assert every.old is not None
    numbers = _numbers_of(every.key)
    if of_each_record:
        _, codes = np.unique(numbers, return_inverse=True)
        [records] = order_columns(every.order[:1], len(every), 1)
        _, numbers = np.unique(records * len(codes) + codes, return_inverse=True)
    groups = Groups.by_number(numbers)
    last, first = groups.last_rows, groups.order[groups.starts]
    gone, absent = every.value.null_mask(), every.old.null_mask()
    if gone is not None and absent is not None:
        stays = ~(gone[last] & absent[first])
        last, first = last[stays], first[stays]
    places = [column[last] for column in order_columns(every.order, len(every), len(every.order))]
    in_order = np.lexsort(places[::-1])
    return replace(every.take(last[in_order]), old=every.old.take(first[in_order]))


def _numbers_of(keys: Column) -> IntArray:
    """Return a number for each key, the same one for equal keys. Windowed keys are numbered without their bytes."""
    if not isinstance(keys, WindowedColumn):
        return group_keys(keys.encoded())[1]
    found, codes = group_keys(keys.key.encoded())
    length = keys.end - keys.start
    earliest, shortest = int(keys.start.min()), int(length.min())
    starts, lengths = int(keys.start.max()) - earliest + 1, int(length.max()) - shortest + 1
    if earliest < 0 or len(found) * starts * lengths > _LARGEST:
        return group_keys(keys.encoded())[1]
    numbers: IntArray = (codes * starts + (keys.start - earliest)) * lengths + (length - shortest)
    return numbers


def values_before(groups: Groups, before: Values, values: Column) -> Column:
    """The previous value of each row's key: from the key's previous row in the chunk, else from the store."""
    count = len(groups)
    source = np.empty(len(groups.order), np.int64)
    source[1:] = groups.order[:-1] + count
    source[groups.starts] = np.arange(count)
    return BytesColumn(before.data, values.serde).join([values]).take(groups.unsort(source))

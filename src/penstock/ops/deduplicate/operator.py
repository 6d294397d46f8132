"""``deduplicate_by_key``, ``deduplicate_by_key_value``, ``deduplicate``: at most one record of an id in an interval
(KIP-655).

The KIP's rules for a record with an id and a time t, after the record has advanced stream time:

    1. Entries older than stream time minus the interval are purged.
    2. If the id has an entry with timestamp e, the record is a duplicate if t is at least e minus the interval. (t
        cannot be more than the interval after e: stream time is at least t, so the entry would have been purged.)
    3. Otherwise the record is forwarded. It becomes the id's entry, unless it is itself older than the limit of rule 1.

So an entry does not change until it is purged, and an id has at most one entry at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, BoolArray, is_present
from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn, Column
from penstock.figures.metrics import DUPLICATES
from penstock.ops.core.context import Context
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.seen import DUPLICATE, TAKEN, Seen
from penstock.ops.deduplicate.rules import Records, find_duplicates
from penstock.ops.stateless.sink import as_type
from penstock.serdes import Serde
from penstock.serdes.pair import PairSerde, pack, unpack
from penstock.state.clock import StreamTime
from penstock.state.kinds.deduplication import DeduplicationStore

STORED = "entries-stored-total"
PURGED = "entries-purged-total"


class Selector:
    """Computes the ids of records. Records for which this fails, or whose ids cannot be encoded, are left out.

    Args:
        select: returns the batch without the records that failed, and their ids as a column.
        id_: the type of the ids.
    """

    def __init__(self, node: str, context: Context, select: Callable[[Batch, Serde], tuple[Batch, Column]], id_: Serde):
        self._node = node
        self._context = context
        self._select = select
        self._id = id_

    def ids(self, batch: Batch) -> tuple[Batch, Column]:
        """The records that did not fail, and their ids."""
        return written(self._node, self._context, *self._select(batch, self._id))


def written(node: str, context: Context, batch: Batch, column: Column) -> tuple[Batch, Column]:
    """Return the records whose value in the column can be encoded, and the column."""
    numbered = replace(batch, key=column, order=(*batch.order, np.arange(len(batch))))
    checked = context.encoded(node, numbered, "key")
    if len(checked) == len(batch):
        return batch, column
    rows = checked.order[-1]
    assert isinstance(rows, np.ndarray)
    return batch.take(rows), checked.key


class Deduplicate(Operator):
    """Forwards a record unless the store knows a duplicate of it.

    Args:
        key: the type of the keys.
        selector: computes the ids that are compared together with the keys; None to compare keys alone.
        interval: milliseconds.
        splits: send duplicates to a second branch instead of leaving them out.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        key: Serde,
        selector: Selector | None,
        interval: int,
        store: DeduplicationStore,
        clock: StreamTime,
        splits: bool,
    ):
        self._node = node
        self._context = context
        self._key = key
        self._selector = selector
        self._interval = interval
        self._store = store
        self._clock = clock
        self._splits = splits

    def step(self, batch: Batch, out: Collector) -> None:
        batch, ids = self._ids(batch)
        if not len(batch):
            return
        before = self._clock.now
        duplicate = self._duplicates(ids, batch)
        if (watching := self._context.commit.watching) is not None:
            times = np.maximum(np.maximum.accumulate(batch.timestamp), before)
            fate = np.where(duplicate, DUPLICATE, TAKEN)
            watching(Seen(self._node, batch, times, np.arange(len(batch)), batch.timestamp, batch.timestamp, fate))
        out.emit(batch.keep(~duplicate), 0 if self._splits else None)
        if self._splits:
            out.emit(batch.keep(duplicate), 1)

    def _ids(self, batch: Batch) -> tuple[Batch, Binary]:
        """The bytes to compare; null for records that are always forwarded."""
        batch, keys = written(self._node, self._context, batch, as_type(batch.key, self._key))
        if self._selector is None:
            return batch, keys.encoded()
        batch, ids = self._selector.ids(batch)
        key, id_ = as_type(batch.key, self._key).encoded(), ids.encoded()
        if not (key.null_count or id_.null_count):
            return batch, pack(key, id_)
        complete = is_present(key) & is_present(id_)
        return batch, pack(key, id_).take(pa.array(np.arange(len(batch)), mask=~complete))

    def _duplicates(self, ids: Binary, batch: Batch) -> BoolArray:
        """True for records that are duplicates. The store and stream time are updated for the whole batch."""
        before = self._clock.now
        limits = self._clock.advance(batch.timestamp) - self._interval
        duplicate = np.zeros(len(batch), np.bool_)
        rows = np.arange(len(batch))
        if ids.null_count:
            rows = np.flatnonzero(is_present(ids))
            ids = ids.drop_null()
        purged = self._store.count(before - self._interval, int(limits[-1]))
        if len(rows):
            keys, codes = group_keys(ids)
            offsets = self._context.facts.offsets(batch.position[rows])
            records = Records(batch.timestamp[rows], limits[rows], offsets)
            groups, known = Groups.by_number(codes), self._store.find(keys)
            found = find_duplicates(groups, known, records, self._interval, self._context.facts.replays)
            duplicate[rows] = found.duplicate
            lasts = found.entries[records.timestamp[found.entries] >= limits[-1]]
            self._store.write(keys.take(codes[lasts]), records.timestamp[lasts], offsets[lasts])
            self._count(STORED, len(found.entries))
            purged += len(found.entries) - len(lasts)
        self._count(PURGED, purged)
        self._count(DUPLICATES, int(np.count_nonzero(duplicate)))
        self._store.advance(self._clock.now)
        return duplicate

    def _count(self, name: str, by: int) -> None:
        if by:
            self._context.count(name, self._node, by)


class KeyById(Operator):
    """Uses the id of each record as its key, and packs key and value together as its value."""

    def __init__(self, node: str, context: Context, selector: Selector, key: Serde, value: PairSerde):
        self._node = node
        self._context = context
        self._selector = selector
        self._key = key
        self._value = value

    def step(self, batch: Batch, out: Collector) -> None:
        batch = replace(batch, key=as_type(batch.key, self._key), value=as_type(batch.value, self._value.second))
        batch = self._context.encoded(self._node, batch, "key", "value")
        batch, ids = self._selector.ids(batch)
        pairs = pack(batch.key.encoded(), batch.value.encoded())
        out.emit(batch.with_key(ids).with_value(BytesColumn(pairs, self._value)))


class RestoreKey(Operator):
    """Unpacks keys and values from pairs.

    Args:
        decodes: which of ``key`` and ``value`` later steps decode.
    """

    def __init__(self, node: str, context: Context, key: Serde, value: Serde, decodes: tuple[str, ...]):
        self._node = node
        self._context = context
        self._key = key
        self._value = value
        self._decodes = decodes

    def step(self, batch: Batch, out: Collector) -> None:
        keys, values = unpack(batch.value.encoded())
        batch = batch.with_key(BytesColumn(keys, self._key)).with_value(BytesColumn(values, self._value))
        out.emit(self._context.read(self._node, batch, *self._decodes))

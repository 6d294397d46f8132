"""Tables in versioned stores: every version counts, at its timestamp (KIP-914)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray
from penstock.columns.batch import Batch, Changes, take_order
from penstock.columns.column import BytesColumn, Column
from penstock.ops.core.context import Context
from penstock.ops.core.groups import group_keys
from penstock.ops.core.written import Written
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.versioned.puts import VersionedPuts, repeated_deletions
from penstock.state.kinds.versioned.store import VersionedStore


class VersionedTableStore:
    """The versioned store of a table: writes versions, and knows which of them are the latest of their keys.

    Versions older than the history retention are dropped and counted. Versioned stores do not cache: every update is
    emitted.

    Args:
        sends_old: True if a later step needs old values.
    """

    def __init__(self, node: str, context: Context, store: VersionedStore, sends_old: bool):
        self._node = node
        self._context = context
        self._store = store
        self._sends_old = sends_old

    def write(self, batch: Batch, skips_repeated_deletions: bool = False, old: Column | None = None) -> Changes | None:
        """Write new versions. Return the changes of the versions that are not too old."""
        if not len(batch):
            return None
        if skips_repeated_deletions and batch.value.encoded().null_count:
            skipped = repeated_deletions(self._store, *self._columns(batch))
            batch = batch.keep(~skipped)
            if not len(batch):
                return None
        puts = VersionedPuts(self._store, *self._columns(batch))
        if self._store.name in self._context.facts.looked_up:
            self._context.chunk.note(self._store.name, written_by(puts, batch))
        self._context.put(self._store.name, puts, batch.order)
        return self.changes(batch, puts, old)

    def _columns(self, batch: Batch) -> tuple[Keys, IntArray, IntArray, Binary]:
        keys, codes = group_keys(batch.key.encoded())
        return keys, codes, batch.timestamp, batch.value.encoded()

    def changes(self, batch: Batch, puts: VersionedPuts, old: Column | None = None) -> Changes:
        """The changes to send on for puts."""
        if self._sends_old and old is None:
            old = BytesColumn(puts.latest_before()[0], batch.value.serde)
        latest = None if puts.is_latest.all() else puts.is_latest
        changes = replace(batch.as_changes(batch.value, batch.timestamp, old), latest=latest)
        if puts.accepted.all():
            return changes
        self._context.drop(self._node, batch.position[~puts.accepted], "expired-put")
        return changes.keep(puts.accepted)

    def flush(self) -> Changes | None:
        return None


def written_by(puts: VersionedPuts, batch: Batch) -> Written[Values]:
    """The latest values after each put, for look-ups; ``batch`` has a record for each put."""
    rows = np.flatnonzero(puts.is_latest & puts.accepted)
    values = Values(puts.data.take(pa.array(rows)), puts.times[rows])
    return Written(puts.keys, puts.latest, puts.codes[rows], values, take_order(batch.order, rows))

"""The times at which versions of tables begin and end, seen from a record's place in the processing order (KIP-914)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import Batch
from penstock.ops.core.context import Context
from penstock.ops.core.groups import group_keys
from penstock.ops.tables.lookup import turns_of
from penstock.state.columns.sorted_index import FOREVER
from penstock.state.kinds.versioned.bounds import bounds_between
from penstock.state.kinds.versioned.reads import Questions
from penstock.state.kinds.versioned.store import VersionedStore


class VersionTimes:
    """The times at which values of a table may change: those of the versioned stores that the table is derived from."""

    def __init__(self, context: Context, stores: Sequence[VersionedStore]):
        self._context = context
        self._stores = stores

    def next(self, batch: Batch) -> IntArray:
        """The first such time after each record's time, or ``FOREVER``."""
        first = np.full(len(batch), FOREVER, np.int64)
        rows, times = self._between(batch, first, only_first=True)
        np.minimum.at(first, rows, times)
        return first

    def between(self, batch: Batch, until: IntArray) -> tuple[IntArray, IntArray]:
        """All such times after each record's time and before a limit, as pairs of record number and time."""
        rows, times = self._between(batch, until)
        pairs = np.unique(np.stack([rows, times]), axis=1)
        return pairs[0], pairs[1]

    def earliest(self, batch: Batch) -> IntArray:
        """For each record, the earliest time as of which values can be looked up when it is processed."""
        earliest = np.zeros(len(batch), np.int64)
        for store in self._stores:
            turns = turns_of(self._context, store, batch)
            now = np.full(len(batch), store.observed_stream_time)
            if turns.puts is not None and turns.of_puts is not None:
                last = np.searchsorted(turns.of_puts, turns.own, "left") - 1
                now = np.append(turns.puts.stream_time, turns.puts.time_before)[last]
            earliest = np.maximum(earliest, now - store.retention)
        return earliest

    def _between(self, batch: Batch, until: IntArray, only_first: bool = False) -> tuple[IntArray, IntArray]:
        keys, codes = group_keys(batch.key.encoded())
        parts = []
        for store in self._stores:
            turns = turns_of(self._context, store, batch)
            asked = Questions(codes, batch.timestamp, turns.own)
            parts.append(
                bounds_between(store, keys, asked, until, puts=turns.puts, turns=turns.of_puts, only_first=only_first)
            )
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([times for _, times in parts])

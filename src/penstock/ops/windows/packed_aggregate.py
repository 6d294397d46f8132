"""The common part of aggregations in sessions and in sliding windows.

Which of these windows exist depends on all earlier records. All windows around the records of a chunk are loaded at
once. Then compiled rules process the records one by one, and the results are written at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray
from penstock.columns.batch import Batch, Changes
from penstock.ops.core.failures import blamed, misfit_result
from penstock.ops.core.nulls import complete
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.written import written_windows
from penstock.ops.windows.cogroup import SideTimes
from penstock.ops.windows.sessions.fold import SessionFold
from penstock.ops.windows.windowed_table import WindowedTable
from penstock.state.columns.packed import Entries
from penstock.state.columns.rows import Values
from penstock.state.kinds.packed import Loaded, PackedStore


class Singly(NamedTuple):
    """The changes of one record, with functions that write its updates one by one."""

    changes: Changes | None
    write: Callable[[int], None]
    """Writes one update."""
    write_all: Callable[[], None]
    """Writes the last update, and with it all of them."""


class PackedAggregate(Operator):
    """An aggregate for each key and window, the windows of a key packed together in the store."""

    _finds_by_start: bool
    """True if the store finds windows by key and start, False if by windowed key."""
    _needed: tuple[str, ...]
    """The columns without which a record is dropped."""

    def __init__(self, table: WindowedTable, store: PackedStore, fold: SessionFold):
        self._node = table.node
        self._context = table.context
        self._fold = fold
        self._packed = store
        self._sends_old = table.sends_old
        self._cache = table.cache(store)
        self._serde = table.serde
        self._time = table.time
        self._closing = table.closing

    def flush(self, out: Collector) -> None:
        if self._cache is not None:
            out.emit(self._cache.flush())

    def release(self, out: Collector) -> None:
        if self._cache is not None:
            out.emit(self._cache.release())

    def _note_closed(self, closed_at: IntArray) -> None:
        """Tell the cache which windows are closed after a chunk of records."""
        if self._cache is not None and not isinstance(self._time, SideTimes):
            self._cache.closed_before = int(closed_at[-1])

    def step(self, batch: Batch, out: Collector) -> None:
        batch = complete(self._node, self._context, batch, *self._needed)
        if not len(batch):
            return
        if out.is_seen and self._closing is None:  # results that are emitted when windows close are stored for good
            self._write_singly(self._singly(batch), out)
        else:
            self._write_together(batch, out)

    @abstractmethod
    def _write_together(self, batch: Batch, out: Collector) -> None:
        """Write the windows around a chunk of records, and emit their changes."""

    @abstractmethod
    def _singly(self, record: Batch) -> Singly:
        """Process one record that has all needed columns. Its changes are not written yet."""

    @property
    def _is_looked_up(self) -> bool:
        return self._packed.name in self._context.facts.looked_up

    def _tell_failures(self, batch: Batch, failed: Iterable[tuple[int, BaseException]]) -> None:
        """Report the rows for which a user function failed."""
        for row, error in failed:
            function = blamed(error, self._fold.function)
            error, way_out = misfit_result(error, self._fold.serde, function)
            self._context.failed(self._node, int(batch.position[row]), error, function, way_out)

    def _write(self, loaded: Loaded, removed: IntArray, new: Entries, unseen_from: int | None, time: int) -> None:
        """Write the changes.

        Args:
            removed: the places of loaded windows that are gone or have changed.
            time: the store's stream time after the write.
        """
        is_removed = np.zeros(len(loaded.entries), np.bool_)
        is_removed[removed] = True
        self._packed.write(loaded, is_removed, new, unseen_from)
        self._packed.advance(time)

    def _write_singly(self, singly: Singly, out: Collector) -> None:
        """Write the updates of one record one by one, and emit each before the next one is written."""
        changes = singly.changes
        if changes is None:
            singly.write_all()
            return
        last = len(changes) - 1
        for number in range(last):
            singly.write(number)
            self._emit(changes.slice(number, number + 1), out)
        singly.write_all()
        self._emit(changes.slice(last, last + 1), out)

    def _emit(self, changes: Changes | None, out: Collector) -> None:
        """Emit the updates that are to be sent on now."""
        if changes is None:
            return
        if self._cache is None:
            out.emit(changes if self._sends_old else replace(changes, old=None))
        else:
            out.emit(self._cache.take(changes))

    def _note(
        self, loaded: Loaded, start: IntArray, end: IntArray, timestamp: IntArray, changes: Changes, times: IntArray
    ) -> None:
        """Note the writes and the previous values for steps that look up this store.

        Args:
            start, end, timestamp: of the loaded windows.
            times: the store's stream time before the first write and after each write.
        """
        there = self._serde.encode_windows(loaded.keys.data.take(pa.array(loaded.entries.row)), start, end)
        before, times = Values(loaded.entries.data, timestamp), np.maximum.accumulate(times)
        written = written_windows(there, before, changes, times, self._finds_by_start)
        self._context.chunk.note(self._packed.name, written)

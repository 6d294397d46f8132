"""What aggregations in sessions and in sliding windows have in common.

Which of these windows there are depends on every record before. All windows around the records of a chunk are looked up
at once; then the records go through compiled rules one by one, and what they put is written at once again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray
from penstock.batch import Batch, Changes
from penstock.ops.core.failures import blamed, misfit_result
from penstock.ops.core.nulls import complete
from penstock.ops.core.operator import Operator
from penstock.ops.core.written import written_windows
from penstock.ops.windows.sessions.fold import SessionFold
from penstock.ops.windows.windowed_table import WindowedTable
from penstock.state.columns.packed import Entries
from penstock.state.columns.rows import Values
from penstock.state.kinds.packed import Loaded, PackedStore


class Singly(NamedTuple):
    """What one record changes, and how its updates are written one by one."""

    changes: Changes | None
    write: Callable[[int], None]
    """Writes one update."""
    write_all: Callable[[], None]
    """Writes the last update; what it writes has all of them."""


class PackedAggregate(Operator):
    """An aggregate for each key and window, the windows of a key packed together in the store."""

    _finds_by_start: bool
    """Whether the store's windows are found by key and start, and not by windowed keys as they are."""
    _needed: tuple[str, ...]
    """The columns without which a record is dropped."""

    def __init__(self, table: WindowedTable, store: PackedStore, fold: SessionFold):
        self._node = table.node
        self._context = table.context
        self._fold = fold
        self._packed = store
        self._sends_old = table.sends_old
        self._tells_stored = table.tells_stored
        self._cache = table.cache(store)
        self._serde = table.serde
        self._time = table.time
        self._closing = table.closing

    def flush(self) -> Changes | None:
        return None if self._cache is None else self._cache.flush()

    def step_singly(self, record: Batch) -> Iterator[Changes | None]:
        if self._closing is not None:  # what is sent on then is in the store for good
            yield self.step(record)
            return
        record = complete(self._node, self._context, record, *self._needed)
        if len(record):
            yield from self._written_singly(*self._singly(record))

    @abstractmethod
    def step(self, batch: Batch) -> Changes | None:
        """The changes of the windows around a chunk of records."""

    @abstractmethod
    def _singly(self, record: Batch) -> Singly:
        """What one record, which has what it needs, changes; nothing is written yet."""

    @property
    def _is_looked_up(self) -> bool:
        return self._packed.name in self._context.facts.looked_up

    def _tell_failures(self, batch: Batch, failed: Iterable[tuple[int, BaseException]]) -> None:
        """Tell of the rows for which a user's function failed."""
        for row, error in failed:
            function = blamed(error, self._fold.function)
            error, way_out = misfit_result(error, self._fold.serde, function)
            self._context.failed(self._node, int(batch.position[row]), error, function, way_out)

    def _write(self, loaded: Loaded, removed: IntArray, new: Entries, unseen_from: int | None, time: int) -> None:
        """Write what has changed.

        Args:
            removed: the places of what was loaded and is not there any more, or has changed.
            time: the store's stream time afterwards.
        """
        is_removed = np.zeros(len(loaded.entries), np.bool_)
        is_removed[removed] = True
        self._packed.write(loaded, is_removed, new, unseen_from)
        self._packed.advance(time)

    def _written_singly(
        self, changes: Changes | None, write: Callable[[int], None], write_all: Callable[[], None]
    ) -> Iterator[Changes | None]:
        """Each update of one record when it is in the store, and not yet the next; the arguments are a ``Singly``."""
        is_held = self._cache is not None and not self._tells_stored
        count = 0 if changes is None or is_held else len(changes)
        for number in range(count - 1):
            assert changes is not None
            write(number)
            yield self._emit(changes.slice(number, number + 1))
        write_all()
        yield self._emit(changes if changes is None or not count else changes.slice(count - 1, count))

    def _emit(self, changes: Changes | None) -> Changes | None:
        """What of all updates is sent on now."""
        if changes is None:
            return None
        if self._cache is None:
            return changes if self._sends_old else replace(changes, old=None)
        if self._tells_stored:
            return self._cache.at_once(changes)
        self._cache.add(changes)
        return None

    def _note(
        self, loaded: Loaded, start: IntArray, end: IntArray, timestamp: IntArray, changes: Changes, times: IntArray
    ) -> None:
        """Note the writes, and what there was before, for those who look things up in the store.

        Args:
            start, end, timestamp: of what was loaded.
            times: the store's stream time before the first write, and after each.
        """
        there = self._serde.encode_windows(loaded.keys.data.take(pa.array(loaded.entries.row)), start, end)
        before, times = Values(loaded.entries.data, timestamp), np.maximum.accumulate(times)
        written = written_windows(there, before, changes, times, self._finds_by_start)
        self._context.chunk.note(self._packed.name, written)

"""Metrics of a running task that depend on clocks, disks and commits: records by step, latencies, sizes."""

from __future__ import annotations

import time

from penstock.figures.metrics import PROCESSED, STATE_BYTES, STATE_ROWS, Metric
from penstock.ops.core.notes import CommitNotes
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.kinds.join_window import JoinWindowStore
from penstock.state.kinds.own.key_value import UserStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.window import WindowStore
from penstock.state.store import StateStore
from penstock.state.task_state import TaskState

_SECONDS = 1.0
"""The longest time between two measurements of the stores: there may be hundreds of pieces in one."""
_SHARE = 50
"""The time between two measurements, in multiples of what the last one took: small stores are measured with every
commit, so that their figures hold when commits end."""


class Observed:
    """The metrics of one task, commit by commit.

    Args:
        counted_elsewhere: the stores of global tables whose rows another task reports; each task has all of them.
    """

    def __init__(self, state: TaskState, counted_elsewhere: frozenset[str] = frozenset()):
        self._state = state
        self._counted_elsewhere = counted_elsewhere
        self._next = float("-inf")

    def figures(self, notes: CommitNotes) -> dict[Metric, int]:
        """Return the metrics of a commit."""
        found = {Metric(PROCESSED, name): records for name, records in notes.processed.items()}
        found |= {self._of_kind(metric): figure for metric, figure in notes.observed.items()}
        begin = time.monotonic()
        if begin >= self._next:
            found |= self._sizes()
            end = time.monotonic()
            self._next = end + min(_SHARE * (end - begin), _SECONDS)
        return found

    def _sizes(self) -> dict[Metric, int]:
        found = {}
        for store in self._state.stores.values():
            if isinstance(store, UserStore) and not store.counts_its_rows:
                continue  # counting would read all rows
            pieces, kind = store.pieces(), "in-memory" if store.in_memory else "rocksdb"
            rows = 0 if store.name in self._counted_elsewhere else store.approximate_rows()
            found[Metric(STATE_ROWS, store.name, kind)] = rows
            found[Metric(STATE_ROWS, store.name, kind_of(store), scope="state")] = rows
            found[Metric(STATE_BYTES, store.name, kind)] = sum(piece.approximate_bytes() for piece in pieces)
        return found

    def _of_kind(self, metric: Metric) -> Metric:
        """Return a metric of a store, with the store's kind in its tag."""
        store = self._state.stores.get(metric.node) if metric.scope == "state" else None
        return metric if store is None else metric._replace(reason=kind_of(store))


def kind_of(store: StateStore) -> str:
    """Return Kafka Streams' name of a store's kind in tags."""
    if isinstance(store, TimeOrderedBuffer):
        return "in-memory-suppression"
    where = "in-memory" if store.in_memory else "rocksdb"
    if isinstance(store, SessionStore):
        return f"{where}-session"
    is_windowed = isinstance(store, (WindowStore, SlidingStore, JoinWindowStore))
    return f"{where}-window" if is_windowed else where

"""What can be seen of a task at work that Kafka Streams does not count: records by step, and the size of its stores."""

from __future__ import annotations

import time
from collections.abc import Mapping

from penstock.metrics import PROCESSED, STATE_BYTES, STATE_ROWS, Metric
from penstock.state.kinds.user import UserStore
from penstock.state.task_state import TaskState

_SECONDS = 1.0
"""How often stores are measured at most: there may be hundreds of pieces in one."""


class Observed:
    """The figures of one task, commit by commit."""

    def __init__(self, state: TaskState):
        self._state = state
        self._measured = float("-inf")

    def figures(self, processed: Mapping[str, int]) -> dict[Metric, int]:
        """Those of a commit in which so many records reached steps."""
        found = {Metric(PROCESSED, name): records for name, records in processed.items()}
        now = time.monotonic()
        if now - self._measured >= _SECONDS:
            self._measured = now
            found |= self._sizes()
        return found

    def _sizes(self) -> dict[Metric, int]:
        found = {}
        for store in self._state.stores.values():
            if isinstance(store, UserStore):
                continue  # to count may be long work there
            pieces, kind = store.pieces(), "in-memory" if store.in_memory else "rocksdb"
            found[Metric(STATE_ROWS, store.name, kind)] = sum(piece.approximate_num_entries() for piece in pieces)
            found[Metric(STATE_BYTES, store.name, kind)] = sum(piece.approximate_bytes() for piece in pieces)
        return found

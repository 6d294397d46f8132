"""A key-value store that a user brings (KIP-892).

The user's store is the layer below the rows in memory: rows that are not in memory are read from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.state import interface
from penstock.state.columns.rows import Values
from penstock.state.interface import RestoreCallback, StateStoreContext
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.own.rows import UserRows
from penstock.state.kinds.own.store import OwnStore
from penstock.state.kinds.own.supplied import supplied
from penstock.state.shapes import KeyValueStore as KeyValueInterface
from penstock.state.shapes import TimestampedBytesStore
from penstock.state.store import Located
from penstock.state.task_context import TaskContext
from penstock.state.transactional import Base, TransactionalRows
from penstock.state.wrappers import TransactionalKeyValueStore


class UserStore(OwnStore, KeyValueStore):
    """A key-value store whose rows are in an object of a user's class.

    Args:
        name: the store's name.
        supplier: returns a new object from each ``get()``.
        timestamped: True if values have timestamps, like those of tables.
    """

    copied_as = KeyValueStore

    def __init__(self, name: str, supplier: Any, timestamped: bool = True):
        KeyValueStore.__init__(self, name)
        made = supplied(supplier, name, KeyValueInterface, "penstock.KeyValueStore")
        self._own = TransactionalKeyValueStore[bytes, bytes](made)
        self._keeps_timestamps = timestamped and (isinstance(made, TimestampedBytesStore) or not made.persistent)

    @property
    def counts_its_rows(self) -> bool:
        """Whether its class has a way of its own to count rows; the inherited one reads all of them."""
        return type(self._own.wrapped).approximate_num_entries is not KeyValueInterface.approximate_num_entries

    def approximate_rows(self) -> int:
        """The number of rows; where some are not in memory, the number that its class tells."""
        here, rows = self._piece.count_in_memory(), self._medium
        if self._piece.is_all_here or not isinstance(rows, UserRows):
            return here
        return max(here, rows.approximate_count())

    def _medium_of(self, restore: RestoreCallback | None) -> UserRows:
        return UserRows(self._own, self._keeps_timestamps, restore)

    def init(self, context: StateStoreContext, root: interface.StateStore) -> None:
        super().init(context, root)
        assert isinstance(context, TaskContext)
        if self._medium is not None:
            self._medium = self._medium_of(context.restore_callbacks.get(self.name))  # which may have rows now
            self._piece = TransactionalRows(self._medium)
            if self.shows_committed:
                self.show_committed()

    def _below_in_copy(self) -> list[tuple[TransactionalRows, Base]]:
        database = None if self._context is None else self._context.database
        return [] if database is None else [(self._piece, database.family(self.name))]

    def put(self, located: Located, values: Values) -> None:
        if not self._keeps_timestamps:
            values = Values(values.data, np.full(len(values.timestamps), -1, np.int64))
        super().put(located, values)

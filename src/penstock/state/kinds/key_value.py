"""The key-value store: the latest value of every key, with its timestamp."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Self

import numpy as np

from penstock.arrays import nulls
from penstock.state.columns.replaced import Replaced
from penstock.state.columns.rows import Keys, Values
from penstock.state.database import Database
from penstock.state.rows_below import above
from penstock.state.store import Located, Part, StateStore
from penstock.state.transactional import Row, TransactionalRows


class KeyValueStore(StateStore):
    """The latest value of every key.

    >>> import pyarrow as pa
    >>> store = KeyValueStore("prices")
    >>> keys = Keys(pa.array([b"a", b"b"], pa.binary()))
    >>> store.put(store.locate(keys), Values(pa.array([b"1", b"2"], pa.binary()), np.array([5, 6])))
    >>> list(store.range(b"b", None))
    [(b'b', b'2', 6)]
    """

    content = "values by key"

    def __init__(self, name: str, in_memory: bool = False):
        self.name = name
        self.in_memory = in_memory
        self.shows_committed = False
        """True if the store also knows the values from before the running transaction."""
        self._piece = TransactionalRows()

    def show_committed(self) -> None:
        """Keep the values from before the transaction, from the next transaction on."""
        self.shows_committed = True
        self._piece.replaced = Replaced()

    def pieces(self) -> list[TransactionalRows]:
        return [self._piece]

    def open(self, database: Database | None) -> None:
        if database is not None:
            self._piece = TransactionalRows(database.family(self.name))
            self._piece.replaced = Replaced() if self.shows_committed else None
            if self.in_memory:
                self._piece.load_all()

    def above(self, committed: bool = False) -> Self:
        """A store that shows these rows beneath its own, which do not reach this store.

        Args:
            committed: show what was committed, without the running transaction.
        """
        made = copy(self)
        made.shows_committed = False
        made._piece = above(self._piece, committed)
        return made

    def locate(self, keys: Keys, all_are_put: bool = False) -> Located:
        rows = self._piece.place(keys) if all_are_put else self._piece.find(keys)
        return Located(keys, [Part(self._piece, rows, np.arange(len(keys)))])

    def put(self, located: Located, values: Values) -> None:
        located.put(values)

    def delete(self, located: Located) -> None:
        """Delete the values of keys."""
        located.put(Values(nulls(len(located.keys)), np.full(len(located.keys), -1, np.int64)))

    def get(self, keys: Keys, committed: bool = False) -> Values:
        """The values of distinct keys, or those from before the running transaction."""
        return self._piece.look_up(keys, committed)

    def get_one(self, key: bytes) -> tuple[bytes, int] | None:
        """The value and timestamp of one key; None if it has none."""
        return self._piece.get_one(key)

    def range(self, low: bytes | None = None, high: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        """The rows with ``low <= key < high``, in the byte order of the keys."""
        return self._piece.scan(low, high, reverse)

    def prefix_scan(self, prefix: bytes, reverse: bool = False) -> Iterator[Row]:
        """The rows whose keys begin with these bytes."""
        return self._piece.prefix_scan(prefix, reverse)

    def approximate_num_entries(self) -> int:
        """The number of rows; approximate for rows that are only on disk."""
        return self._piece.approximate_num_entries()

    def rows(self) -> Iterator[Row]:
        return self.range()

    def families(self) -> dict[str, TransactionalRows]:
        return {self.name: self._piece}

    def evict(self, everything: bool = False) -> None:
        if not self.in_memory:
            super().evict(everything)

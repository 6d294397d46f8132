"""A key-value store with a maximum number of entries, which evicts the least recently used one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.arrays import first_numbers, is_present, without_first
from penstock.state.columns.rows import Keys, Values
from penstock.state.database import Database
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.transactional import ChangeSet, Row, pack_all


class LruStore(KeyValueStore):
    """The latest value of some keys, together with the order of their use.

    The record view marks entries as used by writing them again with a higher number, and removes surplus entries; see
    ``state/records/lru.py``. In the rows, the number takes the place of the timestamp, and the timestamp precedes the
    value.
    """

    content = "LruStore"
    """As every start has recorded it."""

    def __init__(self, name: str, max_entries: int):
        super().__init__(name, in_memory=True)
        self.max_entries = max_entries
        self.version = 0
        """Changes whenever rows change other than by a write here: by a restore or a rollback."""

    # --- in order of use -----------------------------------------------------------------------------------------

    def in_order_of_use(self) -> tuple[list[Row], int]:
        """All rows, the least recently used one first; and the number of the next use."""
        rows = sorted(super().range(), key=lambda row: row[2])
        return [_own(row) for row in rows], rows[-1][2] + 1 if rows else 0

    def put_in_order(self, keys: Keys, values: Values, first_use: int) -> None:
        """Write entries in the order of their use; null removes an entry."""
        self.put(self.locate(keys), Values(pack_all(values), np.arange(len(keys)) + first_use))

    # --- as any key-value store ----------------------------------------------------------------------------------

    def get(self, keys: Keys, committed: bool = False) -> Values:
        packed = super().get(keys, committed).data
        timestamps = np.full(len(packed), -1, np.int64)
        present = np.flatnonzero(is_present(packed))
        timestamps[present] = first_numbers(packed.drop_null())
        return Values(without_first(packed, 8), timestamps)

    def get_one(self, key: bytes) -> tuple[bytes, int] | None:
        found = super().get_one(key)
        return None if found is None else _own((key, *found))[1:]

    def range(self, low: bytes | None = None, high: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        return map(_own, super().range(low, high, reverse))

    def prefix_scan(self, prefix: bytes, reverse: bool = False) -> Iterator[Row]:
        return map(_own, super().prefix_scan(prefix, reverse))

    # --- transactions and the disk -------------------------------------------------------------------------------

    def open(self, database: Database | None) -> None:
        super().open(database)
        self.version += 1

    def apply(self, changes: ChangeSet) -> None:
        super().apply(changes)
        self.version += 1

    def rollback(self) -> None:
        super().rollback()
        self.version += 1


def _own(row: Row) -> Row:
    """A row with its own timestamp."""
    key, packed, _ = row
    return key, packed[8:], int.from_bytes(packed[:8], "big", signed=True)

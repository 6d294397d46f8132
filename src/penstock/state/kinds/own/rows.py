"""A user's store as the layer below the rows that the engine has in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from penstock.errors import StoreError
from penstock.state.columns.rows import Values
from penstock.state.interface import RestoreCallback
from penstock.state.kinds.own.committing import Committing
from penstock.state.kinds.own.errors import named, told
from penstock.state.kinds.own.store import AT_ONCE, Copy
from penstock.state.transactional import ChangeSet, pack_all
from penstock.state.wrappers import InTransactions

_NO_TIMESTAMP = (-1).to_bytes(8, "big", signed=True)
_HOLDS = bytes | bytearray | memoryview


class UserRows(Committing):
    """The rows of a user's store: keys, and values with 8 bytes of timestamp in front.

    Args:
        store: the user's store, within its transactions.
        keeps_timestamps: True if the store receives the timestamps; otherwise they are lost.
        restore: receives restored rows in place of ``put``, if given.
    """

    def __init__(
        self,
        store: InTransactions[Any],
        keeps_timestamps: bool,
        restore: RestoreCallback | None = None,
    ):
        self._store = store
        self._restore = restore
        self._keeps_timestamps = keeps_timestamps
        self.is_empty = next(self.scan(None, None), None) is None

    def get(self, key: bytes) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        with told(self._store, "get"):
            get = self._store.transaction.get
            found = [get(key) for key in keys]
        return [None if value is None else self._packed(key, value) for key, value in zip(keys, found, strict=True)]

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The rows with ``low <= key < high``, sorted by key, or backwards."""
        method, before = "reverse_range" if reverse else "range", None
        with told(self._store, method):
            for key, value in getattr(self._store.transaction, method)(low, high):
                if before is not None and (key > before if reverse else key < before):
                    raise StoreError(
                        f"{named(self._store)} returned the key {key!r} after {before!r}: {method} must return rows "
                        f"in the order of the keys' bytes{', backwards' if reverse else ''}. Sort them. "
                        "Committed data is safe"
                    )
                before = key
                if high is None or key < high:
                    yield key, self._packed(key, value)

    def blocks(self, low: bytes | None, high: bytes | None, count: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        rows = self.scan(low, high)
        while some := list(islice(rows, count)):
            yield [key for key, _ in some], [value for _, value in some]

    def firsts(self, ranges: list[tuple[bytes, bytes]]) -> list[bytes | None]:
        return [next((key for key, _ in self.scan(low, high)), None) for low, high in ranges]

    def approximate_count(self) -> int:
        with told(self._store, "approximate_num_entries"):
            return int(self._store.transaction.approximate_num_entries())

    def approximate_bytes(self) -> int:
        return 0  # such a store does not report it

    def write(self, changes: ChangeSet, restores: bool = False) -> None:
        """Put rows, into the transaction if there is one; null deletes. Restored rows go to the callback that the class
        has registered, if any."""
        self._put(_pairs(changes), restores)

    def _put(self, rows: Iterable[tuple[bytes, bytes | None]], restores: bool) -> None:
        skip = 0 if self._keeps_timestamps else 8
        restore = self._restore if restores else None
        with told(self._store, "put" if restore is None else "its restore callback"):
            put = restore or self._store.transaction.put
            for key, value in rows:
                put(key, None if value is None else value[skip:])

    def become(self, copy: Copy) -> None:
        """Write the differences to the copy, and commit them piece by piece."""
        strangers = [key for keys, _ in self.blocks(None, None, AT_ONCE) for key in copy.without(keys)]
        different = (row for changes in copy.changes() for row in self._different(*zip(*_pairs(changes), strict=True)))
        every = chain(((key, None) for key in strangers), different)
        while some := list(islice(every, AT_ONCE)):
            self._put(some, restores=True)
            self.commit({})

    def _different(self, keys: tuple[bytes, ...], rows: tuple[bytes, ...]) -> list[tuple[bytes, bytes]]:
        found = self.get_many(list(keys))
        return [(key, row) for key, row, own in zip(keys, rows, found, strict=True) if row != own]

    def _packed(self, key: bytes, value: Any) -> bytes:
        if not isinstance(value, _HOLDS):
            raise StoreError(
                f"{named(self._store)} gave {value!r} for the key {key!r}: values are bytes, as they were put, or "
                "None for a key without one. Committed data is safe"
            )
        return bytes(value) if self._keeps_timestamps else _NO_TIMESTAMP + bytes(value)


def _pairs(changes: ChangeSet) -> Iterator[tuple[bytes, bytes | None]]:
    """Keys and rows as Python objects, which exist only for a moment."""
    keys, values = changes.keys.data, changes.values
    for first in range(0, len(keys), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        part = Values(values.data[some], values.timestamps[some])
        yield from zip(keys[some].to_pylist(), pack_all(part).to_pylist(), strict=True)

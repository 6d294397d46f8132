"""A user's store as the layer below the rows that the engine has in memory."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

from penstock.errors import PenstockError, StoreError
from penstock.state.interface import ChangelogOffsets, RestoreCallback, StateStore
from penstock.state.transactional import Base
from penstock.state.wrappers import TransactionalKeyValueStore

_NO_TIMESTAMP = (-1).to_bytes(8, "big", signed=True)
_HOLDS = bytes | bytearray | memoryview
AT_ONCE = 10_000
"""The number of rows that are Python objects at one time."""


class UserRows:
    """The rows of a user's store: keys, and values with 8 bytes of timestamp in front.

    Args:
        store: the user's store, within its transactions.
        keeps_timestamps: True if the store receives the timestamps; otherwise they are lost.
        restore: receives restored rows in place of ``put``, if given.
    """

    def __init__(
        self,
        store: TransactionalKeyValueStore[bytes, bytes],
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
                        f"{_named(self._store)} returned the key {key!r} after {before!r}: {method} must return rows "
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
            return self._store.approximate_num_entries()

    def approximate_bytes(self) -> int:
        return 0  # such a store does not report it

    def write(self, rows: Iterable[tuple[bytes, bytes | None]], restores: bool = False) -> None:
        """Put rows, into the transaction if there is one; None deletes. Restored rows go to the callback that the class
        has registered, if any."""
        skip = 0 if self._keeps_timestamps else 8
        restore = self._restore if restores else None
        with told(self._store, "put" if restore is None else "its restore callback"):
            put = restore or self._store.transaction.put
            for key, value in rows:
                put(key, None if value is None else value[skip:])

    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        with told(self._store, "commit"):
            self._store.commit(changelog_offsets)

    def rollback(self) -> None:
        with told(self._store, "close of a transaction"):
            self._store.rollback()

    def become(self, wanted: Base | None) -> None:
        """Write the differences to a column family, or to no rows at all, and commit them piece by piece."""
        strangers = [key for keys, _ in self.blocks(None, None, AT_ONCE) for key in _missing(wanted, keys)]
        blocks = iter(()) if wanted is None else wanted.blocks(None, None, AT_ONCE)
        different = (row for keys, rows in blocks for row in self._different(keys, rows))
        every = chain(((key, None) for key in strangers), different)
        while some := list(islice(every, AT_ONCE)):
            self.write(some, restores=True)
            self.commit({})

    def _different(self, keys: list[bytes], rows: list[bytes]) -> list[tuple[bytes, bytes]]:
        found = self.get_many(keys)
        return [(key, row) for key, row, own in zip(keys, rows, found, strict=True) if row != own]

    def _packed(self, key: bytes, value: Any) -> bytes:
        if not isinstance(value, _HOLDS):
            raise StoreError(
                f"{_named(self._store)} gave {value!r} for the key {key!r}: values are bytes, as they were put, or "
                "None for a key without one. Committed data is safe"
            )
        return bytes(value) if self._keeps_timestamps else _NO_TIMESTAMP + bytes(value)


def _missing(family: Base | None, keys: list[bytes]) -> list[bytes]:
    if family is None:
        return keys
    return [key for key, row in zip(keys, family.get_many(keys), strict=True) if row is None]


def _named(store: StateStore) -> str:
    kind = type(store.wrapped if isinstance(store, TransactionalKeyValueStore) else store)
    return f"the store {store.name!r} ({kind.__module__}.{kind.__qualname__})"


@contextmanager
def told(store: StateStore, method: str) -> Iterator[None]:
    """Turn errors of a user's class into a ``StoreError`` that names the place."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise StoreError(
            f"{_named(store)} failed in {method} at {last.filename}:{last.lineno}: {type(error).__name__}: {error}. "
            "Committed data is safe: fix the class or its medium and start again, and the store receives the "
            "missing rows"
        ) from error

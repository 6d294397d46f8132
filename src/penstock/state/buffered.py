"""A ready-to-use transaction for your own key-value stores: writes wait in memory until they are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from operator import itemgetter
from typing import Any, cast

from penstock.state.interface import ChangelogOffsets
from penstock.state.shapes import KeyValueStore
from penstock.state.transaction import AbstractTransaction

Rows = Iterator[tuple[bytes, bytes]]
Changes = Mapping[bytes, bytes | None]

_OVERHEAD = 100
"""Approximate bytes that a pair takes in a dictionary apart from its own."""


class BufferedTransaction(AbstractTransaction[Any], KeyValueStore[bytes, bytes]):
    """A transaction of a key-value store of bytes that keeps its writes in memory, and reads them before the store.

    It sees the writes of other transactions once these are committed, at both isolation levels.

    Args:
        store: a store that extends ``AbstractTransactionalStore`` and ``KeyValueStore[bytes, bytes]``.
        write: writes all changes (None deletes) into the store together with the changelog offsets, or nothing.

    >>> from penstock import AbstractTransactionalStore
    >>> class Prices(AbstractTransactionalStore, KeyValueStore[bytes, bytes]):
    ...     name, persistent = "prices", False
    ...
    ...     def __init__(self):
    ...         self.rows = {}
    ...
    ...     def create_transaction(self):
    ...         return BufferedTransaction(self, self.write)
    ...
    ...     def write(self, changes, changelog_offsets):
    ...         rows = {**self.rows, **changes}
    ...         self.rows = {key: value for key, value in rows.items() if value is not None}
    ...
    ...     def put(self, key, value):
    ...         self.write({key: value}, {})
    ...
    ...     def get(self, key):
    ...         return self.rows.get(key)
    ...
    ...     def range(self, low=None, high=None):
    ...         return iter(sorted(self.rows.items()))
    >>> prices = Prices()
    >>> prices.init(None, prices)
    >>> with prices.new_transaction() as transaction:
    ...     transaction.put(b"tea", b"3")
    ...     before = list(prices.range()), list(transaction.range())
    ...     transaction.commit({})
    >>> before, list(prices.range())
    (([], [(b'tea', b'3')]), [(b'tea', b'3')])
    """

    def __init__(self, store: Any, write: Callable[[Changes, ChangelogOffsets], object]):
        super().__init__(store)
        self._write = write
        self.changes: dict[bytes, bytes | None] = {}
        """The writes; None for deleted keys."""
        self._nbytes = 0

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a value; None deletes."""
        self.validate_is_open()
        self.changes[key] = value
        self._nbytes += len(key) + len(value or b"") + _OVERHEAD

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None if it has none."""
        self.validate_is_open()
        return self.changes[key] if key in self.changes else cast(bytes | None, self.store.get(key))

    def range(self, low: bytes | None = None, high: bytes | None = None) -> Rows:
        """Keys and values with ``low <= key <= high``, in order of the keys; None is no bound."""
        self.validate_is_open()
        return self._merged(self.store.range(low, high), low, high, reverse=False)

    def reverse_range(self, low: bytes | None = None, high: bytes | None = None) -> Rows:
        """The rows of ``range``, backwards."""
        self.validate_is_open()
        return self._merged(self.store.reverse_range(low, high), low, high, reverse=True)

    def _merged(self, stored: Rows, low: bytes | None, high: bytes | None, reverse: bool) -> Rows:
        changes = dict(self.changes)
        keys = (key for key in changes if (low is None or key >= low) and (high is None or key <= high))
        written = ((key, changes[key]) for key in sorted(keys, reverse=reverse))
        others = (row for row in stored if row[0] not in changes)
        rows = merge(others, written, key=itemgetter(0), reverse=reverse)
        return cast(Rows, (row for row in rows if row[1] is not None))

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        """The number of changed rows."""
        return len(self.changes)

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The approximate bytes of memory of its writes."""
        return self._nbytes

    def commit_transaction(self, offsets: ChangelogOffsets) -> None:
        """Write everything into the store."""
        self._write(self.changes, offsets)

    def close_transaction(self) -> None:
        """Discard all writes."""
        self.changes = {}
        self._nbytes = 0

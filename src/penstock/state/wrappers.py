"""Stores that are always inside a transaction: each commit begins the next one (KIP-892).

The engine wraps users' stores in these. Its own stores do the same for columns of rows (``transactional.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, cast

from penstock.errors import StoreError
from penstock.state.interface import ChangelogOffsets, IsolationLevel, StateStore, StateStoreContext, TopicPartition
from penstock.state.shapes import KeyValueStore
from penstock.usage.calls import why_store_unusable

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S", bound=StateStore)


class InTransactions(StateStore, Generic[S]):
    """A store of any kind with its current transaction, in which it is read and written; the store itself if it has
    none."""

    def __init__(self, store: S):
        self.wrapped = store
        self._transaction: S | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the store."""
        return self.wrapped.name

    @property
    def persistent(self) -> bool:
        """Whether the store is."""
        return self.wrapped.persistent

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written."""
        return self._transaction is not None and self.wrapped.is_open

    @property
    def isolation_level(self) -> IsolationLevel:
        """How much its reads see of other transactions; without transactions, they see all writes."""
        return getattr(self.transaction, "isolation_level", IsolationLevel.READ_UNCOMMITTED)

    @property
    def transaction(self) -> S:
        """The current transaction; the store itself if it has no transactions."""
        if self._transaction is None:
            raise StoreError(
                f"the store {self.name!r} is not open: call init(context, root) before it is read or written. Nothing "
                "was written"
            )
        return self._transaction

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store, and begin its first transaction."""
        self.wrapped.init(context, root)
        self.begin()

    def begin(self) -> None:
        """Begin the first transaction of a store that is open already.

        Raises:
            StoreError: a method of the transaction is a coroutine or a generator, which has no effect.
        """
        transaction = self.wrapped.new_transaction()
        if why := why_store_unusable(transaction):
            raise StoreError(
                f"the store {self.name!r}: of its transaction {type(transaction).__name__} {why}. Nothing was written"
            )
        self._transaction = cast(S, transaction)

    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        """Commit the transaction with these offsets, and begin the next one."""
        done = self.transaction
        done.commit(changelog_offsets)
        self._transaction = cast(S, done.new_transaction())

    def rollback(self) -> None:
        """Undo the writes of the transaction, and begin the next one; does nothing without transactions."""
        done = self.transaction
        if done is not self.wrapped:
            done.close()
            self._transaction = cast(S, done.new_transaction())

    def close(self) -> None:
        """Roll back, and close the store."""
        if self._transaction is not None and self._transaction is not self.wrapped:
            self._transaction.close()
        self._transaction = None
        self.wrapped.close()

    def manages_offsets(self) -> bool:
        """Whether the store does."""
        return self.wrapped.manages_offsets()

    def get_committed_offset(self, topic_partition: TopicPartition) -> int | None:
        """The committed offset of the store."""
        return self.wrapped.get_committed_offset(topic_partition)

    def new_transaction(self) -> StateStore:
        """Another transaction beside the current one."""
        return self.wrapped.new_transaction()

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        """The number of records that the current transaction would write."""
        return self.transaction.approximate_num_uncommitted_entries

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The bytes of memory that the end of the current transaction would free."""
        return self.transaction.approximate_num_uncommitted_bytes


class TransactionalKeyValueStore(InTransactions[KeyValueStore[K, V]], KeyValueStore[K, V], Generic[K, V]):
    """A key-value store whose reads and writes go through its current transaction.

    ``init`` begins the first transaction, ``commit`` and ``rollback`` begin the next one. With a store without
    transactions, all writes go to the store itself and cannot be rolled back.

    >>> from pathlib import Path
    >>> from penstock import AbstractTransactionalStore, BufferedTransaction
    >>> class Prices(AbstractTransactionalStore, KeyValueStore[bytes, bytes]):
    ...     "Keeps all in memory; see ``BufferedTransaction``."
    ...     name, persistent = "prices", False
    ...
    ...     def __init__(self):
    ...         self.rows = {}
    ...
    ...     def create_transaction(self):
    ...         return BufferedTransaction(self, self.write)
    ...
    ...     def write(self, changes, changelog_offsets):
    ...         self.rows = {key: value for key, value in {**self.rows, **changes}.items() if value is not None}
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
    >>> store = TransactionalKeyValueStore(prices)
    >>> store.init(StateStoreContext("app", "0_0", Path("stores")), store)
    >>> store.put(b"tea", b"3")
    >>> store.get(b"tea"), prices.get(b"tea")
    (b'3', None)
    >>> store.commit({})
    >>> store.put(b"tea", b"4")
    >>> store.rollback()
    >>> store.get(b"tea")
    b'3'

    Args:
        store: a key-value store; one that extends ``AbstractTransactionalStore``, or any other.
    """

    def __init__(self, store: KeyValueStore[K, V]):
        super().__init__(store)

    def put(self, key: K, value: V | None) -> None:
        """Write a value in the transaction; None deletes."""
        self.transaction.put(key, value)

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Write a value unless the key has one; return the previous value."""
        return self.transaction.put_if_absent(key, value)

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Write many."""
        self.transaction.put_all(entries)

    def delete(self, key: K) -> V | None:
        """Delete a key; return its value."""
        return self.transaction.delete(key)

    def get(self, key: K) -> V | None:
        """The value of a key, as the transaction sees it."""
        return self.transaction.get(key)

    def range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, V]]:
        """Keys and values with ``low <= key <= high``, as the transaction sees them."""
        return self.transaction.range(low, high)

    def reverse_range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, V]]:
        """The rows of ``range``, backwards."""
        return self.transaction.reverse_range(low, high)

    def prefix_scan(self, prefix: Any) -> Iterator[tuple[K, V]]:
        """Keys and values where the key begins with a prefix."""
        return self.transaction.prefix_scan(prefix)

    def approximate_num_entries(self) -> int:
        """The approximate number of rows."""
        return self.transaction.approximate_num_entries()


class TransactionalSegment(TransactionalKeyValueStore[K, V]):
    """A segment of a store by time, which goes away as a whole when its time has passed; otherwise the same.

    Args:
        store: the segment's rows.
        id_: the segment's number; segments are in order of time.

    >>> def expire(segments: dict[int, TransactionalSegment], oldest: int):
    ...     for id_ in [id_ for id_ in segments if id_ < oldest]:
    ...         segments.pop(id_).destroy()
    """

    def __init__(self, store: KeyValueStore[K, V], id_: int):
        super().__init__(store)
        self.id = id_

    def destroy(self) -> None:
        """Roll back, close, and remove the rows for good, which the store's own ``destroy`` does if it has one."""
        self.close()
        getattr(self.wrapped, "destroy", lambda: None)()

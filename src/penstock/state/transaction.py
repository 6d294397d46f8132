"""Base classes for your own stores with transactions (KIP-892)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from penstock.errors import StoreError
from penstock.state.interface import ChangelogOffsets, IsolationLevel, StateStore, StateStoreContext, Transaction

S = TypeVar("S", bound="AbstractTransactionalStore")

_UNKNOWN = -1


class AbstractTransaction(Transaction, Generic[S]):
    """A transaction of an ``AbstractTransactionalStore``. It knows whether it is open, and tells its store when it
    ends.

    Your own class defines ``commit_transaction`` and ``close_transaction``, and calls ``validate_is_open`` in each
    method that reads or writes.

    >>> class Draft(AbstractTransaction["Diary"]):
    ...     def __init__(self, store):
    ...         super().__init__(store)
    ...         self.lines = []
    ...
    ...     def write(self, line):
    ...         self.validate_is_open()
    ...         self.lines.append(line)
    ...
    ...     def commit_transaction(self, offsets):
    ...         self.store.lines += self.lines
    ...
    ...     def close_transaction(self):
    ...         self.lines = []
    >>> class Diary(AbstractTransactionalStore):
    ...     name, persistent, lines = "diary", False, []
    ...
    ...     def create_transaction(self):
    ...         return Draft(self)
    >>> from pathlib import Path
    >>> diary = Diary()
    >>> diary.init(StateStoreContext("app", "0_0", Path("stores")), diary)
    >>> with diary.new_transaction() as draft:
    ...     draft.write("a thought that is not kept")
    >>> with diary.new_transaction() as draft:
    ...     draft.write("what happened")
    ...     draft.commit({})
    >>> diary.lines
    ['what happened']

    Args:
        store: the store of the transaction.
        isolation_level: how much its reads see of other transactions; by default as the store's context says.
    """

    def __init__(self, store: S, isolation_level: IsolationLevel | None = None):
        self.store = store
        self._isolation_level = isolation_level or store.isolation_level
        self._ended = ""
        self._on_close: list[Callable[[], object]] = []

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the store."""
        return self.store.name

    @property
    def persistent(self) -> bool:
        """Whether the store is."""
        return self.store.persistent

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written: until it is committed or closed."""
        return not self._ended

    @property
    def isolation_level(self) -> IsolationLevel:
        """How much its reads see of other transactions."""
        return self._isolation_level

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        """The approximate number of records that it would write; -1 unless the class overrides this."""
        return _UNKNOWN

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The approximate bytes of memory that its end would free; -1 unless the class overrides this."""
        return _UNKNOWN

    def on_close(self, callback: Callable[[], object]) -> None:
        """Register a function that is called once the transaction is committed or closed."""
        self.validate_is_open()
        self._on_close.append(callback)

    def validate_is_open(self) -> None:
        """Raise ``StoreError`` if the transaction has ended."""
        if self._ended:
            raise StoreError(
                f"this transaction of the store {self.name!r} was {self._ended} and can no longer be read or "
                "written; begin another one with new_transaction(). Committed data is safe"
            )

    def new_transaction(self) -> StateStore:
        """Another transaction of the same store."""
        return self.store.new_transaction()

    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        """Write everything to the store, and close the transaction. If that fails, it stays open.

        Raises:
            StoreError: it has been committed or closed already.
        """
        self.validate_is_open()
        self.commit_transaction(changelog_offsets)
        self._end("committed")

    def close(self) -> None:
        """Close the transaction and discard its writes. Closing again does nothing."""
        if self.is_open:
            try:
                self.close_transaction()
            finally:
                self._end("closed")

    @abstractmethod
    def commit_transaction(self, offsets: ChangelogOffsets) -> None:
        """Write everything to the store, together with the offsets."""

    @abstractmethod
    def close_transaction(self) -> None:
        """Discard all writes."""

    def _end(self, how: str) -> None:
        self._ended = how
        while self._on_close:
            self._on_close.pop()()


class AbstractTransactionalStore(StateStore):
    """A store of your own with transactions: it keeps track of open ones, and closes them when it is closed.

    Your own class defines ``create_transaction``. If it defines ``init`` and ``close``, these must call the methods of
    this class. ``AbstractTransaction`` has an example, and ``BufferedTransaction`` is ready to use.

    >>> from penstock import BufferedTransaction, KeyValueStore
    >>> class Prices(AbstractTransactionalStore, KeyValueStore[bytes, bytes]):
    ...     name, persistent, rows = "prices", False, {}
    ...
    ...     def create_transaction(self):
    ...         return BufferedTransaction(self, self.write)
    ...
    ...     def write(self, changes, changelog_offsets):
    ...         self.rows = {**self.rows, **changes}
    ...
    ...     def put(self, key, value):
    ...         self.rows[key] = value
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
    >>> prices.get(b"tea") is None  # closed without a commit
    True
    """

    _context: StateStoreContext | None = None
    _transactions: dict[int, AbstractTransaction[Any]] | None = None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store."""
        self._context = context
        self._transactions = {}

    def close(self) -> None:
        """Close all transactions, which undoes their writes, and the store."""
        for transaction in self.open_transactions():
            transaction.close()
        self._transactions = None

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written."""
        return self._transactions is not None

    @property
    def isolation_level(self) -> IsolationLevel:
        """The level of its transactions."""
        return IsolationLevel.READ_COMMITTED if self._context is None else self._context.isolation_level

    @abstractmethod
    def create_transaction(self) -> AbstractTransaction[Any]:
        """Return a new transaction; ``new_transaction``, which users call, keeps track of it."""

    def new_transaction(self) -> AbstractTransaction[Any]:
        """A new transaction: commit it or close it; closing the store closes it.

        Raises:
            StoreError: the store is not open, or ``create_transaction`` does not return a transaction.
        """
        if self._transactions is None:
            raise StoreError(
                f"the store {self.name!r} is not open, so it has no transactions: call init(context, root) first (a "
                "class with an init of its own calls super().init(context, root)). Nothing was written"
            )
        made = self.create_transaction()
        if not isinstance(made, AbstractTransaction):
            raise StoreError(
                f"create_transaction of {type(self).__name__}, the class of the store {self.name!r}, has to give an "
                f"AbstractTransaction that is new; it gave {made!r}. Nothing was written"
            )
        number, kept = id(made), self._transactions
        kept[number] = made
        made.on_close(lambda: kept.pop(number, None))
        return made

    def open_transactions(self) -> list[AbstractTransaction[Any]]:
        """The transactions that are neither committed nor closed, the oldest first."""
        return list((self._transactions or {}).values())

    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        """Commit all open transactions, the oldest first. The last one receives the offsets, so these are never ahead
        of the rows."""
        transactions = self.open_transactions() or [self.new_transaction()]
        for transaction in transactions[:-1]:
            transaction.commit({})
        transactions[-1].commit(changelog_offsets)

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        """The number of records that the open transactions would write; -1 if one of them cannot tell."""
        return _sum(transaction.approximate_num_uncommitted_entries for transaction in self.open_transactions())

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The bytes of memory that the end of the open transactions would free; -1 if one of them cannot tell."""
        return _sum(transaction.approximate_num_uncommitted_bytes for transaction in self.open_transactions())


def _sum(counts: Any) -> int:
    found = cast(list[int], list(counts))
    return _UNKNOWN if _UNKNOWN in found else sum(found)

"""The common part of all record views: open during a chunk, closed after it."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar

from penstock.columns.column import Column
from penstock.errors import OldNameWarning, StoreError
from penstock.messages import show
from penstock.serdes import Serde
from penstock.state import store
from penstock.state.interface import FLUSH_IS_OLD, ChangelogOffsets, IsolationLevel, StateStore, StateStoreContext
from penstock.state.records.held import HeldKeys, HeldValues
from penstock.state.transaction import AbstractTransaction
from penstock.values.durations import MAX_MS

S = TypeVar("S", bound=store.StateStore)
T = TypeVar("T")


Refused = Callable[[str, str], object]
"""Called with the store's name, and the kind of record that was refused: ``window``, ``session`` or ``version``."""


def _ignore(store: str, kind: str) -> None:
    """Report to nobody."""


class RecordView(StateStore, Generic[S]):
    """A store as a processor sees it, one record at a time.

    It is open from ``begin`` to ``end``, for one chunk. In between it answers from the rows that it has loaded, or else
    from the store. Its writes are visible in it at once, and in the store's columns from ``end`` on. Both belong to the
    task's current transaction.

    Args:
        store: the store.
        key: the type of the keys.
        values: the form in which values are held.
    """

    writes = frozenset(("put", "put_all", "put_if_absent", "delete", "remove"))
    """The methods that change rows."""

    def __init__(self, store: S, key: Serde, values: HeldValues):
        self._store = store
        self._keys = HeldKeys(key)
        self._held = values
        self._is_open = self._is_held = False
        self._chunk = 0
        self.on_refused: Refused = _ignore
        """Called when a put is left out because the store's retention has passed."""
        self.begin_transaction: Callable[[], AbstractTransaction[Any]]
        self.read_only: Callable[[IsolationLevel], Any]
        """Returns the store at an isolation level, for reading (KIP-892)."""
        self._transactions: dict[int, AbstractTransaction[Any]] = {}

    @property
    def name(self) -> str:  # type: ignore[override]
        """The store's name."""
        return self._store.name

    @property
    def persistent(self) -> bool:
        """Whether the store's rows are on disk, not only in memory."""
        return not getattr(self._store, "in_memory", False)

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written."""
        return self._is_open

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Do nothing: the engine has opened the store."""

    def close(self) -> None:
        """Do nothing: the engine closes the store with its task."""

    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        """Commit the open transactions, the oldest first. The store's rows are durable with the commit of its task.

        Args:
            changelog_offsets: none: the engine keeps them, with the commit of the task.

        Raises:
            StoreError: there are offsets.
        """
        self.refuse_offsets(changelog_offsets)
        for transaction in self.open_transactions():
            transaction.commit({})

    def flush(self) -> None:
        """Commit without offsets. Deprecated: call ``commit``."""
        warnings.warn(f"store {self.name!r}: {FLUSH_IS_OLD}", OldNameWarning, stacklevel=2)
        self.commit({})

    def refuse_offsets(self, changelog_offsets: ChangelogOffsets) -> None:
        """Raise ``StoreError`` if there are offsets."""
        if changelog_offsets:
            raise StoreError(
                f"the store {self.name!r} keeps its offsets itself, with the commit of its task; call commit({{}}), "
                "which has none. Nothing was committed, and nothing is lost"
            )

    # --- transactions --------------------------------------------------------------------------------------------

    @property
    def isolation_level(self) -> IsolationLevel:
        """How much transactions see of each other, and queries of uncommitted rows."""
        context = self._store._context
        return IsolationLevel.READ_COMMITTED if context is None else context.isolation_level

    def new_transaction(self) -> AbstractTransaction[Any]:
        """A new transaction of this store, inside the commit of its task: commit it, or close it, which undoes it.

        The task's commit also commits a transaction that is still open.
        """
        self._check_open()
        made = self.begin_transaction()
        number, kept = id(made), self._transactions
        kept[number] = made
        made.on_close(lambda: kept.pop(number, None))
        return made

    def open_transactions(self) -> list[AbstractTransaction[Any]]:
        """The transactions that are neither committed nor closed, the oldest first."""
        return list(self._transactions.values())

    def roll_back_transactions(self) -> None:
        """Close all transactions, which undoes their writes."""
        for transaction in self.open_transactions():
            transaction.close()

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        """The approximate number of records that the next commit will write."""
        if self._is_open:
            self._write()
        theirs = sum(one.approximate_num_uncommitted_entries for one in self.open_transactions())
        return self._store.approximate_num_uncommitted_entries + theirs

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The approximate bytes of memory that the next commit will free."""
        if self._is_open:
            self._write()
        theirs = sum(one.approximate_num_uncommitted_bytes for one in self.open_transactions())
        return self._store.approximate_num_uncommitted_bytes + theirs

    def like(self, store: S) -> Self:
        """The same view of another store."""
        return type(self)(store, self._keys.serde, self._held)

    def state_number(self) -> tuple[int, ...]:
        """Numbers that differ whenever the store was written, committed or rolled back in between."""
        times = (
            getattr(self._store, name, 0) for name in ("observed_stream_time", "_committed_stream_time", "version")
        )
        return (self._store.changed_at, *times)

    def kept(self, value: Any) -> Any:
        """A value as the store would return it: later changes in place do not affect it."""
        return self._held.show(self._held.hold(value))

    def places_of(self, given: Mapping[str, Any], number: int) -> set[tuple[Any, ...]]:
        """The places of the rows that a write with these arguments changes.

        Args:
            number: the number of the write.
        """
        hold, session = self._keys.hold, given.get("session")
        if session is not None:
            return {(hold(session.key), session.start, session.end)}
        if "entries" in given:
            return {(hold(key), None, None) for key, _ in given["entries"]}
        return {(hold(given["key"]), given.get("window_start"), given.get("timestamp"))}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of store {self.name!r}{'' if self._is_open else ', closed'}>"

    def begin(self, keys: Column | None = None) -> None:
        """Open it for a chunk.

        Args:
            keys: the keys that the chunk will probably ask for.
        """
        if self._is_held:
            return
        self._is_open = True
        self._chunk += 1
        self._begin()
        if keys is not None and len(keys) and keys.serde == self._keys.serde:
            self._load_keys(keys)

    def end(self) -> None:
        """Write the changes into the store's columns, and close it."""
        if not self._is_held:
            self._write()
            self.abandon()

    def hold(self) -> None:
        """Keep it open until ``release``, even if others begin and end in between."""
        self.begin()
        self._is_held = True

    def release(self) -> None:
        """Write the changes, and close it."""
        self._is_held = False
        self.end()

    def sync(self) -> None:
        """Write the changes while it is held, and load what others have written into the store."""
        self._write()
        self._forget()
        self._begin()

    def abandon(self) -> None:
        """Close it, and forget the changes since ``begin`` that are not in the columns yet."""
        self._is_open = self._is_held = False
        self._forget()

    def _begin(self) -> None:
        """Read the present position of the store."""

    @abstractmethod
    def _load_keys(self, keys: Column) -> None:
        """Load the rows of these keys, which may contain duplicates and nulls."""

    @abstractmethod
    def pending(self) -> int:
        """The number of changed rows that are not in the store's columns yet."""

    @abstractmethod
    def _write(self) -> None:
        """Write the changes into the store's columns; loaded rows stay."""

    @abstractmethod
    def _forget(self) -> None:
        """Forget the loaded rows and the changes."""

    def _check(self, key: Any, what: str = "key") -> None:
        """Refuse a null key, and any use while it is closed."""
        self._check_open()
        if key is None:
            raise StoreError(f"the {what} must not be None: store {self.name!r} has no rows without a key")

    def _check_time(self, time: Any, what: str) -> None:
        """Refuse a value that is not a valid time of a row."""
        if type(time) is not int or not 0 <= time <= MAX_MS:
            raise StoreError(
                f"the {what} in store {self.name!r} must be an int of milliseconds from 1970 on; got {show(time)} of "
                f"type {type(time).__name__}. Nothing was put"
            )

    def _bounds(self, low: Any, high: Any) -> tuple[bytes | None, bytes | None]:
        """The bytes of a range of keys, both ends included; None means no bound."""
        self._check_open()
        encode = self._keys.serde.encode_to_bytes
        return None if low is None else encode(low), None if high is None else encode(high)

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError(
                f"the store {self.name!r} can only be used while its processor works on a record or a punctuation; "
                "it was kept beyond that, or handed to another thread. Use it inside process() and punctuations. "
                "Committed data is safe"
            )

    def _scan(self, rows: Iterator[T]) -> KeyValueIterator[T]:
        """Wrap rows that can be read while the chunk lasts."""
        return KeyValueIterator(self, rows)


class KeyValueIterator(Iterator[T]):
    """Rows of a store at the time of the request; later writes do not affect them.

    It can be closed, or used in a ``with`` block, as in Kafka Streams. Neither is required: it holds no resources.
    """

    __slots__ = ("_chunk", "_next", "_rows", "_view")

    def __init__(self, view: RecordView[Any], rows: Iterator[T]):
        self._view = view
        self._chunk = view._chunk
        self._rows = rows
        self._next: list[T] = []

    def __next__(self) -> T:
        if self._next:
            return self._next.pop()
        if self._view._chunk != self._chunk or not self._view._is_open:
            raise StoreError(
                f"an iterator over the store {self._view.name!r} cannot be kept beyond the record or punctuation for "
                "which it was made; make a list of what is needed later. Committed data is safe"
            )
        return next(self._rows)

    def peek_next_key(self) -> Any:
        """The key of the next row, which stays in place; raises ``StopIteration`` at the end."""
        if not self._next:
            self._next.append(next(self))
        return self._next[0][0]  # type: ignore[index]

    def has_next(self) -> bool:
        """Whether there is another row."""
        try:
            self.peek_next_key()
        except StopIteration:
            return False
        return True

    def close(self) -> None:
        """Return no more rows."""
        self._rows = iter(())
        self._next.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

"""Transactions on the stores of processors: writes that take effect together, or not at all (KIP-892).

A transaction is part of the commit of its task: its commit puts its writes into the store at once, and the task's
commit makes them durable. Until then, its writes are in a store of the same kind above the store's rows, so its reads
see them as if they were written. At its commit, they are made again in the store itself, in their order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache, wraps
from inspect import signature
from typing import Any, NamedTuple

from penstock.errors import OldNameWarning, StoreError
from penstock.state.interface import FLUSH_IS_OLD, ChangelogOffsets, IsolationLevel, StateStore
from penstock.state.records.view import KeyValueIterator, RecordView
from penstock.state.shapes import KeyValueStore, SessionStore, VersionedKeyValueStore, WindowStore, pairs
from penstock.state.transaction import AbstractTransaction

_BY_OTHERS = frozenset(("put_if_absent", "delete"))
"""Writes of a key-value store that its ``get`` and ``put`` make."""
_VALUES = ("value", "aggregate")
"""The names of the arguments that are values."""


class _Write(NamedTuple):
    method: str
    arguments: dict[str, Any]

    def to(self, view: RecordView[Any]) -> Any:
        return getattr(view, self.method)(**self.arguments)


class RecordTransaction(AbstractTransaction[Any]):
    """A transaction of a store that a processor has.

    It sees the rows of the store, with the commits of other transactions, and its own writes above these. Other readers
    see its writes after its commit. It can be used while its store can, and is committed with its task at the latest.

    >>> from penstock.serdes import INT, STR
    >>> from penstock.state.records import record_view
    >>> from penstock.state.kinds.key_value import KeyValueStore
    >>> counts = record_view(KeyValueStore("counts"), STR, INT, timestamped=False)
    >>> counts.begin()
    >>> with counts.new_transaction() as transaction:
    ...     transaction.put("JFK", 1)
    ...     before = transaction.get("JFK"), counts.get("JFK")
    ...     transaction.commit({})
    >>> before, counts.get("JFK")
    ((1, None), 1)
    >>> with counts.new_transaction() as transaction:
    ...     transaction.put("JFK", 2)
    >>> counts.get("JFK")
    1
    """

    def __init__(self, view: RecordView[Any]):
        super().__init__(view)
        self._writes: list[_Write] = []
        self._places: set[tuple[Any, ...]] = set()
        """Its written rows, each once."""
        self._own: RecordView[Any] | None = None
        """The store above the rows of ``store``."""
        self._seen: tuple[int, ...] = ()
        """The state of ``store`` below ``_own``."""

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        """The number of rows that it has written."""
        return len(self._places)

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The approximate bytes of memory of its writes."""
        if not self._writes:
            return 0
        own = self._above()
        own._write()
        return int(own._store.approximate_num_uncommitted_bytes)

    def flush(self) -> None:
        """Commit without offsets. Deprecated: call ``commit``."""
        warnings.warn(f"a transaction of store {self.name!r}: {FLUSH_IS_OLD}", OldNameWarning, stacklevel=2)
        self.commit({})

    def commit_transaction(self, offsets: ChangelogOffsets) -> None:
        """Make the writes in the store, which is committed with its task."""
        self.store.refuse_offsets(offsets)
        self.store._check_open()
        for write in self._writes:
            write.to(self.store)

    def close_transaction(self) -> None:
        """Discard all writes."""

    def _end(self, how: str) -> None:
        self._writes, self._own = [], None
        self._places.clear()
        super()._end(how)

    def _above(self) -> RecordView[Any]:
        """The store as the transaction sees it now."""
        view = self.store
        view._check_open()
        view._write()
        seen = view.state_number()
        if self._own is None or seen != self._seen:
            self._own = view.like(view._store.above())
            self._own.begin()
            for write in self._writes:
                write.to(self._own)
            self._seen = seen
        return self._own

    def read(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """Call a method that reads."""
        self.validate_is_open()
        found = getattr(self._above(), method)(*arguments, **keywords)
        return KeyValueIterator(self.store, found) if isinstance(found, KeyValueIterator) else found

    def write(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """Call a method that writes, and note the call for the commit."""
        self.validate_is_open()
        own = self._above()
        given = dict(signature(getattr(own, method)).bind(*arguments, **keywords).arguments)
        if "entries" in given:
            given["entries"] = [(key, own.kept(value)) for key, value in pairs(given["entries"])]
        for name in _VALUES:
            if name in given:
                given[name] = own.kept(given[name])
        write = _Write(method, given)
        found = write.to(own)
        self._writes.append(write)
        self._places.update(own.places_of(given, len(self._writes)))
        return found


class ReadOnlyRecords:
    """A store of a processor at an isolation level, for reading (KIP-892).

    ``READ_COMMITTED`` is what the last commit of the task made of it, without what the processor has written since.
    """

    def __init__(self, view: RecordView[Any], isolation_level: IsolationLevel):
        self._view = view
        self.isolation_level = isolation_level
        self._own: RecordView[Any] | None = None
        self._seen: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The store's name."""
        return self._view.name

    def __repr__(self) -> str:
        return f"<{type(self._view).__name__} of store {self.name!r}, {self.isolation_level.value}>"

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_") or not callable(getattr(type(self._view), method, None)):
            raise AttributeError(f"the store {self.name!r} has no {method}")
        if method in self._view.writes - {"get"} or hasattr(RecordView, method):
            raise StoreError(
                f"the store {self.name!r} is only read at this isolation level ({method} was called); write into the "
                "store itself. Nothing was written"
            )

        def read(*arguments: Any, **keywords: Any) -> Any:
            found = getattr(self._at_level(), method)(*arguments, **keywords)
            return KeyValueIterator(self._view, found) if isinstance(found, KeyValueIterator) else found

        return read

    def _at_level(self) -> RecordView[Any]:
        view = self._view
        view._check_open()
        if self.isolation_level is IsolationLevel.READ_UNCOMMITTED and "get" not in view.writes:
            return view
        view._write()
        if self._own is None or view.state_number() != self._seen:
            committed = self.isolation_level is IsolationLevel.READ_COMMITTED
            self._own = view.like(view._store.above(committed))
            self._own.begin()
            self._seen = view.state_number()
        return self._own


def transaction_of(view: RecordView[Any]) -> RecordTransaction:
    """A new transaction of a store, with the methods of its kind."""
    return _class_for(type(view))(view)


@lru_cache(maxsize=32)
def _class_for(kind: type[RecordView[Any]]) -> type[RecordTransaction]:
    shapes = (KeyValueStore, WindowStore, SessionStore, VersionedKeyValueStore)
    shape: type[StateStore] = next(one for one in shapes if issubclass(kind, one))
    of_every_store = set(dir(RecordView))
    names = [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]
    own = {name for name in names if name not in of_every_store}
    made = own - _BY_OTHERS if shape is KeyValueStore else own
    methods = {name: _method(kind, name) for name in made}
    return type("Transaction", (RecordTransaction, shape), {**methods, "__doc__": RecordTransaction.__doc__})


def _method(kind: type[RecordView[Any]], name: str) -> Callable[..., Any]:
    if name in kind.writes:

        @wraps(getattr(kind, name))
        def write(self: RecordTransaction, *arguments: Any, **keywords: Any) -> Any:
            return self.write(name, *arguments, **keywords)

        return write

    @wraps(getattr(kind, name))
    def read(self: RecordTransaction, *arguments: Any, **keywords: Any) -> Any:
        return self.read(name, *arguments, **keywords)

    return read

"""The interface of state stores, for users who bring their own and for the engine, whose stores implement it, too
(KIP-892).

A store takes part in commits: writes are kept apart until ``commit`` is called with their changelog offsets. A store
with transactions returns them from ``new_transaction``. A store without transactions returns itself, and the engine
holds its writes back until they are committed. ``transaction.py`` has base classes for stores with transactions.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from inspect import getsourcefile
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from weakref import WeakSet

from penstock.errors import ConfigError, OldNameWarning, StoreError

RestoreCallback = Callable[[bytes, bytes | None], object]
"""Called with each key and value while a store is restored; the value is None for a deleted key."""


class TopicPartition(NamedTuple):
    """A partition of a topic.

    >>> str(TopicPartition("flights", 0))
    'flights-0'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


ChangelogOffsets = Mapping[TopicPartition, int]
"""How far changelogs have been written into a store. Penstock counts changelogs in commits: the value is the number of
the newest commit in the store."""


class IsolationLevel(Enum):
    """How much reads see of uncommitted transactions (KIP-892). At every level, a transaction reads its own writes.

    >>> IsolationLevel.of("exactly_once_v2"), IsolationLevel.of("at_least_once")
    (<IsolationLevel.READ_COMMITTED: 'read_committed'>, <IsolationLevel.READ_UNCOMMITTED: 'read_uncommitted'>)
    """

    READ_UNCOMMITTED = "read_uncommitted"
    """Reads may see the uncommitted writes of other transactions: dirty reads, non-repeatable reads and phantoms are
    possible. The store decides when it shows them, at the latest at the commit."""
    READ_COMMITTED = "read_committed"
    """Reads see only committed writes; non-repeatable reads and phantoms are still possible."""

    @classmethod
    def of(cls, processing_guarantee: str) -> IsolationLevel:
        """The level of an application: ``READ_COMMITTED`` under ``exactly_once`` (Kafka's ``exactly_once_v2``), and
        ``READ_UNCOMMITTED`` under ``at_least_once``.

        Raises:
            ConfigError: the guarantee is another one.
        """
        found = _LEVELS.get(processing_guarantee)
        if found is None:
            raise ConfigError(f"processing_guarantee must be one of {', '.join(_LEVELS)}; got {processing_guarantee!r}")
        return found


_LEVELS = {
    "exactly_once": IsolationLevel.READ_COMMITTED,
    "exactly_once_v2": IsolationLevel.READ_COMMITTED,
    "at_least_once": IsolationLevel.READ_UNCOMMITTED,
}


class StateStoreContext:
    """The context of a store, given to ``StateStore.init``: its application, its task, its folder and the settings.

    >>> context = StateStoreContext("flights", "0_2", Path("stores/0_2"), {"processing_guarantee": "at_least_once"})
    >>> context.isolation_level, context.partition
    (<IsolationLevel.READ_UNCOMMITTED: 'read_uncommitted'>, 2)

    Args:
        application_id: the application.
        task_id: the task, as ``<sub-topology>_<partition>``.
        state_dir: a folder for the files of this task's stores; it may not exist yet.
        app_configs: the settings of the application, by name.
    """

    def __init__(
        self, application_id: str, task_id: str, state_dir: Path, app_configs: Mapping[str, Any] = MappingProxyType({})
    ):
        self.application_id = application_id
        self.task_id = task_id
        self.state_dir = state_dir
        self.app_configs = app_configs
        self.restore_callbacks: dict[str, RestoreCallback] = {}
        """By the names of stores."""
        self.change_logs: dict[str, RestoreCallback] = {}
        """The functions by which stores log their changes, by the names of the stores."""

    @property
    def partition(self) -> int:
        """The partition that the task processes."""
        return int(self.task_id.rpartition("_")[2])

    @property
    def isolation_level(self) -> IsolationLevel:
        """The level of every transaction of the task's stores: ``READ_COMMITTED`` if the application processes exactly
        once, otherwise ``READ_UNCOMMITTED``."""
        return IsolationLevel.of(self.app_configs.get("processing_guarantee", "exactly_once"))

    def log_change(self, root: StateStore, key: bytes, value: bytes | None) -> None:
        """Log a change of a store whose rows Penstock does not know, while a processor works; None for a deletion.

        The task's commit includes the last value of each key. A store that lacks a value gets it through its registered
        callback, at a start or after a rollback of logged changes.

        Raises:
            StoreError: Penstock logs the changes of this store itself.
        """
        log = self.change_logs.get(root.name)
        if log is None:
            raise StoreError(
                f"the store {root.name!r} logs a change, but Penstock does that for it: put writes the changelog. "
                "Leave log_change out. Nothing was logged"
            )
        log(key, value)

    def register(self, root: StateStore, restore_callback: RestoreCallback | None = None) -> None:
        """Register a callback that receives restored rows; without one, restored rows are passed to ``put``."""
        if restore_callback is not None:
            self.restore_callbacks[root.name] = restore_callback


class StateStore(ABC):
    """A store of one task.

    Your own class defines ``name``, opens its database or files in ``init``, writes to them in ``commit``, and closes
    them in ``close``. A class from before KIP-892, with ``flush`` instead, works unchanged, with a
    ``DeprecationWarning``. All other methods have defaults, for a store without transactions or offsets.

    >>> class Notes(StateStore):
    ...     name, persistent, is_open = "notes", False, True
    ...
    ...     def init(self, context, root):
    ...         self.notes = []
    ...
    ...     def commit(self, changelog_offsets):
    ...         print("committed", len(self.notes), "at", changelog_offsets)
    ...
    ...     def close(self):
    ...         pass
    >>> notes = Notes()
    >>> notes.init(StateStoreContext("diary", "0_0", Path("stores")), notes)
    >>> notes.commit({TopicPartition("diary-notes-changelog", 0): 7})
    committed 0 at {TopicPartition(topic='diary-notes-changelog', partition=0): 7}
    >>> notes.new_transaction() is notes, notes.manages_offsets(), notes.approximate_num_uncommitted_entries
    (True, False, 0)
    """

    name: str
    """The store's name in the topology."""

    @abstractmethod
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store, before it is read or written.

        Args:
            context: the context of the store.
            root: the outermost store, which may wrap this one.
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Uncommitted writes are discarded."""

    @property
    @abstractmethod
    def persistent(self) -> bool:
        """Whether its rows survive a restart."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether it can be read and written."""

    def flush(self) -> None:
        """Commit without offsets. Deprecated: call ``commit``, and in your own class define ``commit`` instead of
        ``flush``."""
        _warn_of_flush(type(self))
        if type(self).commit is not StateStore.commit:
            self.commit({})
        elif type(self).flush is StateStore.flush:
            raise _cannot_commit(self)

    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        """Make all writes, including those of open transactions, part of the store, together with these offsets.

        A store with atomic transactions writes the offsets atomically with the rows. By default this calls the
        ``flush`` of a store from before KIP-892.

        Args:
            changelog_offsets: the changelog offsets of the writes.

        Raises:
            StoreError: the class has neither ``commit`` nor ``flush``.
        """
        if type(self).flush is not StateStore.flush:
            _warn_of_flush(type(self))
            self.flush()
        elif type(self).commit is StateStore.commit:
            raise _cannot_commit(self)

    def manages_offsets(self) -> bool:
        """Whether the store keeps the offsets that it receives; only a ``persistent`` store can. Otherwise Penstock
        keeps them in a file ``.checkpoint`` in the folder of the task's stores. If it is true, the class must define
        ``committed_offset``, too."""
        return False

    def get_committed_offset(self, topic_partition: TopicPartition) -> int | None:
        """The changelog offset of the last commit, or None, also for a store that is not persistent or does not manage
        offsets."""
        if type(self).committed_offset is not StateStore.committed_offset:
            return self.committed_offset(topic_partition)
        return None

    def committed_offset(self, topic_partition: TopicPartition) -> int | None:
        """The same as ``get_committed_offset``, under the name that Kafka Streams gives it; define either."""
        if type(self).get_committed_offset is not StateStore.get_committed_offset:
            return self.get_committed_offset(topic_partition)
        return None

    def new_transaction(self) -> StateStore:
        """A new transaction: commit it or close it. A store without transactions returns itself, which isolates
        nothing.

        A transaction is not thread-safe; each thread needs its own.
        """
        return self

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        """The approximate number of records that the next commit will write; -1 if unknown, and 0 for a store without
        transactions, which has written them already."""
        return 0

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The approximate bytes of memory that the next commit will free; -1 if unknown, and 0 for a store without
        transactions."""
        return 0


class Transaction(StateStore):
    """Reads and writes of a store that take effect together or not at all (KIP-892).

    It is a view of its store, with the same methods. Commit it once, or close it, which undoes its writes; a ``with``
    block that ends without a commit closes it. It is not thread-safe: each thread needs its own.

    ``AbstractTransaction`` is the base class for your own transactions, and has an example.

    >>> def double(prices, item):
    ...     with prices.new_transaction() as transaction:
    ...         transaction.put(item, 2 * transaction.get(item))
    ...         transaction.commit({})
    """

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Do nothing: a transaction is open from the start."""

    @property
    @abstractmethod
    def isolation_level(self) -> IsolationLevel:
        """How much its reads see of other transactions."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether it can be read and written: until it is committed or closed."""

    @abstractmethod
    def new_transaction(self) -> StateStore:
        """A new transaction of the same store, once this one has ended; it may be the same object, begun again."""

    @abstractmethod
    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        """Write everything to the store, and close the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Close the transaction and discard its writes; the store stays open. Closing again does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


FLUSH_IS_OLD = "flush() is deprecated (KIP-892): a state store has commit(changelog_offsets)"
_warned: WeakSet[type] = WeakSet()


def warn_if_old(kind: type[StateStore]) -> None:
    """Warn of a class that has ``flush`` and no ``commit``."""
    if kind.flush is not StateStore.flush and kind.commit is StateStore.commit:
        _warn_of_flush(kind)


def _warn_of_flush(kind: type[StateStore]) -> None:
    """Warn once for each class, at the line where it is defined."""
    if kind not in _warned:
        _warned.add(kind)
        text = f"{kind.__name__}.{FLUSH_IS_OLD}"
        place = _where(kind)
        warnings.warn_explicit(text, OldNameWarning, *place, module=kind.__module__)


def _where(kind: type) -> tuple[str, int]:
    every = (method for name in ("flush", "commit") for one in kind.__mro__ if (method := one.__dict__.get(name)))
    method = next((method for method in every if not method.__module__.startswith("penstock.")), None)
    if method is not None and hasattr(method, "__code__"):
        return method.__code__.co_filename, method.__code__.co_firstlineno
    try:
        return getsourcefile(kind) or kind.__module__, 1
    except TypeError:  # defined at a prompt
        return kind.__module__, 1


def tells_offsets(kind: type[StateStore]) -> bool:
    """Return whether a class defines where its offsets are read from, under either name."""
    own = StateStore.get_committed_offset, StateStore.committed_offset
    return (kind.get_committed_offset, kind.committed_offset) != own


def _cannot_commit(store: StateStore) -> StoreError:
    return StoreError(
        f"the store {store.name!r} cannot commit: its class {type(store).__name__} has neither "
        "commit(changelog_offsets) nor the flush() of before KIP-892. Write commit, which makes what was put last; "
        "one that keeps everything in memory may have nothing to do there. Nothing was committed"
    )

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

from penstock.errors import StoreError

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
"""How far changelogs are in a store. Penstock counts them in commits: the number of the newest one that is in it."""


class IsolationLevel(Enum):
    """What reads see of transactions that are not committed (KIP-892). All levels guarantee that a transaction reads
    its own writes.

    >>> IsolationLevel.of("exactly_once"), IsolationLevel.of("at_least_once")
    (<IsolationLevel.READ_COMMITTED: 'read_committed'>, <IsolationLevel.READ_UNCOMMITTED: 'read_uncommitted'>)
    """

    READ_UNCOMMITTED = "read_uncommitted"
    """Reads may see what other transactions wrote and have not committed: dirty reads, non-repeatable reads, phantoms.
    When they see it is up to the store; it may also show it at the commit only."""
    READ_COMMITTED = "read_committed"
    """Reads see only what was committed: non-repeatable reads and phantoms remain."""

    @classmethod
    def of(cls, processing_guarantee: str) -> IsolationLevel:
        """The level of an application: ``READ_COMMITTED`` under exactly once, ``READ_UNCOMMITTED`` otherwise."""
        return cls.READ_COMMITTED if processing_guarantee == "exactly_once" else cls.READ_UNCOMMITTED


class StateStoreContext:
    """Where a store finds itself: given to ``StateStore.init``.

    >>> context = StateStoreContext("flights", "0_2", Path("stores/0_2"), {"processing_guarantee": "at_least_once"})
    >>> context.isolation_level, context.partition
    (<IsolationLevel.READ_UNCOMMITTED: 'read_uncommitted'>, 2)

    Args:
        application_id: the application.
        task_id: the task, as ``<sub-topology>_<partition>``.
        state_dir: a folder of this task for stores to keep files in; it may not be there yet.
        app_configs: the settings of the application, by their names.
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

    @property
    def partition(self) -> int:
        """The partition that the task processes."""
        return int(self.task_id.rpartition("_")[2])

    @property
    def isolation_level(self) -> IsolationLevel:
        """That of every transaction of the task's stores: ``READ_COMMITTED`` if the application processes exactly once,
        otherwise ``READ_UNCOMMITTED``."""
        return IsolationLevel.of(self.app_configs.get("processing_guarantee", "exactly_once"))

    def register(self, root: StateStore, restore_callback: RestoreCallback | None = None) -> None:
        """Have restored rows given to a function of the store's own; without one they come by ``put``."""
        if restore_callback is not None:
            self.restore_callbacks[root.name] = restore_callback


class StateStore(ABC):
    """A store of one task.

    A class of one's own has ``name``, opens in ``init`` and lets go in ``close``. It writes to its medium in
    ``commit``; one from before KIP-892, which has ``flush`` instead, works as it is, with a ``DeprecationWarning``. The
    rest has defaults, those of a store that knows neither transactions nor offsets.

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
    """The store's name, as the topology has it."""

    @abstractmethod
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store, before it is read or written.

        Args:
            context: where the store is.
            root: the store as the topology knows it, which may be one around this one.
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. What is not committed is not kept."""

    @property
    @abstractmethod
    def persistent(self) -> bool:
        """Whether its rows are still there after a restart."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether it can be read and written."""

    def flush(self) -> None:
        """Commit without offsets. Deprecated: use ``commit``, and write ``commit`` where a class has ``flush``."""
        _warn_of_flush(type(self))
        if type(self).commit is not StateStore.commit:
            self.commit({})
        elif type(self).flush is StateStore.flush:
            raise _cannot_commit(self)

    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        """Make all writes, those of open transactions too, part of the store, together with these offsets.

        A store whose transactions are atomic keeps the offsets atomically with the writes. By default this calls the
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
        """Whether the store keeps the offsets that it is given, which only one that is ``persistent`` can. For a
        persistent store that does not, they are kept in a file ``.checkpoint`` in the folder of the task's stores."""
        return False

    def get_committed_offset(self, topic_partition: TopicPartition) -> int | None:
        """The offset of a changelog that the store was last committed with; None when there is none, and of a store
        that is not persistent or does not manage offsets."""
        return None

    def new_transaction(self) -> StateStore:
        """A new transaction: commit it or close it. A store without transactions gives itself, which isolates nothing.

        Transactions are not made for several threads; each thread has its own.
        """
        return self

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        """How many records the next commit would write, about; -1 when that cannot be counted, and 0 for a store
        without transactions, which has written them already."""
        return 0

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The bytes of memory that the next commit would free, about; -1 when they cannot be counted, and 0 for a store
        without transactions."""
        return 0


class Transaction(StateStore):
    """Reads and writes of a store that count together or not at all (KIP-892).

    It is a view of its store, with the same methods. Commit it once, or close it, which takes its writes back; a
    ``with`` block that ends without a commit closes it. Not for several threads: each has its own.

    ``AbstractTransaction`` is the base class for transactions of one's own, and has an example.

    >>> def double(prices, item):
    ...     with prices.new_transaction() as transaction:
    ...         transaction.put(item, 2 * transaction.get(item))
    ...         transaction.commit({})
    """

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Nothing: a transaction is open from the start."""

    @property
    @abstractmethod
    def isolation_level(self) -> IsolationLevel:
        """What its reads see of other transactions."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether it can be read and written: until it is committed or closed."""

    @abstractmethod
    def new_transaction(self) -> StateStore:
        """A new transaction of the same store, when this one is no longer used; it may be this one, begun again."""

    @abstractmethod
    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        """Write everything to the store, and close the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Close the transaction and forget what it wrote; the store stays open. Closing again does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_warned: WeakSet[type] = WeakSet()


def warn_if_old(kind: type[StateStore]) -> None:
    """Warn of a class that has ``flush`` and no ``commit``."""
    if kind.flush is not StateStore.flush and kind.commit is StateStore.commit:
        _warn_of_flush(kind)


def _warn_of_flush(kind: type[StateStore]) -> None:
    """Warn once for each class, at the line where it is defined."""
    if kind not in _warned:
        _warned.add(kind)
        text = f"{kind.__name__}.flush() is deprecated (KIP-892): a state store has commit(changelog_offsets)"
        place = _where(kind)
        warnings.warn_explicit(text, DeprecationWarning, *place, module=kind.__module__)


def _where(kind: type) -> tuple[str, int]:
    method = kind.__dict__.get("flush") or kind.__dict__.get("commit")
    if method is not None and hasattr(method, "__code__"):
        return method.__code__.co_filename, method.__code__.co_firstlineno
    try:
        return getsourcefile(kind) or kind.__module__, 1
    except TypeError:  # defined at a prompt
        return kind.__module__, 1


def _cannot_commit(store: StateStore) -> StoreError:
    return StoreError(
        f"the store {store.name!r} cannot commit: its class {type(store).__name__} has neither "
        "commit(changelog_offsets) nor the flush() of before KIP-892. Write commit, which makes what was put last; "
        "one that keeps everything in memory may have nothing to do there. Nothing was committed"
    )

"""A store of any class that a user brings: processors get the object itself, or its current transaction (KIP-892).

Penstock knows nothing of its rows. The class logs changes with ``context.log_change``. They are its changelog: it is
committed with everything else. The callback that the class registers restores it, and undoes it after a rollback.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from penstock.arrays import binary
from penstock.state import interface
from penstock.state.columns.rows import Keys, Values
from penstock.state.interface import ChangelogOffsets, RestoreCallback, StateStoreContext
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.own.begun import BegunKeys
from penstock.state.kinds.own.committing import Committing
from penstock.state.kinds.own.errors import told
from penstock.state.kinds.own.store import Copy, OwnStore
from penstock.state.kinds.own.supplied import supplied
from penstock.state.store import NO_OFFSETS
from penstock.state.task_context import TaskContext
from penstock.state.transactional import ChangeSet
from penstock.state.wrappers import InTransactions

_log = logging.getLogger(__name__)


class Changelog(Committing):
    """A user's store as a medium: what the class has logged is handed to its restore callback."""

    is_empty = True  # it cannot be asked

    def __init__(self, store: InTransactions[Any], restore: RestoreCallback | None):
        self._store = store
        self._restore = restore

    def write(self, changes: ChangeSet, restores: bool = False) -> None:
        """Hand over restored rows; others were written by the class itself, before it logged them."""
        if restores and self._restore is not None:
            with told(self._store, "its restore callback"):
                for key, value in zip(changes.keys.data.to_pylist(), changes.values.data.to_pylist(), strict=True):
                    self._restore(key, value)

    def become(self, copy: Copy) -> None:
        for changes in copy.changes():
            self.write(changes, restores=True)


class DirectStore(OwnStore, KeyValueStore):
    """The changelog of a store of any class.

    Args:
        name: the store's name.
        supplier: returns a new object from each ``get()``.
    """

    copied_as = KeyValueStore
    _begun: BegunKeys | None = None
    """Keys that the class has written; None if its writes can be taken back, or are gone with the process."""
    _left: frozenset[bytes] = frozenset()
    """The keys that a killed process was writing."""

    def __init__(self, name: str, supplier: Any):
        KeyValueStore.__init__(self, name)
        self._own = InTransactions(supplied(supplier, name, interface.StateStore, "penstock.StateStore"))

    @property
    def class_(self) -> type[interface.StateStore]:
        """The user's class."""
        return type(self._own.wrapped)

    @property
    def handed(self) -> Any:
        """The store for processors."""
        own = self._own.wrapped
        has_transactions = type(own).new_transaction is not interface.StateStore.new_transaction
        return Current(self._own) if has_transactions else own

    def init(self, context: StateStoreContext, root: interface.StateStore) -> None:
        assert isinstance(context, TaskContext)
        context.change_logs[self.name] = self._logged
        super().init(context, root)
        self._undo(context)
        is_behind = self._own.persistent and 0 <= self._at < context.newest and not context.reads_only
        if is_behind and context.restore_callbacks.get(self.name) is None:
            _log.warning(
                "the store %r is at commit %d, and the newest one is %d: its class registers no restore callback, so "
                "it does not receive what it lacks. Let its init call context.register(root, callback), and log "
                "changes with context.log_change", self.name, self._at, context.newest,
            )  # fmt: skip

    def can_be_restored(self) -> bool:
        return self._context is not None and self._context.restore_callbacks.get(self.name) is not None

    def _medium_of(self, restore: RestoreCallback | None) -> Changelog:
        return Changelog(self._own, restore)

    def _undo(self, context: TaskContext) -> None:
        """Give the keys that a killed process was writing the values of the copy; those of later commits follow."""
        if context.reads_only or not self._own.persistent or self._has_transactions or not self.can_be_restored():
            return
        self._begun = BegunKeys(context.state_dir / f"{self.name}.begun")
        self._left = frozenset(self._begun.keys)
        self._bring_back(Keys(binary(sorted(self._left))))

    def _bring_back(self, keys: Keys) -> None:
        """Hand the present values of some keys to the class."""
        if len(keys) and self._medium is not None:
            self._medium.write(ChangeSet(keys, self.get(keys)), restores=True)

    def applied(self, changelog_offsets: ChangelogOffsets) -> None:
        [commit] = changelog_offsets.values()
        if self._left and commit <= self._at:  # the class has this commit, but not all keys any more
            changed = {key for changes in self._restored for key in changes.keys.data.to_pylist()}
            self._bring_back(Keys(binary(sorted(self._left & changed))))
        super().applied(changelog_offsets)

    def commit(self, changelog_offsets: ChangelogOffsets = NO_OFFSETS) -> None:
        super().commit(changelog_offsets)
        if self._begun is not None and changelog_offsets:
            self._begun.clear()

    def close(self) -> None:
        super().close()
        if self._begun is not None:
            self._begun.close()

    def _logged(self, key: bytes, value: bytes | None) -> None:
        if self._begun is not None:
            self._begun.add(key)
        self.put(self.locate(Keys(binary([key])), all_are_put=True), Values(binary([value]), np.array([-1])))

    def prepare(self) -> None:
        """Do nothing: the class has written already."""

    def rollback(self) -> None:
        changed = self._piece.changes().keys
        KeyValueStore.rollback(self)
        if self._medium is None:
            return
        if self._own.transaction is not self._own.wrapped:
            self._medium.rollback()
        else:
            self._bring_back(changed)
            if self._begun is not None:
                self._begun.clear()


class Current:
    """The current transaction of a user's store, whichever that is."""

    def __init__(self, store: InTransactions[Any]):
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.transaction, name)

    def __repr__(self) -> str:
        return f"<the transaction of store {self._store.name!r}>"

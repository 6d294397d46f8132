"""The common part of stores whose rows are in an object of a user's class (KIP-892).

The engine keeps the running transaction in columns, as for its own stores. It writes to the user's store once a
transaction is committed. A store with transactions receives the writes before the commit, in a transaction, so that
errors occur before the commit counts. The task's database has a copy of all rows. This copy is the changelog from which
a store that is new, lost or behind is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, ClassVar, Protocol

from penstock.arrays import binary
from penstock.errors import StoreError
from penstock.faults import crash_point
from penstock.state import interface
from penstock.state.checkpoint_file import UNKNOWN, OffsetCheckpoint
from penstock.state.columns.rows import Keys
from penstock.state.database import Database
from penstock.state.interface import ChangelogOffsets, RestoreCallback, StateStoreContext, TopicPartition
from penstock.state.kinds.own.errors import told
from penstock.state.store import NO_OFFSETS, StateStore
from penstock.state.task_context import TaskContext
from penstock.state.transactional import Base, ChangeSet, TransactionalRows, unpack_all
from penstock.state.wrappers import InTransactions

AT_ONCE = 10_000
"""The number of rows that are Python objects at one time."""


class Copy:
    """The rows of a store in the task's database.

    Args:
        name: the store's name.
        database: the database; without one there are no rows.
        keys_of: turns the keys of a column family into those of changes.
    """

    def __init__(self, name: str, database: Database | None, keys_of: Callable[[str, list[bytes]], Keys]):
        self._keys_of = keys_of
        self._families: dict[str, Base] = {}
        for family in () if database is None else database.families():
            if database is not None and (family == name or family.startswith(f"{name}/")):
                self._families[family] = database.family(family)

    def __bool__(self) -> bool:
        """True if there are rows."""
        return any(True for family in self._families.values() for _ in family.scan(None, None))

    def changes(self) -> Iterator[ChangeSet]:
        """All rows, some at a time."""
        for name, family in self._families.items():
            for keys, rows in family.blocks(None, None, AT_ONCE):
                yield ChangeSet(self._keys_of(name, keys), unpack_all(binary(rows)))

    def without(self, keys: list[bytes]) -> list[bytes]:
        """Those of some keys, in their form on disk, that have no row."""
        for family in self._families.values():
            keys = [key for key, row in zip(keys, family.get_many(keys), strict=True) if row is None]
        return keys


class Medium(Protocol):
    """The user's store, as its engine store writes to it."""

    is_empty: bool
    """True if it had no rows when it was opened, or cannot tell."""

    def write(self, changes: ChangeSet, restores: bool = False) -> None:
        """Write rows, into the transaction if there is one. Restored rows go to the callback that the class has
        registered, if any."""

    def become(self, copy: Copy) -> None:
        """Write the differences to the rows of the copy, and commit them."""

    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        """Commit what was written."""

    def rollback(self) -> None:
        """Undo what was written, if the store has transactions."""


class OwnStore(StateStore):
    """A store of the engine, one of whose kinds it extends, with its rows in a user's store, too."""

    needs_folder = True
    copied_as: ClassVar[type[StateStore]]
    """The kind of store of the copy, which queries read."""
    _own: InTransactions[Any]
    _medium: Medium | None = None
    _is_prepared = False
    _is_marked = False
    """True while a file says that it is written to, and nothing how far."""
    _at = -1
    """The commit of the rows in the user's store."""

    def _medium_of(self, restore: RestoreCallback | None) -> Medium:
        raise NotImplementedError

    # --- opening -------------------------------------------------------------------------------------------------

    def init(self, context: StateStoreContext, root: interface.StateStore) -> None:
        assert isinstance(context, TaskContext)
        self._restored: list[ChangeSet] = []
        self._thread = get_ident()
        if not context.reads_only:  # others need only the copy
            context.state_dir.mkdir(parents=True, exist_ok=True)
            with told(self._own, "init"):
                self._own.init(context, self._own)
            self._medium = self._medium_of(context.restore_callbacks.get(self.name))
        copy = Copy(self.name, context.database, self._keys_of)  # first: opening the store may add families
        super().init(context, root)
        if self._medium is not None:
            self._bring_up(context, self._medium, copy)

    def _bring_up(self, context: TaskContext, medium: Medium, copy: Copy) -> None:
        """Find out which commit the user's store is at, and copy rows into it that delta files no longer have."""
        changelog, file = context.changelog(self.name), OffsetCheckpoint(context.state_dir)
        is_begun = file.has(changelog)
        at = self._position(context, medium)
        self._check(at, context, medium, is_begun or bool(copy))
        if at is None and self._own.persistent and not self._commits_at_once:
            file.put(changelog, UNKNOWN)  # so that rows which a crash leaves there are known as this application's
            self._is_marked = True
        if at is None or (at < context.snapshot and at < context.at):
            medium.become(copy)
            at = context.at
            if at >= 0:
                self._commit_rows({changelog: at})
        self._at = at
        self.restored_to = min(self._at, context.at)

    @property
    def _commits_at_once(self) -> bool:
        """True if the user's store commits rows and offsets in one transaction."""
        return self._own.manages_offsets() and self._has_transactions

    @property
    def _has_transactions(self) -> bool:
        return self._own.transaction is not self._own.wrapped

    def _keys_of(self, family: str, keys: list[bytes]) -> Keys:
        """Turn keys of a column family into those of changes."""
        return Keys(binary(keys))

    def _check(self, at: int | None, context: TaskContext, medium: Medium, has_copy: bool) -> None:
        """Raise ``StoreError`` if the contents of the user's store cannot be this application's."""
        if at is not None and at > context.newest:
            raise StoreError(
                f"the store {self.name!r} is at commit {at} of {context.changelog(self.name).topic}, but the newest "
                f"manifest is of commit {context.newest}: manifests are missing, or the checkpoint was brought back "
                "from an older back-up. Nothing was changed. Restore the missing manifests. To continue from commit "
                f"{context.newest} instead, let the store begin empty: it gets its rows back from the checkpoint "
                f"(remove {context.state_dir} if its files are there)"
            )
        if at is None and not has_copy and not context.had_database and not medium.is_empty:
            raise StoreError(
                f"the store {self.name!r} of task {context.task_id} has rows, but nothing shows that this application "
                "wrote them: they would be lost, since a store must equal its changelog. Let it begin empty, or load "
                "the rows through a topic. Nothing was changed"
            )

    def _position(self, context: TaskContext, medium: Medium) -> int | None:
        """The commit that the user's store reports; None if unknown."""
        own, changelog, file = self._own, context.changelog(self.name), OffsetCheckpoint(context.state_dir)
        if not own.persistent:
            return None
        if not own.manages_offsets():
            return file.get(changelog)
        with told(own, "get_committed_offset"):
            found = own.get_committed_offset(changelog)
        if found is None and (found := file.get(changelog)) is not None:
            medium.commit({changelog: found})
        file.remove(changelog)  # its report is outdated, or was overtaken
        return found

    # --- transactions --------------------------------------------------------------------------------------------

    def apply(self, changes: ChangeSet) -> None:
        super().apply(changes)
        self._restored.append(changes)

    def applied(self, changelog_offsets: ChangelogOffsets) -> None:
        restored, self._restored = self._restored, []
        [commit] = changelog_offsets.values()
        if self._medium is not None and commit > self._at:
            for changes in restored:
                self._medium.write(changes, restores=True)
            self._commit_rows(changelog_offsets)

    def prepare(self) -> None:
        if self._has_transactions:
            self._write()
            self._is_prepared = True

    def commit(self, changelog_offsets: ChangelogOffsets = NO_OFFSETS) -> None:
        if changelog_offsets and self._medium is not None:
            if not self._is_prepared:
                self._write()
            self._is_prepared = False
            self._commit_rows(changelog_offsets)
        super().commit(changelog_offsets)

    def rollback(self) -> None:
        super().rollback()
        if self._is_prepared and self._medium is not None:
            self._is_prepared = False
            self._medium.rollback()

    def _write(self) -> None:
        changes = self.changes()
        if changes is not None and self._medium is not None:
            self._medium.write(changes)

    def _commit_rows(self, changelog_offsets: ChangelogOffsets) -> None:
        """Commit the user's store, and record its offsets if it does not do that itself."""
        assert self._medium is not None
        assert self._context is not None
        crash_point("before-store-commit")
        self._medium.commit(changelog_offsets)
        crash_point("after-store-commit")
        for changelog, commit in changelog_offsets.items():
            self._at = commit
            if self._own.persistent and not self._own.manages_offsets():
                OffsetCheckpoint(self._context.state_dir).put(changelog, commit)
            elif self._is_marked:
                OffsetCheckpoint(self._context.state_dir).remove(changelog)
            self._is_marked = False

    def close(self) -> None:
        super().close()
        if self._medium is not None:
            self._medium = None
            with told(self._own, "close"):
                self._own.close()

    @contextmanager
    def read_anywhere(self) -> Iterator[None]:
        """In other threads than its own, the copy answers in place of the user's store, which belongs to one thread."""
        below = self._below_in_copy() if get_ident() != self._thread else []
        replaced = [(piece, piece.base) for piece, _ in below]
        for piece, copy in below:
            piece.base = copy
        try:
            yield
        finally:
            for piece, base in replaced:
                piece.base = base

    def _below_in_copy(self) -> list[tuple[TransactionalRows, Base]]:
        """Its pieces above the user's store, with the rows of the copy that are below each."""
        return []

    # --- what the user's store says of itself --------------------------------------------------------------------

    @property
    def persistent(self) -> bool:
        return bool(self._own.persistent)

    def manages_offsets(self) -> bool:
        return bool(self._own.manages_offsets())

    def get_committed_offset(self, topic_partition: TopicPartition) -> int | None:
        return self._own.get_committed_offset(topic_partition) if self._medium is not None else None

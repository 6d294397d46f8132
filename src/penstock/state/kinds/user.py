"""A key-value store that a user brings (KIP-892).

The engine keeps the running transaction in columns, as for its own stores, with the user's store below them. It reads
rows that are not in memory from the user's store, and writes to it once a transaction is committed. A store with
transactions receives the writes before the commit, in a transaction, so that errors occur before the commit counts. The
task's database has a copy of all rows. This copy is the changelog from which a store that is new, lost or behind is
restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from penstock.errors import ConfigError, StoreError
from penstock.faults import crash_point
from penstock.state import interface
from penstock.state.checkpoint_file import OffsetCheckpoint
from penstock.state.columns.rows import Values
from penstock.state.interface import ChangelogOffsets, StateStoreContext, TopicPartition
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.shapes import KeyValueStore as KeyValueInterface
from penstock.state.shapes import TimestampedBytesStore
from penstock.state.store import NO_OFFSETS, Located
from penstock.state.task_context import TaskContext
from penstock.state.transactional import ChangeSet, TransactionalRows, pack_all
from penstock.state.user_rows import AT_ONCE, UserRows, told
from penstock.state.wrappers import TransactionalKeyValueStore


class UserStore(KeyValueStore):
    """A key-value store whose rows are in an object of a user's class.

    Args:
        name: the store's name.
        supplier: returns a new object from each ``get()``.
        timestamped: True if values have timestamps, like those of tables.
    """

    needs_folder = True

    def __init__(self, name: str, supplier: Any, timestamped: bool = True):
        super().__init__(name)
        made = supplied(supplier, name)
        self._own = TransactionalKeyValueStore[bytes, bytes](made)
        self._keeps_timestamps = timestamped and (isinstance(made, TimestampedBytesStore) or not made.persistent)
        self._rows: UserRows | None = None
        self._restored: list[ChangeSet] = []
        self._is_prepared = False
        self._at = -1
        """The commit of the rows in the user's store."""

    @property
    def counts_its_rows(self) -> bool:
        """Whether its class has a way of its own to count rows; the inherited one reads all of them."""
        return type(self._own.wrapped).approximate_num_entries is not KeyValueInterface.approximate_num_entries

    def approximate_rows(self) -> int:
        """The number of rows; where some are not in memory, the number that its class tells."""
        here = self._piece.count_in_memory()
        return here if self._rows is None or self._piece.is_all_here else max(here, self._rows.approximate_count())

    # --- opening -------------------------------------------------------------------------------------------------

    def init(self, context: StateStoreContext, root: interface.StateStore) -> None:
        assert isinstance(context, TaskContext)
        if context.reads_only:  # they need only the copy
            super().init(context, root)
            return
        self._context = context
        context.state_dir.mkdir(parents=True, exist_ok=True)
        with told(self._own, "init"):
            self._own.init(context, self._own)
        rows = self._own, self._keeps_timestamps, context.restore_callbacks.get(self.name)
        self._rows = UserRows(*rows)
        self._bring_up(context)
        self._rows = UserRows(*rows)  # which may have rows now
        self._piece = TransactionalRows(self._rows)
        if self.shows_committed:
            self.show_committed()

    def _bring_up(self, context: TaskContext) -> None:
        """Find out which commit the user's store is at, and copy rows into it that delta files no longer have."""
        assert self._rows is not None
        at, changelog, database = self._position(context), context.changelog(self.name), context.database
        self._check(at, context)
        copy = None if database is None else database.family(self.name)
        if at is None or (at < context.snapshot and at < context.at):
            self._rows.become(copy)
            at = context.at
            if at >= 0:
                self._commit_rows({changelog: at})
        self._at = at
        self.restored_to = min(self._at, context.at)

    def _check(self, at: int | None, context: TaskContext) -> None:
        """Raise ``StoreError`` if the contents of the user's store cannot be this application's."""
        assert self._rows is not None
        if at is not None and at > context.newest:
            raise StoreError(
                f"the store {self.name!r} is at commit {at} of {context.changelog(self.name).topic}, but the newest "
                f"manifest is of commit {context.newest}: manifests are missing, or the checkpoint was brought back "
                "from an older back-up. Nothing was changed. Restore the missing manifests. To continue from commit "
                f"{context.newest} instead, let the store begin empty: it gets its rows back from the checkpoint "
                f"(remove {context.state_dir} if its files are there)"
            )
        families = () if context.database is None else context.database.families()
        is_new = self.name not in families and not context.had_database
        if at is None and is_new and not self._rows.is_empty:
            raise StoreError(
                f"the store {self.name!r} of task {context.task_id} has rows, but nothing shows that this application "
                "wrote them: they would be lost, since a store must equal its changelog. Let it begin empty, or load "
                "the rows through a topic. Nothing was changed"
            )

    def _position(self, context: TaskContext) -> int | None:
        """The commit that the user's store reports; None if unknown."""
        assert self._rows is not None
        own, changelog, file = self._own, context.changelog(self.name), OffsetCheckpoint(context.state_dir)
        if not own.persistent:
            return None
        if not own.manages_offsets():
            return file.get(changelog)
        with told(own, "get_committed_offset"):
            found = own.get_committed_offset(changelog)
        if found is None and (found := file.get(changelog)) is not None:
            self._rows.commit({changelog: found})
        file.remove(changelog)  # its report is outdated, or was overtaken
        return found

    # --- transactions --------------------------------------------------------------------------------------------

    def put(self, located: Located, values: Values) -> None:
        if not self._keeps_timestamps:
            values = Values(values.data, np.full(len(values.timestamps), -1, np.int64))
        super().put(located, values)

    def apply(self, changes: ChangeSet) -> None:
        super().apply(changes)
        self._restored.append(changes)

    def applied(self, changelog_offsets: ChangelogOffsets) -> None:
        restored, self._restored = self._restored, []
        [commit] = changelog_offsets.values()
        if self._rows is not None and commit > self._at:
            self._rows.write(chain.from_iterable(map(_pairs, restored)), restores=True)
            self._commit_rows(changelog_offsets)

    def prepare(self) -> None:
        if self._own.transaction is not self._own.wrapped:
            self._write()
            self._is_prepared = True

    def commit(self, changelog_offsets: ChangelogOffsets = NO_OFFSETS) -> None:
        if changelog_offsets and self._rows is not None:
            if not self._is_prepared:
                self._write()
            self._is_prepared = False
            self._commit_rows(changelog_offsets)
        super().commit(changelog_offsets)

    def rollback(self) -> None:
        super().rollback()
        if self._is_prepared and self._rows is not None:
            self._is_prepared = False
            self._rows.rollback()

    def _write(self) -> None:
        assert self._rows is not None
        self._rows.write(_pairs(self._piece.changes()))

    def _commit_rows(self, changelog_offsets: ChangelogOffsets) -> None:
        """Commit the user's store, and record its offsets if it does not do that itself."""
        assert self._rows is not None
        assert self._context is not None
        crash_point("before-store-commit")
        self._rows.commit(changelog_offsets)
        crash_point("after-store-commit")
        for changelog, commit in changelog_offsets.items():
            self._at = commit
            if self._own.persistent and not self._own.manages_offsets():
                OffsetCheckpoint(self._context.state_dir).put(changelog, commit)

    def close(self) -> None:
        super().close()
        if self._rows is not None:
            self._rows = None
            with told(self._own, "close"):
                self._own.close()

    # --- what the user's store says of itself --------------------------------------------------------------------

    @property
    def persistent(self) -> bool:
        return self._own.persistent

    def manages_offsets(self) -> bool:
        return self._own.manages_offsets()

    def get_committed_offset(self, topic_partition: TopicPartition) -> int | None:
        return self._own.get_committed_offset(topic_partition) if self._rows is not None else None


def _pairs(changes: ChangeSet) -> Iterator[tuple[bytes, bytes | None]]:
    """Keys and rows as Python objects, which exist only for a moment."""
    keys, values = changes.keys.data, changes.values
    for first in range(0, len(keys), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        part = Values(values.data[some], values.timestamps[some])
        yield from zip(keys[some].to_pylist(), pack_all(part).to_pylist(), strict=True)


def supplied(supplier: Any, name: str) -> KeyValueInterface[bytes, bytes]:
    """A new object of a user's class.

    Raises:
        ConfigError: it is not a key-value store, has another name, or has a method in place of a property.
    """
    made = supplier.get()
    kind, where = f"{type(made).__module__}.{type(made).__qualname__}", f"the store {name!r}"
    if not isinstance(made, KeyValueInterface):
        raise ConfigError(
            f"{where}: get() of its supplier gave {made!r}. It must be of a class that extends penstock.KeyValueStore; "
            "nothing was started"
        )
    if getattr(made, "name", None) != name:
        raise ConfigError(
            f"{where}: get() of its supplier gave a {kind} whose name is {getattr(made, 'name', None)!r}. Store and "
            "supplier have one name; nothing was started"
        )
    for fact in ("persistent", "is_open"):
        if callable(getattr(made, fact, None)):
            raise ConfigError(
                f"{where}: {fact} of {kind} is a method, which always counts as true. Write @property above it, or an "
                f"attribute {fact} = True or False; nothing was started"
            )
    if not interface.tells_offsets(type(made)) and made.manages_offsets():
        raise ConfigError(
            f"{where}: {kind} says that it manages_offsets(), and does not tell them: all of its rows would be "
            "compared at each start. Define committed_offset(topic_partition), or leave manages_offsets out; nothing "
            "was started"
        )
    interface.warn_if_old(type(made))
    return made

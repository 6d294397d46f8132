"""The whole state of one task: its stores, its stream times, its database, and their commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.errors import CorruptDataError, StoreError
from penstock.faults import crash_point
from penstock.files import temporary
from penstock.files.plain_files import remove_tree
from penstock.settings import StateSettings
from penstock.state.clock import StreamTime
from penstock.state.database import Database
from penstock.state.delta import read_delta
from penstock.state.disk_schedule import DiskSchedule
from penstock.state.folder_lock import FolderLock
from penstock.state.interface import ChangelogOffsets
from penstock.state.inventory import DamagedStateError
from penstock.state.ownership import AttemptAt, Owner, believed, meta_of, nobody_knows, owner_in, take_folder, wanted
from penstock.state.restoring import Restoring, Tell
from penstock.state.snapshot import TaskBase, other_snapshots, read_snapshot, upload_of, write_base
from penstock.state.store import StateStore
from penstock.state.task_context import TaskContext
from penstock.state.transactional import ChangeSet
from penstock.state.upload import Upload
from penstock.storage.base import FileRef, Storage

_log = logging.getLogger(__name__)

Numbers = dict[str, dict[str, int]]
"""The part of a commit other than rows: stream times, by the names of stores and operators."""

STREAM_TIME = "stream_time"

_UNPUBLISHED = "unpublished_bytes"
"""Key in a database's meta data: the bytes of delta files since the previous snapshot."""

TASK_TIME = "(task)"
"""The name of the stream time of a whole task, which is kept if a step asks for it."""


class Committed(NamedTuple):
    """The part of one commit that concerns one task."""

    commit: int
    delta: FileRef | None
    numbers: Numbers
    attempt: str = ""
    """The attempt that made it."""


class TaskState:
    """The stores of a task at one commit, and the writes of the running transaction on top.

    Without a folder everything stays in memory, and only ``commit`` is needed; the test driver and stateless tasks run
    this way.
    """

    def __init__(
        self,
        task: str,
        stores: Iterable[StateStore],
        settings: StateSettings,
        folder: Path | None = None,
        storage: Storage | None = None,
        context: TaskContext | None = None,
        publishes: bool = True,
    ):
        self.task = task
        self.stores = {store.name: store for store in stores}
        self.clocks: dict[str, StreamTime] = {}
        self.at = -1
        self.snapshot = -1
        self._attempt = ""
        """The attempt that made its commit."""
        self._attempt_at: AttemptAt = nobody_knows
        self._base: TaskBase | None = None
        self._settings = settings
        self._folder = folder if self.stores else None
        self._storage = storage
        self._context = context or TaskContext("", task, reads_only=True)
        self._temporary: Path | None = None
        self.app_configs = self._context.app_configs
        self._lock: FolderLock | None = None
        self._database: Database | None = None
        self._restoring = Restoring(task, (), -1, None)
        self._flushed = -1
        self._schedule = DiskSchedule(settings)
        self._upload = Upload()
        self._publishes = publishes
        """True if it publishes snapshots; a copy that follows another machine's task does not."""

    def clock(self, name: str) -> StreamTime:
        """The stream time of the operator with this name."""
        return self.clocks.setdefault(name, StreamTime())

    # --- opening -------------------------------------------------------------------------------------------------

    def open(
        self,
        application: str,
        commit: int,
        snapshot: int,
        since: Callable[[int], list[Committed]],
        tell: Tell | None = None,
        base: TaskBase | None = None,
        attempt_at: AttemptAt | None = None,
    ) -> None:
        """Open the state on disk and bring it to a commit.

        Args:
            application: identifies the application's checkpoint. A database of another checkpoint, of another task, or
                of commits that were replaced since is discarded, with the files of users' stores beside it.
            commit: the newest commit.
            snapshot: the commit of the newest snapshot that the newest manifest knows of, -1 for none.
            since: returns the task's part of all commits after a given one, in order.
            tell: called with the progress of the restore.
            base: the initial state of the task since its topology changed; nothing from before it counts.
            attempt_at: returns the attempt that made a commit, to distinguish commits of the same number.

        Raises:
            CorruptDataError: a file of the checkpoint is damaged and cannot be replaced by another one.
        """
        self._restoring = Restoring(self.task, self.stores, commit, tell)
        self._base, self._attempt_at = base, attempt_at or nobody_knows
        try:
            self._open(application, commit, snapshot, since)
        except BaseException:
            self._restoring.suspend()
            raise
        self._restoring.end()

    def _open(self, application: str, commit: int, snapshot: int, since: Callable[[int], list[Committed]]) -> None:
        unnamed = self._other_snapshots(snapshot, commit)  # made as a program ended
        self.snapshot = max([snapshot, *unnamed])
        context, meta = self._context, {}
        context.application, context.newest, context.snapshot = application, commit, snapshot
        if self._folder is not None:
            self._lock = FolderLock(self._folder)  # first: one that is open elsewhere may look damaged
            self._database = context.database = self._open_database(application, commit, since)
            meta = self._database.meta()
        elif self._base is not None and self._base.index and self.stores:
            raise StoreError(f"the state of task {self.task} was carried over to a folder; start it with one")
        at = max(meta.get("commit", -1), -1 if self._base is None else self._base.commit)
        self.at = self._flushed = context.at = at
        self._attempt = meta.get("attempt", "") if at == meta.get("commit", -1) else ""
        self._schedule.begin(meta.get(_UNPUBLISHED, 0))
        self._restoring.start(self.at)
        context.state_dir = self._folder_of_stores()
        self._take_folder_of_stores(application)
        for store in self.stores.values():
            store.init(context, store)
        self._restore_numbers(meta.get("numbers", {}))
        for step in since(min([self.at, *(store.restored_to for store in self.stores.values())])):
            self.apply(step)

    def _folder_of_stores(self) -> Path:
        """The folder for the files of users' stores; a task without a folder has a temporary one until it is closed."""
        if self._folder is not None:
            return self._folder.with_name(f"{self._folder.name}.stores")
        if not self._context.reads_only and any(store.needs_folder for store in self.stores.values()):
            self._temporary = temporary.folder("stores")
            return self._temporary
        return Path()

    def folder_of_processors(self) -> Path:
        """Return the folder for files of the task's processors, which is that of users' stores; it is made."""
        if self._folder is None:
            self._temporary = self._temporary or temporary.folder("stores")
            return self._temporary
        take_folder(self._folder_of_stores(), Owner(self._context.application, self.task))
        return self._folder_of_stores()

    def _take_folder_of_stores(self, application: str) -> None:
        keeps_files = any(store.needs_folder for store in self.stores.values()) and not self._context.reads_only
        if self._folder is not None and keeps_files:
            take_folder(self._folder_of_stores(), Owner(application, self.task))

    def _open_database(self, application: str, commit: int, since: Callable[[int], list[Committed]]) -> Database:
        assert self._folder is not None
        database = self._undamaged()
        if database is None:  # outside of except: the exception keeps the database locked
            return self._restored(commit, since)
        meta = database.meta()
        at = meta.get("commit", -1)
        if meta and not self._is_own(meta, application):
            database.close()
            return self._restored(commit, since)
        if at > commit:
            database.close()
            raise StoreError(
                f"the state database {self._folder} is at commit {at}, but the newest manifest is of commit {commit}: "
                "manifests are missing, or the checkpoint was brought back from an older back-up. Nothing was changed. "
                f"Restore the missing manifests. To continue from commit {commit} instead, remove "
                f"{self._folder.parent}: it has only copies, which are rebuilt from the checkpoint"
            )
        if at >= self.snapshot:
            return database
        database.close()
        return self._restored(commit, since)

    def _is_own(self, meta: dict[str, Any], application: str) -> bool:
        """Check by its meta data whether a database is this task's own; log if it is not."""
        assert self._folder is not None
        found, at = owner_in(meta), meta.get("commit", -1)
        is_later = self.snapshot <= at <= self._context.newest and (self._base is None or at > self._base.commit)
        attempt = self._attempt_at(at) if is_later else None
        is_own, has_own_files = believed(self._folder, found, Owner(application, self.task, wanted(attempt)), at)
        if not has_own_files:  # first: once the database is gone, no file says who owns the files beside it
            remove_tree(self._folder_of_stores())
        self._context.had_database |= not is_own
        return is_own

    def _undamaged(self) -> Database | None:
        assert self._folder is not None
        try:
            return Database(self._folder, self._settings.block_cache_bytes)
        except DamagedStateError as error:
            _log.warning("%s; it is a copy, and rebuilt from the checkpoint. Nothing is lost", str(error))
            self._context.had_database = True
        return None

    def _restored(self, commit: int, since: Callable[[int], list[Committed]]) -> Database:
        """Replace the files on disk by the database of the newest intact snapshot, or by an empty one."""
        assert self._folder is not None
        self._restoring.start(-1)
        try:
            self._fetch(self.snapshot)
        except CorruptDataError as error:
            self.snapshot = self._fetch_another(error, commit, since)
        database = Database(self._folder, self._settings.block_cache_bytes)
        for family in database.families():  # families of one store's segments are named store/start
            store = family if family in self.stores else family.rpartition("/")[0]
            self._restoring.batch(store, self.snapshot, database.family(family).approximate_rows)
        return database

    def _fetch(self, snapshot: int) -> None:
        """Create the database's folder from a snapshot; leave no folder for -1."""
        assert self._folder is not None
        if snapshot >= 0:
            assert self._storage is not None
            is_base = self._base is not None and snapshot == self._base.commit
            attempt = None if is_base else self._attempt_at(snapshot)
            owner = Owner(self._context.application, self.task, attempt or "")
            read_snapshot(self._storage, owner, snapshot, self._folder, self._base)
        else:
            remove_tree(self._folder)

    def _other_snapshots(self, than: int, commit: int) -> list[int]:
        """The commits of all other snapshots up to a commit, the newest first."""
        if self._folder is None or self._storage is None:
            return []
        return other_snapshots(self._storage, self.task, than, commit, self._base)

    def _fetch_another(self, damage: CorruptDataError, commit: int, since: Callable[[int], list[Committed]]) -> int:
        """Fetch the newest snapshot, other than a damaged one, for which all later delta files exist, or none if these
        reach back to the first commit. Return its commit. Raise the damage if neither is possible."""
        assert self._storage is not None
        empty = [-1] if self._base is None else []
        for other in [*self._other_snapshots(self.snapshot, commit), *empty]:
            try:
                deltas = [step.delta.name for step in since(other) if step.delta is not None]
                if set(deltas).issubset(self._storage.list(f"deltas/{self.task}")):
                    self._fetch(other)
                    instead = f"the snapshot of commit {other} and " if other >= 0 else ""
                    _log.warning(
                        "%s. Task %s is restored from %s%d delta files instead; nothing is lost",
                        str(damage).partition(";")[0], self.task, instead, len(deltas),
                    )  # fmt: skip
                    return other
            except CorruptDataError:  # so one less is left to try
                continue
        raise damage

    def set_clocks(self, numbers: Numbers) -> None:
        """Set all stream times to those of a commit; those that the commit does not have are reset."""
        for name, clock in self.clocks.items():
            clock.restore(numbers.get(name, {}).get(STREAM_TIME, -1))

    def apply(self, step: Committed) -> None:
        """Apply a commit whose changes are not in memory, by reading its delta file."""
        if step.delta is not None:
            assert self._storage is not None
            data, where = self._storage.read_verified(step.delta), f"{self._storage.shown}/{step.delta.name}"
            for name, changes in read_delta(data, where):
                store = self.stores.get(name)  # the topology may no longer have it
                if store is not None and store.restored_to < step.commit:
                    store.apply(changes)
                    self._restoring.batch(name, step.commit, len(changes.keys))
        for store in self.stores.values():
            store.applied(self._offsets(store, step.commit))
        if step.commit > self.at:  # or a user's store was behind the others
            self._restore_numbers(step.numbers)
            self.at, self._attempt = step.commit, step.attempt
            self._schedule.committed(0 if step.delta is None else step.delta.size)

    def follow(self, steps: Sequence[Committed]) -> None:
        """Apply commits of another program, in order, and write them to disk when that is due."""
        self._restoring.goes_on(max(step.commit for step in steps))
        for step in steps:
            self.apply(step)
            if self._database is not None and self._is_flush_due():
                self.flush()
        if self._database is not None:
            self._database.settle()

    # --- transactions --------------------------------------------------------------------------------------------

    def changes(self) -> list[tuple[str, ChangeSet]]:
        """The changes of the running transaction, store by store."""
        return [(name, change) for name, store in self.stores.items() if (change := store.changes()) is not None]

    def numbers(self) -> Numbers:
        """The numbers at the end of the running transaction."""
        numbers = {name: dict(state) for name, store in self.stores.items() if (state := store.state())}
        for name, clock in self.clocks.items():  # a store and an operator may have the same name
            numbers.setdefault(name, {})[STREAM_TIME] = clock.now
        return numbers

    def prepare(self) -> None:
        """Let stores do everything that can fail before the transaction is committed."""
        for store in self.stores.values():
            store.prepare()

    def commit(self, commit: int, delta: FileRef | None = None, attempt: str = "") -> None:
        """Keep the writes of the transaction, which are now part of this commit and of this delta file."""
        for store in self.stores.values():
            store.commit(self._offsets(store, commit))
        for clock in self.clocks.values():
            clock.commit()
        self.at, self._attempt = commit, attempt
        self._schedule.committed(0 if delta is None else delta.size)
        if self._database is not None:
            self._take_uploaded()
            if self._is_flush_due():
                self.flush()
            self._database.settle()

    def rollback(self) -> None:
        """Undo the writes of the transaction."""
        for store in self.stores.values():
            store.rollback()
        for clock in self.clocks.values():
            clock.rollback()

    @property
    def _owner(self) -> Owner:
        return Owner(self._context.application, self.task, self._attempt)

    def _offsets(self, store: StateStore, commit: int) -> ChangelogOffsets:
        return {self._context.changelog(store.name): commit}

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        return sum(store.approximate_num_uncommitted_entries for store in self.stores.values())

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        return sum(store.approximate_num_uncommitted_bytes for store in self.stores.values())

    def is_crowded_by_uncommitted(self) -> bool:
        """True if a store needs a commit before it has room again."""
        return any(store.is_crowded_by_uncommitted() for store in self.stores.values())

    @property
    def nbytes(self) -> int:
        """The memory of the rows of all stores."""
        return sum(store.nbytes for store in self.stores.values())

    # --- the disk ------------------------------------------------------------------------------------------------

    def _is_flush_due(self) -> bool:
        limits = self._settings
        if self._schedule.is_flush_due() or self.nbytes > limits.hot_max_bytes:
            return True
        if any(store.is_crowded() for store in self.stores.values()):
            return True
        return (
            sum(piece.dirty_count() for store in self.stores.values() for piece in store.pieces()) > limits.flush_rows
        )

    def flush(self, publishes: bool = True) -> None:
        """Write committed rows to the database, publish a snapshot if one is due, and free memory.

        Args:
            publishes: False to publish no snapshot.
        """
        assert self._database is not None
        self._take_uploaded()
        publishes = publishes and self._publishes and self._storage is not None and not self._upload.is_under_way
        publishes = publishes and self._schedule.is_snapshot_due(self.at - self.snapshot)
        families = {name: piece for store in self.stores.values() for name, piece in store.families().items()}
        dirty = {name: piece.dirty_rows() for name, piece in families.items() if piece.dirty_count()}
        meta = meta_of(self._owner, self.at, self.numbers())
        meta[_UNPUBLISHED] = 0 if publishes else self._schedule.unpublished_bytes
        crash_point("before-flush")
        self._database.write(dirty, meta)
        crash_point("after-flush")
        for store in self.stores.values():
            store.flushed(self._database)
        self._flushed = self.at
        self._schedule.flushed()
        if publishes:
            self._publish()
        room = self._settings.hot_max_bytes // 2
        for everything in (False, True):
            is_full = self.nbytes > room
            for store in self.stores.values():
                if is_full or store.is_crowded():
                    store.evict(everything or store.recent_nbytes > room)  # check the space before copying

    def _publish(self) -> None:
        """Publish the database, which was just flushed, as a snapshot."""
        assert self._database is not None
        assert self._storage is not None
        publish = upload_of(self._database, self._storage, self._owner, self.at, self.snapshot)
        self._schedule.published()
        if self._storage.is_remote:
            self._upload.begin(self.at, publish, f"penstock-snapshot-{self.task}")
            return
        publish()
        self.snapshot = self.at
        crash_point("after-snapshot")

    def publish_base(self, folder: str) -> TaskBase:
        """Publish everything that is committed as the task's initial state, which takes effect once a manifest names
        it.

        Args:
            folder: a unique name.
        """
        self.flush(publishes=False)
        assert self._database is not None
        assert self._storage is not None
        return write_base(self._database, self._storage, folder, self._owner, self.at)

    def _take_uploaded(self, waits: bool = False) -> None:
        """Take note of a finished upload of a snapshot."""
        commit = self._upload.taken(waits)
        if commit is not None:
            self.snapshot = commit
            crash_point("after-snapshot")

    def close(self) -> None:
        """Roll back, flush committed rows, and release the database."""
        self.rollback()
        if self._database is not None:
            try:
                if self.at > self._flushed:
                    self.flush()
                self._take_uploaded(waits=True)
                self._database.close()
            except DamagedStateError as error:
                _log.warning("%s; it is a copy, and rebuilt at the next start. Nothing is lost", str(error))
                self.distrust(str(error))
        self._let_go()

    def distrust(self, reason: str) -> None:
        """Release a damaged database, and mark it to be rebuilt when it is next opened."""
        if self._database is not None:
            self._database.distrust(reason)
        self._let_go()

    def abandon(self) -> None:
        """Release the database as it is on disk."""
        try:
            if self._database is not None:
                self._database.close()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        try:
            self._upload.taken(waits=True)
        except Exception as error:
            _log.warning("the snapshot of task %s was not published: %s", self.task, error)
        self._database = self._context.database = None
        for store in self.stores.values():
            try:
                store.close()
            except StoreError as error:
                _log.warning("%s", str(error))
        if self._temporary is not None:
            temporary.remove(self._temporary)
            self._temporary = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _restore_numbers(self, numbers: Numbers) -> None:
        for name, values in numbers.items():
            if STREAM_TIME in values:
                self.clock(name).restore(values[STREAM_TIME])
            state = {key: number for key, number in values.items() if key != STREAM_TIME}
            if state and name in self.stores:
                self.stores[name].restore_state(state)
                self.stores[name].commit()

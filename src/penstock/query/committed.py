"""Stores as of the newest commit, read from the checkpoint by any process, whether the application runs or not.

There is a copy of the store for each task, updated by each commit's delta files. Together the copies form one version
of the store per commit, which readers see once all copies are up to date. A copy that is too far behind is restored
from the task's newest snapshot. The application does not notice any of this.
"""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Self

from rocksdict import Cache

from penstock.engine.shared.formats import made_from
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.errors import CorruptDataError, StoreError
from penstock.files import temporary
from penstock.query.commits import Commits, Committing, OwnCommits, StoreShape
from penstock.query.position import Position
from penstock.query.stores import AnyView, view_of
from penstock.query.versions import Pinned, Version
from penstock.settings import StateSettings
from penstock.state.ownership import Owner
from penstock.state.replica import Replica
from penstock.state.snapshot import other_snapshots
from penstock.state.store import StateStore

_TRIES = 20
"""How many times to retry if files are gone because the application has made newer commits."""


class CommittedStore:
    """A store of an application, updated commit by commit when it is read.

    Any number of threads may read it. A returned version never changes, however long it is kept.

    Args:
        commits: the application's commits.
        name: the store's name.
        cache_bytes: the size of the cache of blocks read from disk.
        only: the one task to read; None for all.

    Raises:
        ConfigError: there is no such store, or no commit yet.
    """

    def __init__(
        self,
        commits: Commits,
        name: str,
        cache_bytes: int = StateSettings.block_cache_bytes,
        only: str | None = None,
    ):
        self._replicas: dict[str, Replica] = {}
        self.name = name
        self._only = only
        self._commits = commits
        self._shape = commits.shape(name, commits.newest())
        self._cache = Cache(cache_bytes)
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._application = ""
        self._version: Version | None = None
        self._folder = temporary.folder("store")
        self._remove = weakref.finalize(self, temporary.remove, self._folder)

    @property
    def shape(self) -> StoreShape:
        """The kind and the types of the store."""
        return self._shape

    @property
    def known(self) -> Version:
        """The newest version that was asked for, without checking for newer commits."""
        return self._version or self.now()

    @property
    def is_here(self) -> bool:
        """True if there is a version that ``known`` returns at once."""
        return self._version is not None

    def now(self) -> Version:
        """The store after the newest commit.

        Raises:
            CorruptDataError: a file of the checkpoint is damaged or missing.
            ConfigError: the store no longer exists.
        """
        version = self._version
        if version is not None and self._commits.is_newest(version.commit):
            return version
        with self._lock:
            version = self._version
            if version is None or not self._commits.is_newest(version.commit):
                version = self._version = self._newest()
            return version

    def pinned(self) -> Pinned:
        """The store after the newest commit, which will not change."""
        return Pinned(self.now())

    def where(self) -> Version:
        """The position of the newest commit; copies nothing, and has no stores."""
        manifest = self._commits.newest()
        entries = {task: manifest.tasks[task] for task in self._tasks_of(manifest)}
        positions = {task: position_of(TaskId.parse(task).partition, entry) for task, entry in entries.items()}
        return Version(manifest.commit, {}, positions, manifest.at)

    def task_names(self) -> list[str]:
        """The tasks that have the store, as of the newest commit; copies nothing."""
        return self._tasks_of(self._commits.newest())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._version = None
        gc.collect()  # frozen stores first, in cycles, too: else each database takes a second to close
        for replica in self._replicas.values():
            replica.close()

    def close(self) -> None:
        """Remove its files."""
        with self._lock:
            if not self._remove.alive:
                return
            self._version = Version(-1, {})
            for replica in self._replicas.values():
                replica.close()
            self._replicas.clear()
            self._remove()

    # --- moving on -----------------------------------------------------------------------------------------------

    def _newest(self) -> Version:
        if not self._remove.alive:
            raise StoreError(f"the store {self.name!r} is closed; ask for it again")
        manifest = self._commits.newest()
        for _ in range(_TRIES):
            try:
                return self._version_of(manifest)
            except (CorruptDataError, FileNotFoundError):  # are they gone because of a later commit?
                tried, manifest = manifest, self._commits.newest()
                if manifest.commit == tried.commit:
                    raise
        return self._version_of(manifest)

    def _version_of(self, manifest: Manifest) -> Version:
        self._take_shape(manifest)
        tasks = [task for task in self._tasks_of(manifest) if self._only in (None, task)]
        for task in tasks:
            self._move(task, manifest.tasks[task])
        stores = {task: self._replicas[task].frozen() for task in tasks}
        positions = {task: position_of(TaskId.parse(task).partition, manifest.tasks[task]) for task in tasks}
        return Version(manifest.commit, stores, positions, manifest.at)

    def _tasks_of(self, manifest: Manifest) -> list[str]:
        """The tasks that have the store; a single one if each task has all of it."""
        tasks = [task for task in manifest.tasks if TaskId.parse(task).sub == self._shape.format.sub]
        tasks.sort(key=lambda task: TaskId.parse(task).partition)
        return tasks[:1] if self._shape.format.is_everywhere else tasks

    def _take_shape(self, manifest: Manifest) -> None:
        """Update the shape of the store; start again if it is another one, or if the application is."""
        shape = self._commits.shape(self.name, manifest)
        if shape.format != self._shape.format or manifest.application != self._application:
            for replica in self._replicas.values():
                replica.close()
            self._replicas.clear()
        self._shape, self._application = shape, manifest.application

    def _move(self, task: str, entry: TaskEntry) -> None:
        """Update a task's copy to the task's position."""
        replica = self._replicas.get(task)
        if replica is None or replica.is_torn or replica.commit > entry.changed or self._is_gap(task, entry, replica):
            replica = self._restored(task, entry)
        replica.move(self._commits.manifests.since(task, entry, replica.commit), self._commits.storage)

    def _is_gap(self, task: str, entry: TaskEntry, replica: Replica) -> bool:
        """True if the changes between a copy and the task are only in snapshots."""
        kept_from = max(replica.commit, entry.snapshot)
        newer = list(self._commits.manifests.chain(task, entry, kept_from))
        return (newer[-1].previous if newer else entry.changed) > replica.commit

    def _restored(self, task: str, entry: TaskEntry) -> Replica:
        """Make a new copy from the newest snapshot, or from an older one if that is damaged."""
        if task in self._replicas:
            self._replicas.pop(task).close()
        storage, damage = self._commits.storage, None
        for snapshot in (entry.snapshot, *other_snapshots(storage, task, entry.snapshot, entry.changed, entry.base)):
            make = partial(made_from, self.name, self._shape.format)
            replica = Replica(self._folder / f"{task}-{next(self._numbers)}", make, self._cache)
            first = 0 if entry.base is None else entry.base.commit + 1
            try:
                attempt = self._commits.manifests.attempt_at(task, entry, snapshot) if snapshot >= first else ""
                replica.restore(storage, Owner(self._application, task, attempt or ""), snapshot, entry.base)
            except CorruptDataError as error:
                replica.close()
                damage = damage or error
                continue
            self._replicas[task] = replica
            return replica
        assert damage is not None
        raise damage


def position_of(partition: int, entry: TaskEntry) -> Position:
    """The position up to which a task has read its input."""
    found: dict[str, dict[int, int]] = {}
    for place, offset in entry.offsets.items():
        topic, _, other = place.partition("/")  # partitions of global tables' topics are listed separately
        if offset > 0:
            found.setdefault(topic, {})[int(other) if other else partition] = offset - 1
    return Position(found)


def committed_store(committing: Committing, name: str) -> AnyView:
    """A view of a store as of the newest commit, with its own copy."""
    store = CommittedStore(OwnCommits(committing), name)
    store.now()
    view = view_of(store, store.shape)
    view.on_close(store.close)
    return view


@contextmanager
def committed_stores(committing: Committing, name: str) -> Iterator[Mapping[str, StateStore]]:
    """The parts of a store in the tasks that have it, as of the last commit."""
    store = CommittedStore(OwnCommits(committing), name)
    try:
        yield store.now().tasks
    finally:
        store.close()

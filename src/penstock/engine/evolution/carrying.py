"""Copies rows of state that continue under other names or in other tasks, as the new tasks' initial state.

The old state is not touched. The copy counts once a manifest names it, and the next start removes it if none does. So
the previous topology can be started at any time before that, and continues as if nothing had been tried.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Generator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from penstock.engine.evolution.moves import Moves
from penstock.engine.shared.layout import Layout, TaskId
from penstock.engine.shared.manifest import Manifest, Manifests, TaskEntry
from penstock.engine.shared.stores import stores_of
from penstock.faults import crash_point
from penstock.files import temporary
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.settings import StateSettings
from penstock.state.columns.headers import packed_with_no_headers
from penstock.state.database import Database
from penstock.state.ownership import Owner, meta_of
from penstock.state.snapshot import BASES, TaskBase, write_base
from penstock.state.store import StateStore
from penstock.state.task_state import Numbers, TaskState
from penstock.storage.base import Storage, number_in

_log = logging.getLogger(__name__)

_AT_ONCE = 20_000
_STORE = re.compile(r"[^/:]+")


class Carrying:
    """Writes the initial state of a changed topology's tasks.

    Args:
        newest: the newest manifest as stored, under the previous names.
        application: the identity of the checkpoint.
    """

    def __init__(
        self, topology: Topology, layout: Layout, storage: Storage, moves: Moves, newest: Manifest, application: str
    ):
        self._topology, self._layout, self._storage = topology, layout, storage
        self._moves, self._newest, self._application = moves, newest, application
        self._commit = newest.commit + 1
        self._folder = f"{self._commit:016d}-{os.urandom(4).hex()}"

    def carried(self, fitted: Manifest) -> Manifest:
        """Return the manifest under the new names, with the initial state of the tasks."""
        tasks = dict(fitted.tasks)
        rows = 0
        for sub in (sub for sub in self._topology.sub_topologies if not sub.is_global):
            has_stores = bool(stores_of(sub, self._topology.facts))
            if self._moves.stays(sub.id) and not (has_stores and self._moves.is_new(sub.id)):
                continue
            for id_ in self._layout.task_ids(sub):
                entry = tasks.get(str(id_))
                if entry is None and not has_stores:
                    continue
                entry = entry or TaskEntry()
                base = None
                if has_stores:
                    base, count = self._base(sub, id_, entry.numbers)
                    rows += count
                    crash_point("during-evolution")
                since = -1 if base is None else self._commit
                tasks[str(id_)] = msgspec.structs.replace(entry, changed=self._commit, snapshot=since, base=base)
        if rows:
            _log.warning("%d rows of state moved to other stores or other tasks", rows)
        return msgspec.structs.replace(fitted, tasks=tasks)

    def _base(self, sub: SubTopology, id_: TaskId, numbers: Numbers) -> tuple[TaskBase, int]:
        sources = {
            str(TaskId(before, id_.partition)): names for before, names in self._moves.carried(sub.id).items() if names
        }
        found = {task: names for task, names in sources.items() if task in self._newest.tasks}
        if not found:
            return TaskBase(self._commit), 0
        with temporary.within("carried") as folder:
            database = Database(folder / "now")
            owner = Owner(self._application, str(id_))
            meta = meta_of(owner, self._commit, numbers)
            rows = 0
            for task, names in found.items():
                before = {now: name for name, now in names.items()}
                stores = [s for s in stores_of(sub, self._topology.facts, before) if s.name in names]
                for name, some in rows_of(self._storage, task, self._newest, stores, folder / task):
                    if names[store_in(name)] in self._moves.with_headers:
                        some = [(key, row and packed_with_no_headers(row)) for key, row in some]
                    database.write({_renamed(name, names): iter(some)}, meta)
                    rows += len(some)
            database.write({}, meta)
            base = write_base(database, self._storage, self._folder, owner, self._commit)
            database.close()
        return base, rows


def rows_of(
    storage: Storage, task: str, manifest: Manifest, stores: list[StateStore], folder: Path
) -> Generator[tuple[str, list[tuple[bytes, bytes | None]]], None, None]:
    """Yield a task's rows in some stores, as of a manifest, by column family and in batches.

    Args:
        folder: where to put its database; must not exist.
    """
    state = TaskState(task, stores, StateSettings(), folder, storage)
    Manifests(storage).open(state, manifest.tasks[task], manifest.application)
    state.flush(publishes=False)
    state.abandon()
    names = {store.name for store in stores}
    database = Database(folder)
    try:
        for family in database.families():
            if store_in(family) in names:
                rows = iter(database.family(family).scan(None, None))
                while some := list(islice(rows, _AT_ONCE)):
                    yield family, [(key, value) for key, value in some]
                del rows
    finally:
        database.close()


def _renamed(family: str, names: Mapping[str, str]) -> str:
    store = store_in(family)
    return f"{names[store]}{family[len(store) :]}"


def store_in(family: str) -> str:
    """Return the store of a column family. Some stores have one family for each time segment, or one for an index.

    >>> store_in("counts/17"), store_in("held:times")
    ('counts', 'held')
    """
    return _STORE.match(family)[0]  # type: ignore[index]


def sweep(storage: Storage, manifest: Manifest) -> None:
    """Remove initial states that no task uses, and the earlier files of tasks that were started from one."""
    bases = {task: entry.base for task, entry in manifest.tasks.items() if entry.base is not None}
    if not bases and not any(True for _ in storage.list(BASES)):
        return
    needed = tuple(
        base.index.removesuffix(".snapshot")
        for task, base in bases.items()
        if base.index and manifest.tasks[task].kept_since <= base.commit
    )
    for name in storage.list(BASES):
        if not name.startswith(needed):
            storage.delete(name)
    for folder in ("deltas", "snapshots"):
        for name in storage.list(folder):
            task, number = name.split("/")[1], number_in(name)
            first = bases[task].commit if task in bases else 0 if task in manifest.tasks else manifest.commit + 1
            if number is not None and number < first:
                storage.delete(name)

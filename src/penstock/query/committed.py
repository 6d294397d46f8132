"""Stores as of the last commit, read from the checkpoint: by anybody, while the application runs or not."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from penstock.engine.coordinator import Coordinator
from penstock.engine.layout import TaskId
from penstock.engine.stores import stores_of
from penstock.errors import ConfigError
from penstock.plan.physical import Part, SubTopology
from penstock.query.checkpoint import Checkpoint
from penstock.query.stores import AnyView, view_of
from penstock.state.store import StateStore
from penstock.state.task_state import TaskState

Source = Coordinator | Checkpoint
"""What is committed: by an application of this program, or as its checkpoint has it."""


def committed_store(source: Source, name: str) -> AnyView:
    """A store of an application, put together from the snapshots and delta files of all its tasks.

    It stays as it is however the application goes on, until it is closed or nobody refers to it any more.
    """
    facts = source.topology.facts
    specs = {spec.name: (node, spec) for node, spec in facts.stores.items()}
    if name not in specs:
        raise ConfigError(f"there is no store {name!r}; the stores are {', '.join(specs)}")
    node, spec = specs[name]
    folder = Path(tempfile.mkdtemp(prefix="penstock-store-"))
    states = _restored(source, name, folder)
    stores: list[StateStore] = [state.stores[name] for state in states]
    if not stores:
        stores = [store for store in stores_of(_sub_topology(source, name), facts) if store.name == name]
    view = view_of(stores, spec, node)
    view.on_close(weakref.finalize(view, _remove, states, folder))
    return view


@contextmanager
def committed_stores(source: Source, name: str) -> Iterator[dict[str, StateStore]]:
    """What a store is in each of the tasks that have it, as of the last commit."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-store-"))
    states = _restored(source, name, folder)
    try:
        yield {state.task: state.stores[name] for state in states}
    finally:
        _remove(states, folder)


def _sub_topology(source: Source, store: str) -> SubTopology:
    subs = (sub for sub in source.topology.sub_topologies if not sub.is_global)
    return next(sub for sub in subs if _keeps(source, sub.working_parts, store))


def _keeps(source: Source, parts: Iterable[Part], store: str) -> bool:
    """Whether it is one of these parts that has a store; others may look things up in it."""
    specs = (source.topology.facts.stores.get(part.node) for part in parts if part.kind == "processor")
    return any(spec is not None and spec.name == store for spec in specs)


def _restored(source: Source, store: str, folder: Path) -> list[TaskState]:
    """The states at the last commit of the tasks that have a store, restored into a folder."""
    sub = _sub_topology(source, store)
    tasks = [task for task in source.manifest.tasks if TaskId.parse(task).sub == sub.id]
    if _keeps(source, sub.global_parts, store):
        tasks = tasks[:1]  # every task has all of a global table
    states: list[TaskState] = []
    try:
        for task in tasks:
            stores = stores_of(sub, source.topology.facts)
            states.append(TaskState(task, stores, source.settings.state, folder / task, source.storage))
            entry = source.manifest.tasks[task]
            since = partial(source.manifests.since, task, entry)
            states[-1].open(source.application, entry.changed, entry.snapshot, since)
    except BaseException:
        _remove(states, folder)
        raise
    return states


def _remove(states: list[TaskState], folder: Path) -> None:
    for state in states:
        state.abandon()
    shutil.rmtree(folder, ignore_errors=True)

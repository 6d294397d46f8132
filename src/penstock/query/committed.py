"""Stores as of the last commit, read from the checkpoint: by anybody, while the application runs or not."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from penstock.engine.coordinator import Coordinator
from penstock.engine.layout import TaskId
from penstock.engine.lower import stores_of
from penstock.errors import ConfigError
from penstock.query.stores import AnyView, view_of
from penstock.state.store import StateStore
from penstock.state.task_state import TaskState


def committed_store(coordinator: Coordinator, name: str) -> AnyView:
    """A store of an application, put together from the snapshots and delta files of all its tasks.

    It stays as it is however the application goes on, until it is closed or nobody refers to it any more.
    """
    facts = coordinator.topology.facts
    specs = {spec.name: (node, spec) for node, spec in facts.stores.items()}
    if name not in specs:
        raise ConfigError(f"there is no store {name!r}; the stores are {', '.join(specs)}")
    node, spec = specs[name]
    subs = coordinator.topology.sub_topologies
    sub = next(sub for sub in subs if any(name in part.stores for part in sub.parts))
    folder = Path(tempfile.mkdtemp(prefix="penstock-store-"))
    tasks = [task for task in coordinator.manifest.tasks if TaskId.parse(task).sub == sub.id]
    states: list[TaskState] = []
    try:
        for task in tasks:
            states.append(_restored(coordinator, task, folder / task))
    except BaseException:
        _remove(states, folder)
        raise
    stores: list[StateStore] = [state.stores[name] for state in states]
    if not stores:
        stores = [store for store in stores_of(sub, facts) if store.name == name]
    view = view_of(stores, spec, node)
    view.on_close(weakref.finalize(view, _remove, states, folder))
    return view


def _restored(coordinator: Coordinator, task: str, folder: Path) -> TaskState:
    """One task's state at its last commit, restored into a folder of its own."""
    sub = coordinator.topology.sub_topologies[TaskId.parse(task).sub]
    stores = stores_of(sub, coordinator.topology.facts)
    state = TaskState(task, stores, coordinator.settings.state, folder, coordinator.storage)
    entry, manifests = coordinator.manifest.tasks[task], coordinator.manifests
    state.open(coordinator.application, entry.changed, entry.snapshot, lambda at: manifests.since(task, entry, at))
    return state


def _remove(states: list[TaskState], folder: Path) -> None:
    for state in states:
        state.abandon()
    shutil.rmtree(folder, ignore_errors=True)

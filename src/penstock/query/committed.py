"""Stores as of the last commit, read from the checkpoint: by anybody, while the application runs or not."""

from __future__ import annotations

import tempfile
from pathlib import Path

from penstock.engine.coordinator import Coordinator
from penstock.engine.layout import TaskId
from penstock.engine.lower import stores_of
from penstock.errors import ConfigError
from penstock.plan import nodes
from penstock.query.stores import KeyValueView, WindowView, view_of
from penstock.state.store import StateStore
from penstock.state.task_state import TaskState


def committed_store(coordinator: Coordinator, name: str) -> KeyValueView | WindowView:
    """A store of an application, put together from the snapshots and delta files of all its tasks."""
    facts = coordinator.topology.facts
    specs = {spec.name: (node, spec) for node, spec in facts.stores.items()}
    if name not in specs:
        raise ConfigError(f"there is no store {name!r}; the stores are {', '.join(specs)}")
    node, spec = specs[name]
    stores = []
    for task, entry in coordinator.manifest.tasks.items():
        sub = coordinator.topology.sub_topologies[TaskId.parse(task).sub]
        if any(name in part.stores for part in sub.parts):
            stores.append(_restore(coordinator, task, name, entry.changed, entry.snapshot))
    if not stores:
        stores = [store for sub in coordinator.topology.sub_topologies for store in stores_of(sub, facts)]
        stores = [store for store in stores if store.name == name]
    size = node.windows.size_ms if isinstance(node, nodes.WindowAggregate) else 0
    return view_of(stores, spec, size)


def _restore(coordinator: Coordinator, task: str, name: str, commit: int, snapshot: int) -> StateStore:
    """One task's part of a store, restored into a folder of its own."""
    sub = coordinator.topology.sub_topologies[TaskId.parse(task).sub]
    stores = stores_of(sub, coordinator.topology.facts)
    folder = Path(tempfile.mkdtemp(prefix="penstock-query-"))
    state = TaskState(task, stores, coordinator.settings.state, folder / task, coordinator.storage)
    entry = coordinator.manifest.tasks[task]
    state.open(coordinator.application, commit, snapshot, lambda at: coordinator.manifests.since(task, entry, at))
    return state.stores[name]

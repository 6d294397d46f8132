"""Who an application is: the first start writes it down, and later starts must fit it."""

from __future__ import annotations

import os

import msgspec

from penstock.engine.layout import Layout
from penstock.errors import ConfigError
from penstock.plan.topology import Topology
from penstock.storage import Storage, seal, unseal

_NAME = "application.json"


class Identity(msgspec.Struct, frozen=True):
    """What must not change between two starts of an application."""

    id: str
    """Tells this checkpoint from any other, also one of the same application id."""
    application_id: str
    tasks: dict[str, int]
    """How many tasks each sub-topology has, by the topics it reads."""
    stores: dict[str, str]
    """The kind of each store."""


def application_of(storage: Storage) -> str:
    """The identity that a checkpoint has."""
    return unseal(storage.read(_NAME), Identity, f"{storage.shown}/{_NAME}").id


def identity(storage: Storage, application_id: str, topology: Topology, layout: Layout) -> str:
    """The identity of an application's checkpoint, made at its first start.

    Raises:
        ConfigError: the checkpoint belongs to another application, or the topology no longer fits its state.
    """
    tasks = {",".join(sub.source_topics): layout.tasks[sub.id] for sub in topology.sub_topologies if not sub.is_global}
    stores = {spec.name: spec.kind for spec in topology.facts.stores.values()}
    new = Identity(os.urandom(6).hex(), application_id, tasks, stores)
    if storage.create(_NAME, seal(new)):
        return new.id
    old = unseal(storage.read(_NAME), Identity, f"{storage.shown}/{_NAME}")
    if old.application_id != application_id:
        raise ConfigError(
            f"the checkpoint {storage.shown} belongs to application {old.application_id!r}, not to {application_id!r}; "
            "give each application a checkpoint of its own"
        )
    for topics, count in old.tasks.items():
        if topics in tasks and tasks[topics] != count:
            raise ConfigError(
                f"the topics {topics} had {count} partitions when application {application_id!r} first started and "
                f"have {tasks[topics]} now; state is kept by partition and cannot follow. Start under another "
                "application id to process the topics anew"
            )
    changed = {name for name, kind in old.stores.items() if name in stores and stores[name] != kind}
    if changed:
        raise ConfigError(
            f"the kind of the stores {', '.join(sorted(changed))} has changed since application {application_id!r} "
            f"first started (in {storage.shown}); give changed stores new names, or start under another application id"
        )
    return old.id

"""The identity of an application: the first start writes it down, and later starts must match it."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable

import msgspec

from penstock.engine.shared.layout import Layout
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.starts import Starts
from penstock.errors import ConfigError, CorruptDataError
from penstock.log.base import Log
from penstock.plan.node import StoreSpec
from penstock.plan.topology import Topology
from penstock.storage.base import Storage, seal, unseal
from penstock.values.masking import masked

_NAME = "application.json"


class Identity(msgspec.Struct, frozen=True):
    """Facts that must not change between two starts of an application."""

    id: str
    """Distinguishes this checkpoint from any other, also of the same application id."""
    application_id: str
    tasks: dict[str, int]
    """Number of tasks of each sub-topology, by the topics it reads."""
    stores: dict[str, str]
    """The kind of each store."""


def application_of(storage: Storage, newest: Manifest) -> str:
    """Return the identity of a checkpoint, given its newest manifest.

    Raises:
        CorruptDataError: ``application.json`` is lost and cannot be restored from the manifests, or does not match
            them.
    """
    found = read_identity(storage, newest)
    assert found is not None
    return found.id


def read_identity(storage: Storage, newest: Manifest) -> Identity | None:
    """Return the identity of a checkpoint; None when it is new. A lost ``application.json`` is restored from manifests.

    Raises:
        CorruptDataError: it cannot be restored, or ``application.json`` belongs to another checkpoint.
    """
    where = f"{storage.shown}/{_NAME}"
    try:
        found = unseal(storage.read(_NAME), Identity, where)
    except FileNotFoundError:
        return _restored(storage, newest, where) if newest.commit >= 0 else None
    if newest.application not in ("", found.id):
        raise CorruptDataError(
            f"{where} belongs to another checkpoint ({found.id}): the manifests beside it are of {newest.application}. "
            "Restore it from a backup, or remove it, and it is created again from the manifests"
        )
    return found


def _restored(storage: Storage, newest: Manifest, where: str) -> Identity:
    start = Starts(storage).of(newest)
    if start is None:
        raise CorruptDataError(
            f"{where} is missing, though {newest.commit + 1} commits are there: without it the results of the last one "
            f"would be written a second time; restore it from a backup"
        )
    return Identity(start.application, start.application_id, {}, {})


def keep_identity(storage: Storage, identity: Identity) -> None:
    """Write the identity, unless it is already stored."""
    storage.create(_NAME, seal(identity))


def check_owner(old: Identity, application_id: str, where: str) -> None:
    """Raise ``ConfigError`` when a checkpoint belongs to another application."""
    if old.application_id != application_id:
        raise ConfigError(
            f"the checkpoint {where} belongs to application {old.application_id!r}, not to {application_id!r}; "
            "give each application a checkpoint of its own"
        )


def check_shared(application: str, storage: Storage, log: Log, topics: Iterable[str]) -> None:
    """Raise ``ConfigError`` when a machine sees another checkpoint, or other topics, than the driver."""
    found = read_identity(storage, Manifest(-1, {}))
    is_folder = "://" not in log.url  # a Kafka cluster is the same from every machine
    missing = [topic for topic in topics if is_folder and not log.exists(topic)]
    if (found is not None and found.id == application) and not missing:
        return
    what = f"the topic {missing[0]!r} in {masked(log.url)}" if missing else f"the checkpoint {storage.shown}"
    raise ConfigError(
        f"{what} is not there on {socket.gethostname()}, on which an executor runs: on a cluster all machines must "
        "reach the same topics and the same checkpoint. Give the program topics in Kafka (log='kafka://...') or in a "
        "folder that all machines share, and a checkpoint in an object store (checkpoint='s3://...') or in such a "
        "folder. Nothing was committed"
    )


def check_shape(old: Identity, new: Identity, where: str) -> None:
    """Raise ``ConfigError`` when the topology no longer fits a checkpoint whose starts do not describe it."""
    application_id = new.application_id
    for topics, count in old.tasks.items():
        if topics in new.tasks and new.tasks[topics] != count:
            raise ConfigError(
                f"the topics {topics} had {count} partitions when application {application_id!r} first started and "
                f"have {new.tasks[topics]} now; state is kept by partition and cannot follow. Start under another "
                "application id to process the topics again"
            )
    changed = {name for name, kind in old.stores.items() if name in new.stores and new.stores[name] != kind}
    if changed:
        raise ConfigError(
            f"the kind of the stores {', '.join(sorted(changed))} has changed since application {application_id!r} "
            f"first started (in {where}); give changed stores new names, or start under another application id"
        )


def check_sources(newest: Manifest, topology: Topology, application_id: str, dropped: Collection[str] = ()) -> None:
    """Raise ``ConfigError`` when the topology no longer reads a topic, unless `dropped` names it."""
    offsets = {place: offset for entry in newest.tasks.values() for place, offset in entry.offsets.items()}
    for place in sorted(offsets):
        topic = place.split("/")[0]  # partitions of global tables' topics have places of their own
        if topic in newest.topics and topic not in topology.source_topics and topic not in dropped:
            raise ConfigError(
                f"application {application_id!r} has read topic {topic!r}, and the topology reads it no more: what is "
                "in its stores and outputs of that topic would stay as it is. Put the source back, say that you want "
                f"this with drop=[{topic!r}] (penstock run --drop {topic}), or start under another application id "
                "to process the other topics again. Nothing was changed"
            )


def _kind_of(spec: StoreSpec) -> str:
    """Return the kind of a store, including whether it keeps duplicates, which changes its layout."""
    return f"{spec.kind}, a row for each start" if spec.retain_duplicates else spec.kind


def new_identity(application_id: str, topology: Topology, layout: Layout) -> Identity:
    """Return the identity of a new checkpoint."""
    tasks = {",".join(sub.source_topics): layout.tasks[sub.id] for sub in topology.sub_topologies if not sub.is_global}
    stores = {spec.name: _kind_of(spec) for spec in topology.facts.stores.values()}
    return Identity(os.urandom(6).hex(), application_id, tasks, stores)

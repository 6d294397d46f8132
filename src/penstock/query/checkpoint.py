"""An application's checkpoint, read only: its commits, without taking part in the application."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.commit.identity import application_of
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.plan.topology import Topology
from penstock.query.commits import no_commit
from penstock.settings import Settings
from penstock.storage.base import Storage


@dataclass(frozen=True)
class Checkpoint:
    """The commits of an application so far, whether it is running or not."""

    topology: Topology
    settings: Settings
    storage: Storage
    application: str
    manifests: Manifests
    manifest: Manifest
    moved: None = None
    """Its readers do not note that the application moves."""

    @classmethod
    def read(cls, topology: Topology, settings: Settings, storage: Storage) -> Checkpoint:
        """The checkpoint in a storage.

        Raises:
            ConfigError: no application has committed anything there.
        """
        manifests = Manifests(storage)
        manifest = manifests.newest()
        if manifest is None:
            raise no_commit(storage)
        return cls(topology, settings, storage, application_of(storage, manifest), manifests, manifest)

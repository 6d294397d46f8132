"""The commits of a running program, for queries: they follow whichever coordinator is current."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.commit.coordinator import Coordinator
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.engine.shared.moved import Moved
from penstock.plan.topology import Topology
from penstock.storage.base import Storage


class CurrentCommits:
    """The committed state, read through the current coordinator.

    Args:
        coordinator: returns the current coordinator.
    """

    def __init__(self, coordinator: Callable[[], Coordinator]):
        self._coordinator = coordinator

    @property
    def topology(self) -> Topology:
        return self._coordinator().topology

    @property
    def storage(self) -> Storage:
        return self._coordinator().storage

    @property
    def manifests(self) -> Manifests:
        return self._coordinator().manifests

    @property
    def manifest(self) -> Manifest:
        return self._coordinator().manifest

    @property
    def moved(self) -> Moved:
        return self._coordinator().moved

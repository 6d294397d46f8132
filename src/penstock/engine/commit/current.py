"""The commits of a running program, for those who read its stores: whichever coordinator makes them now."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.commit.coordinator import Coordinator
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.engine.shared.moved import Moved
from penstock.plan.topology import Topology
from penstock.storage import Storage


class CurrentCommits:
    """What is committed, while coordinators take each other's place.

    Args:
        coordinator: the one that there is now.
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

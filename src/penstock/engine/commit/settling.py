"""Stores of users' own see a commit at once, also when their tasks have nothing more to do.

A task takes a commit up with its next work; what the engine keeps is read from delta files until then. A store that a
user brings is read by others as it is, so it is not left one commit behind.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.runner import LostWorkError, error_of
from penstock.engine.shared.stores import has_own_stores
from penstock.engine.shared.work import StageWork, TaskWork

if TYPE_CHECKING:
    from penstock.engine.commit.coordinator import Coordinator

_log = logging.getLogger(__name__)


class Settling:
    """Has the tasks of users' own stores take up what is committed."""

    def __init__(self, coordinator: Coordinator):
        self._coordinator = coordinator
        self.replan()

    def replan(self) -> None:
        """Begin with the coordinator's topology, whose tasks are opened anew."""
        topology = self._coordinator.topology
        self._subs = {sub.id for sub in topology.sub_topologies if has_own_stores(sub, topology.facts)}
        self._settled = -1

    def settle(self) -> None:
        """Bring these tasks to the newest commit, unless they are there."""
        if not self._subs:
            return
        coordinator = self._coordinator
        assert coordinator.runner is not None
        tasks = coordinator.manifest.tasks.items()
        behind = [(name, entry) for name, entry in tasks if entry.changed > self._settled]
        works = [TaskWork(name, entry) for name, entry in behind if TaskId.parse(name).sub in self._subs]
        commit = coordinator.manifest.commit
        if works:
            stage = StageWork(coordinator.application, commit, "", works, only_settles=True)
            label = f"penstock {coordinator.application_id}: commit {commit} for stores of your own"
            try:
                done = coordinator.runner.run(stage, label)
            except LostWorkError as error:  # the next work restores them
                _log.warning("stores of your own are behind commit %d: %s", commit, error)
                return
            for one in done:
                if one.error:
                    raise error_of(one)
        self._settled = commit

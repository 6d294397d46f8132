"""Stores of users' own see a commit at once, also when their tasks have nothing more to do.

A task takes a commit up with its next work; what the engine keeps is read from delta files until then. A store that a
user brings is read by others as it is, so it is not left one commit behind.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.runner import LostWorkError, StageRunner, error_of
from penstock.engine.shared.work import StageWork, TaskWork

_log = logging.getLogger(__name__)


class Settling:
    """Has the tasks of users' own stores take up what is committed.

    Args:
        runner: runs the tasks.
        subs: the sub-topologies that have such stores.
        application_id: for what the work is called where somebody looks at it.
    """

    def __init__(self, runner: StageRunner, subs: Collection[int], application_id: str):
        self._runner, self._subs, self._application_id = runner, subs, application_id
        self._settled = -1

    def settle(self, newest: Manifest) -> None:
        """Bring these tasks to the newest commit, unless they are there."""
        if not self._subs:
            return
        tasks = newest.tasks.items()
        behind = [(name, entry) for name, entry in tasks if entry.changed > self._settled]
        works = [TaskWork(name, entry) for name, entry in behind if TaskId.parse(name).sub in self._subs]
        commit = newest.commit
        if works:
            stage = StageWork(newest.application, commit, "", works, only_settles=True)
            label = f"penstock {self._application_id}: commit {commit} for stores of your own"
            try:
                done = self._runner.run(stage, label)
            except LostWorkError as error:  # the next work restores them
                _log.warning("stores of your own are behind commit %d: %s", commit, error)
                return
            for one in done:
                if one.error:
                    raise error_of(one)
        self._settled = commit

"""Brings users' own stores to each commit at once, also when their tasks have nothing more to do.

A task applies a commit with its next work; until then the engine's own stores are read through delta files. Other
programs read a user's own store directly, so it must not stay one commit behind.
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
    """Lets the tasks of users' own stores apply each commit.

    Args:
        runner: runs the tasks.
        subs: the sub-topologies that have such stores.
        application_id: names the work in Spark's UI.
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
            except LostWorkError as error:  # the next work restores the stores
                _log.warning("stores of your own are behind commit %d: %s", commit, error)
                return
            for one in done:
                if one.error:
                    raise error_of(one)
        self._settled = commit

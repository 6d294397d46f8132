"""Runs an application without Spark: the same tasks and the same commits, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.commit.coordinator import Coordinator
from penstock.engine.commit.current import CurrentCommits
from penstock.engine.commit.opening import Ends, Opened, open_application, reopened
from penstock.engine.evolution.matching import NO_WISHES, Wishes
from penstock.engine.operate.restores import Restores
from penstock.engine.shared.program import ProgramFile
from penstock.engine.shared.runner import StageRunner
from penstock.engine.shared.work import StageWork, TaskDone, TaskWork
from penstock.engine.task.host import TaskHost
from penstock.engine.task.live import LiveTasks
from penstock.engine.task.reader import Reader
from penstock.log.base import Log
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.state.interface import IsolationLevel
from penstock.state.restoring import StateRestoreListener
from penstock.storage.base import Storage

if TYPE_CHECKING:
    from penstock.query.application import ApplicationStores


class LocalApplication(StageRunner):
    """Runs a topology over a log, commit by commit, on request.

    Args:
        folder: where databases are kept; None to keep all state in memory.
        reader: gives tasks their input; tests have another.
        program: the program's file, if known.
        restore_listener: receives the progress of restores.
        wishes: how state follows a changed topology.
    """

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        settings: Settings,
        log: Log,
        storage: Storage,
        folder: Path | None = None,
        reader: type[Reader] = Reader,
        program: ProgramFile | None = None,
        restore_listener: StateRestoreListener | None = None,
        wishes: Wishes = NO_WISHES,
    ):
        topology = topology.completed_by(settings).owned_by(application_id).expanded(log.topics())
        self.restores = Restores(application_id, restore_listener)
        self._folder, self._reader = folder, reader
        opened = open_application(topology, application_id, settings, log, storage, program, wishes)
        self.coordinator = self._begun(opened)

    def _begun(self, opened: Opened, before: Coordinator | None = None) -> Coordinator:
        """Continue the opened application, with new tasks."""
        given = opened.settings, opened.plain_log, opened.storage, self._folder, self._reader
        self.host = TaskHost(opened.topology, opened.layout, *given)
        self.host.on_restore = self.restores.hear
        self.host.on_chunk = opened.moved.note
        self.live = LiveTasks(opened.layout, self.host.desk.ask)
        coordinator = Coordinator(opened, self, before)
        coordinator.take_over()
        return coordinator

    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        return self.host.run(stage)

    def run_until(self, ends: Ends | None = None) -> int:
        """Make commits until everything up to these ends is processed. Return how many records were read.

        By default these are the present ends, and the records that the topology itself writes into its source topics.
        """
        records = 0
        self.take_up_topics()
        while (done := self.coordinator.step(ends or self.coordinator.end_offsets())) is not None:
            records += done.records
        return records

    def take_up_topics(self) -> Coordinator | None:
        """Add topics that have appeared and match the sources' patterns. Return the coordinator that continues with
        them, or None.
        """
        topology = self.coordinator.opened.with_new_topics()
        if topology is None:
            return None
        opened = reopened(self.coordinator.opened, topology)
        self.host.close()
        self.coordinator = self._begun(opened, self.coordinator)
        return self.coordinator

    def settle(self) -> None:
        """Open all tasks that have state, at the newest commit."""
        tasks = self.coordinator.manifest.tasks
        self.host.settle([TaskWork(name, entry) for name, entry in tasks.items()], self.coordinator.application)

    def stores(self) -> ApplicationStores:
        """Return all stores for reading, from any thread: committed state, or under at least once all written state."""
        from penstock.query.application import ApplicationStores
        from penstock.query.commits import OwnCommits

        settings = self.coordinator.settings
        commits = OwnCommits(CurrentCommits(lambda: self.coordinator))
        level = IsolationLevel(settings.queries_see)
        return ApplicationStores(commits, settings.block_cache_bytes, self.live, level)

    def close(self) -> None:
        """Close all state."""
        self.host.close()

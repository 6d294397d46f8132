"""The commits of one task, kept as the engine keeps them: delta files in a storage, and what the manifests say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.settings import StateSettings
from penstock.state.delta import write_delta
from penstock.state.store import StateStore
from penstock.state.task_state import Committed, TaskState
from penstock.storage.base import LocalStorage


class Checkpoint:
    """Opens the state of one task, and commits what it wrote, step by step.

    ``commits`` are the commits whose delta files are still kept; ``snapshot`` is the newest one that they know of, and
    ``older`` the one before it.
    """

    def __init__(self, folder: Path, settings: StateSettings | None = None):
        self.folder = folder / "task"
        self.storage = LocalStorage(folder / "checkpoint")
        self.settings = settings or StateSettings()
        self.application = "application"
        self.commits: list[Committed] = []
        self.newest = -1
        self.snapshot = self.older = -1

    def open(self, stores: Iterable[StateStore], folder: Path | None = None) -> TaskState:
        """The task's state at the newest commit, in its own folder or in another one."""
        state = TaskState("0_0", stores, self.settings, folder or self.folder, self.storage)
        state.open(self.application, self.newest, self.snapshot, self.since)
        return state

    def since(self, after: int) -> list[Committed]:
        return [step for step in self.commits if step.commit > after]

    def make_manifest(self, state: TaskState) -> None:
        """Write the delta file, and have the next manifest name it: the transaction is committed from here on."""
        delta = None
        if changes := state.changes():
            name = f"deltas/0_0/{self.newest + 1:016d}.arrow"
            with self.storage.write(name) as file:
                write_delta(file, changes)
            delta = self.storage.ref(name)
        self.newest += 1
        self.commits.append(Committed(self.newest, delta, state.numbers()))
        self._forget(state.snapshot)

    def commit(self, state: TaskState) -> None:
        """The whole commit: manifest, then the task's own database."""
        self.make_manifest(state)
        state.commit(self.newest, self.commits[-1].delta)

    def _forget(self, snapshot: int) -> None:
        """Once a manifest names a snapshot, the delta files before the one before it go."""
        if snapshot > self.snapshot:
            self.older, self.snapshot = self.snapshot, snapshot
        for step in self.commits:
            if step.commit <= self.older and step.delta is not None:
                self.storage.delete(step.delta.name)
        self.commits = self.since(self.older)

"""The orders of the driver to a Spark task of a micro-batch, and the task's answers. Both travel as JSON."""

from __future__ import annotations

import msgspec

from penstock.engine.shared.exchange import ExchangeRef
from penstock.engine.shared.manifest import TaskEntry
from penstock.engine.shared.work import StageWork, TaskDone, TaskWork
from penstock.state.restoring import RestoreStep


class CycleWork(msgspec.Struct, frozen=True):
    """The work of a cycle in one attempt: one Spark task runs all of its tasks, because they wait for each other."""

    sub: int
    """One of its sub-topologies."""
    label: str
    waiting: dict[str, dict[str, list[ExchangeRef]]]
    """The records on their way around it, by task and topic."""
    works: list[TaskWork]
    """The work of the tasks that have some."""
    entries: dict[str, TaskEntry]
    """The positions of all its tasks."""
    limits: list[tuple[int, str]]
    """The clocks and tasks before which records may still enter it."""
    more_is_waiting: bool
    most: dict[str, int] = {}
    """How many records may enter it, by its name, if stores had no room for the writes of more."""


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """The work of one Spark task."""

    stage: StageWork
    cycle: CycleWork | None = None

    @property
    def tasks(self) -> list[TaskWork]:
        """The work of the tasks that may take part."""
        if self.cycle is None:
            return self.stage.tasks
        return [TaskWork(task, entry) for task, entry in self.cycle.entries.items()]


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The results of one Spark task.

    Attributes:
        attempt: the name that its files have. Spark may run a task twice, and only one of both counts.
        works: the work that the results belong to, where the task has found it out itself.
        restores: the progress of restores.
    """

    attempt: str
    done: list[TaskDone] = []
    works: list[TaskWork] = []
    restores: list[RestoreStep] = []

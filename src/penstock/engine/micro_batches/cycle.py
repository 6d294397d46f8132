"""A cycle of sub-topologies in a micro-batch: one Spark task runs all rounds of an attempt, with all tasks open.

The rounds are those of a running program (``engine/commit/rounds.py``), whose tasks wait for each other lap by lap. A
Spark job for each lap would cost more than the work.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec

from penstock.engine.commit.rounds import Place, Refs, Rounds
from penstock.engine.micro_batches.orders import CycleWork
from penstock.engine.shared.cycles import Cycle
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.runner import TooManyWritesError
from penstock.engine.shared.work import StageWork, TaskDone, TaskWork
from penstock.engine.slots.slot import Program
from penstock.engine.task.host import TaskHost
from penstock.plan.physical import SubTopology
from penstock.storage.opening import open_storage


class _EndedError(Exception):
    """A task cannot go on, and its answer says why."""

    def __init__(self, done: TaskDone):
        self.done = done


class CycleRun:
    """One run of a cycle, as the attempt that its rounds are part of.

    Args:
        stage: the commit and the attempt; its tasks are those of the cycle.
    """

    def __init__(self, program: Program, host: TaskHost, stage: StageWork, given: CycleWork):
        self.settings = program.settings
        self.most = given.most
        self._layout, self._storage = program.layout, open_storage(program.storage_url)
        self._host, self._stage, self._given = host, stage, given
        self._works: list[TaskWork] = []
        self._done: list[TaskDone] = []

    def run(self) -> tuple[list[TaskWork], list[TaskDone]]:
        """Return the work that was done, and its results."""
        cycle = self._layout.cycle_of(self._given.sub)
        assert cycle is not None
        try:
            Rounds(self, cycle, self._given.label).run()
        except _EndedError as error:
            return [self.work_of(error.done.task)], [error.done]
        except TooManyWritesError as error:
            task, [most] = next(iter(self._given.entries)), error.most.values()
            return [self.work_of(task)], [TaskDone(task, most=most)]
        return self._works, self._done

    def take_waiting(self, subs: Iterable[SubTopology], topics: frozenset[str]) -> dict[str, Refs]:
        return self._given.waiting

    def works(self, sub: SubTopology) -> list[TaskWork]:
        return [work for work in self._given.works if TaskId.parse(work.task).sub == sub.id]

    def work_of(self, task: str) -> TaskWork:
        return TaskWork(task, self._given.entries[task])

    def may_come(self, cycle: Cycle, begun: Container[str]) -> list[Place]:
        return [(clock, TaskId.parse(task)) for clock, task in self._given.limits]

    def order(self, works: list[TaskWork], label: str) -> dict[str, TaskDone]:
        if self._given.more_is_waiting:
            works = [msgspec.structs.replace(work, more_is_waiting=True) for work in works]
        by_task = {done.task: done for done in self._host.run(msgspec.structs.replace(self._stage, tasks=works))}
        for done in by_task.values():
            if done.is_lost or done.error:
                raise _EndedError(done)
            if done.most >= 0:
                raise TooManyWritesError({done.task: done.most})
        return {work.task: by_task[work.task] for work in works}

    def take(self, works: list[TaskWork], by_task: dict[str, TaskDone]) -> None:
        self._works += works
        self._done += [by_task[work.task] for work in works]

    def forget(self, files: Iterable[str]) -> None:
        for name in files:
            self._storage.delete(name)

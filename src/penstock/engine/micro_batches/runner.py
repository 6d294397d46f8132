"""Runs each stage of a commit as one short job of Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from penstock.engine.micro_batches.orders import Answer, CycleWork, Order
from penstock.engine.operate.restores import Restores
from penstock.engine.shared.places import slot_of
from penstock.engine.shared.runner import LostWorkError, StageRunner
from penstock.engine.shared.work import StageWork, TaskDone, TaskWork
from penstock.engine.task.live import StoreAnswer, StoreQuestion
from penstock.values.decoding import from_json


class Jobs(Protocol):
    """Runs jobs of Spark."""

    look_seconds: float
    """How often to ask whether Spark is there while nothing runs."""

    def run(self, orders: Sequence[bytes], label: str) -> list[bytes]:
        """Return the answers of Spark tasks, one for each order. Raise ``LostWorkError`` if Spark gives up."""

    def cancel(self) -> None:
        """Cancel what runs now; from any thread."""

    def check(self) -> None:
        """Raise ``SparkLostError`` when Spark is lost."""

    def close(self) -> None:
        """Release what is kept for jobs."""


class MicroBatches(StageRunner):
    """Runs stages as jobs of Spark.

    Args:
        jobs: runs a job, with the program.
        width: how many Spark tasks a job has at most.
        restores: receives the progress of restores.
    """

    def __init__(self, jobs: Jobs, width: int, restores: Restores):
        self._jobs, self._width, self._restores = jobs, width, restores
        self.look_seconds = jobs.look_seconds
        self._is_given_up = False
        self.attempts: dict[str, str] = {}
        """For each task, the name of the run that gave its last answer."""
        self.on_lost: Callable[[], None] = lambda: None
        """Never called: between two commits there is nothing to lose."""
        self.on_moved: Callable[[], None] = lambda: None
        """Called when a job has ended."""

    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        shares: dict[int, list[TaskWork]] = {}
        for work in stage.tasks:
            shares.setdefault(slot_of(work.task, self._width), []).append(work)
        orders = [Order(msgspec.structs.replace(stage, tasks=works)) for works in shares.values()]
        return [done for answer in self._answers(orders, label) for done in answer.done]

    def run_cycle(self, stage: StageWork, cycle: CycleWork, label: str) -> tuple[list[TaskWork], list[TaskDone]]:
        """Run all rounds of a cycle. Return the work that was done, and its results."""
        [answer] = self._answers([Order(stage, cycle)], label)
        return answer.works, answer.done

    def _answers(self, orders: Sequence[Order], label: str) -> list[Answer]:
        if self._is_given_up:
            raise LostWorkError("it was given up")
        self.on_moved()
        try:
            found = self._jobs.run([msgspec.json.encode(order) for order in orders], label)
        except LostWorkError:
            self._restores.suspend()
            raise
        self.on_moved()
        answers = [from_json(one, Answer) for one in found]
        for answer in answers:
            self.attempts |= {done.task: answer.attempt for done in answer.done}
            for step in answer.restores:
                self._restores.hear(step)
        return answers

    def give_up(self) -> None:
        self._is_given_up = True
        self._jobs.cancel()

    def begin(self) -> None:
        """Do nothing: the first job starts what it needs."""

    def check(self) -> None:
        """Raise ``SparkLostError`` if Spark is lost."""
        self._jobs.check()

    def ask(self, question: StoreQuestion) -> StoreAnswer:
        """Answer that there is only committed state: no task runs for longer than a commit."""
        return StoreAnswer(False)

    def close(self, host_goes_on: bool = True) -> None:
        """Release what is kept on Spark.

        Args:
            host_goes_on: whether Spark's session stays after the application.
        """
        if host_goes_on:
            self._jobs.close()

"""An attempt at a commit whose stages are jobs of Spark: one job a stage, and one for a cycle."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.engine.commit.attempt import Attempt
from penstock.engine.commit.rounds import name_of
from penstock.engine.micro_batches.orders import CycleWork
from penstock.engine.micro_batches.runner import MicroBatches
from penstock.engine.shared.cycles import Cycle
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.runner import TooManyWritesError


class MicroBatchAttempt(Attempt):
    """An attempt whose runner is ``MicroBatches``."""

    _runner: MicroBatches

    def go_around(self, cycle: Cycle, label: str) -> None:
        """Have one Spark task run all rounds of a cycle."""
        waiting = self.take_waiting(cycle.subs, cycle.topics)
        works = [work for sub in cycle.subs for work in self.works(sub)]
        if not works and not waiting:
            return
        entries = {task.name: self._entries[task.name] for sub in cycle.subs for task in self._layout.tasks_of(sub)}
        limits = [(clock, str(task)) for clock, task in self.may_come(cycle, {work.task for work in works})]
        name = name_of(cycle)
        is_more = bool(self._before.waiting or self._waiting)
        given = CycleWork(
            cycle.subs[0].id,
            label,
            waiting,
            works,
            entries,
            limits,
            is_more,
            {name: self.most[name]} if name in self.most else {},
        )
        did, done = self._runner.run_cycle(self.stage_of([]), given, self.labelled(label))
        try:
            self.take(did, self.checked(did, {one.task: one for one in done}))
        except TooManyWritesError as error:
            raise TooManyWritesError(dict.fromkeys([name], *error.most.values())) from None

    def manifest(self, of_last_commit: Mapping[str, int]) -> Manifest:
        """Return the manifest, in which each task's attempt is the run of its Spark task whose results count."""
        manifest = super().manifest(of_last_commit)
        tasks = dict(manifest.tasks)
        for name in self._done:
            if tasks[name].attempt:
                tasks[name] = msgspec.structs.replace(tasks[name], attempt=self._runner.attempts[name])
        return msgspec.structs.replace(manifest, tasks=tasks)

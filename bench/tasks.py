"""The coordinator with thousands of tasks, of which few have records: its own time for a commit, and its memory."""

from __future__ import annotations

import resource
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from bench.helper import Helper, answer
from bench.plan import Plan
from bench.report import Section, at_most, median, spread
from bench.workloads import w1
from penstock.engine.commit.coordinator import Coordinator
from penstock.engine.commit.opening import open_application
from penstock.engine.shared.runner import StageRunner
from penstock.engine.shared.work import StageWork, TaskDone, TaskWork
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import FileRef, LocalStorage

TASKS = (10, 100, 1_000, 5_000)
LIMITS_MS = {1_000: 20.0, 5_000: 60.0}
LIMIT_MB = 500.0
COMMITS = 250
"""Enough for manifests to be forgotten twice."""


def measure(plan: Plan) -> Section:
    """How long a commit takes, by how many tasks there are."""
    section = Section(
        "TASKS: the coordinator with many tasks",
        f"Milliseconds that the coordinator itself takes for a commit where 1 % of the tasks have records, {COMMITS} "
        "of them one by one; slots are simulated, and answer at once. Memory is the whole process's, with Python.",
    )
    for tasks in TASKS:
        folder = plan.penstock.work / f"tasks-{tasks}"
        shutil.rmtree(folder, ignore_errors=True)
        helper = Helper([__name__, str(folder), str(tasks)])
        try:
            millis, megabytes = helper.ask(COMMITS)
        finally:
            helper.end()
            shutil.rmtree(folder, ignore_errors=True)
        plan.say(f"{tasks} tasks: {median(millis):.1f} ms, {megabytes:.0f} MB")
        row = at_most(f"a commit of {tasks:,} tasks", median(millis), LIMITS_MS.get(tasks, 20.0), "ms")
        section.rows.append(replace(row, spread=spread(millis)))
    section.rows.append(at_most(f"memory with {TASKS[-1]:,} tasks", megabytes, LIMIT_MB, "MB"))
    return section


class SimulatedSlots(StageRunner):
    """Answers orders as slots would whose tasks have read everything."""

    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        return [self._done(work, stage) for work in stage.tasks]

    def _done(self, work: TaskWork, stage: StageWork) -> TaskDone:
        name = f"deltas/{work.task}/{stage.commit:016d}-{stage.attempt}.arrow"
        processed = {f"{work.task}|KSTREAM-{node}||process-total": 100 for node in ("SOURCE", "AGGREGATE", "SINK")}
        return TaskDone(
            work.task,
            offsets={**work.entry.offsets, **work.ends},
            delta=FileRef(name, 10_000, 2**60),
            numbers={"counts": {"stream_time": stage.commit}},
            metrics={f"{work.task}|KSTREAM-AGGREGATE||late-record-drop-total": 1},
            observed=processed,
            records=100,
            read=100,
        )


def main(folder: Path, tasks: int) -> None:
    """Make so many commits as are asked for; answers with their milliseconds, and the megabytes of this process."""
    log = FileLog(folder / "log")
    log.create_topic(TopicInfo("in", tasks, "str", "json"))
    settings = Settings.load(environment={}, folder=folder)
    opened = open_application(w1("in", "out"), "many", settings, log, LocalStorage(folder / "checkpoint"))
    coordinator = Coordinator(opened, SimulatedSlots())
    coordinator.take_over()
    ends = [100] * tasks
    coordinator.step({"in": ends})

    def commit(number: int) -> float:
        busy = max(tasks // 100, 1)
        for task in range(number * busy, (number + 1) * busy):
            ends[task % tasks] += 100
        began = time.perf_counter()
        coordinator.step({"in": ends})
        return (time.perf_counter() - began) * 1000

    def commits(times: int) -> tuple[list[float], float]:
        took = [commit(number) for number in range(times)]
        return took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    answer(commits)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

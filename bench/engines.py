"""What runs a workload as a whole process, and what such a run gives."""

from __future__ import annotations

import fcntl
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from bench import data
from bench.digest import Digest, content, digest
from bench.measure import Cost, RunError, run
from bench.workloads import Inputs, Workload
from penstock.errors import TopicNotFoundError
from penstock.log.file.log import FileLog


@dataclass(frozen=True)
class Run:
    """One finished run.

    Attributes:
        broker_cpu: CPU seconds that a broker used meanwhile; they are not in ``cost``.
    """

    cost: Cost
    digest: Digest
    broker_cpu: float = 0.0


class Engine(Protocol):
    """What can run the workloads."""

    name: str
    scale: int
    """How many times what a workload says its inputs are, when its marginal cost is measured."""

    def runs(self, workload: Workload) -> bool:
        """Whether it can run a workload."""
        return True

    def expected(self, workload: Workload) -> str:
        """What ``expected.json`` calls the output of a workload by this engine's rules."""
        return workload.name

    def at_least(self, workload: Workload) -> float:
        """How many times what Penstock costs it has to cost; 0 where nothing is promised."""
        return 0.0

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        """Run a workload over inputs, which are made first if they are not there.

        Raises:
            RunError: it failed, or did not end in time.
        """
        raise NotImplementedError


class Penstock(Engine):
    """Penstock on Spark over a file log, ``bench.job`` in a process of its own.

    Args:
        work: a folder for topics and state; this process has it for itself. Topics that are made for ``inputs`` stay.
    """

    name = "Penstock"
    scale = 5

    def __init__(self, work: Path):
        self.work = work.resolve()
        self.log = FileLog(self.work / "log")
        self.work.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.work / "lock", "w")  # noqa: SIM115 - held as long as this object is
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another benchmark works in {work}: wait for it, or use another folder (--work)") from None
        for topic in self.log.topics():
            if not topic.startswith(tuple(data.SETS)):  # a run that was killed left it
                self.log.delete_topic(topic)

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        sources = [data.fill_once(self.log, name, count) for name, count in inputs.items()]
        self.clear("out")
        return self._taken(workload, run(self.job(workload.name, sources, ["--cache"] if workload.cache else [])))

    def without_jvm(self, workload: Workload, cost: Cost) -> Run:
        """A run that has ended, with the cost of the driver and its slots alone; its output is taken away."""
        return self._taken(
            workload, replace(cost, cpu=sum(process.cpu for process in cost.processes if process.name != "java"))
        )

    def _taken(self, workload: Workload, cost: Cost) -> Run:
        found = digest(workload.result, content(self.log, "out"))
        self.clear("out")
        return Run(cost, found)

    def job(self, name: str, sources: Sequence[str], options: Sequence[str] = ()) -> list[str]:
        """The command that runs a topology from its source topics to the topic ``out``."""
        return [sys.executable, "-m", "bench.job", name, *sources, "--work", str(self.work), *options]

    def clear(self, *topics: str) -> None:
        """Remove the state and some topics, so that the next job begins anew."""
        for topic in topics:
            with suppress(TopicNotFoundError):
                self.log.delete_topic(topic)
        shutil.rmtree(self.work / "state", ignore_errors=True)

"""Engines that run a workload as a whole process, and what such a run gives."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench import data
from bench.digest import Digest, content, digest, output
from bench.measure import Cost, RunError, run
from penstock.errors import TopicNotFoundError
from penstock.log.file.log import FileLog

TIMEOUT = 900


@dataclass(frozen=True)
class Run:
    """One finished run.

    Attributes:
        digest: of its output, if that was wanted.
        broker_cpu: CPU seconds that a broker used meanwhile; they are not in ``cost``.
        content: hashes of the partitions of its output, if they were wanted.
    """

    cost: Cost
    digest: Digest | None = None
    broker_cpu: float = 0.0
    content: tuple[str, ...] = ()


class Engine(Protocol):
    """What can run the workloads."""

    name: str

    def run(self, workload: str, records: int, *, cache: bool = False, with_digest: bool = True) -> Run:
        """Run a workload over so many records of its set.

        Args:
            cache: put out the last update per key and commit, instead of every update.
            with_digest: read the output afterwards.

        Raises:
            RunError: it failed, or did not end in time.
        """

    def prepare(self, workload: str, records: int) -> None:
        """Have the input there, so that no run pays for making it."""


class Penstock:
    """Penstock on Spark over a file log, ``bench.job`` in a process of its own.

    Args:
        work: a folder for topics and state; this process has it for itself.
    """

    name = "Penstock"

    def __init__(self, work: Path):
        self.work = work
        self.log = FileLog(work / "log")
        work.mkdir(parents=True, exist_ok=True)
        self._lock = open(work / "lock", "w")  # noqa: SIM115 - held as long as this object is
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another benchmark works in {work}: wait for it, or use another folder (--work)") from None
        self._sweep()

    def prepare(self, workload: str, records: int) -> None:
        data.fill_once(self.log, data.set_of(workload), records)

    def run(
        self,
        workload: str,
        records: int,
        *,
        cache: bool = False,
        with_digest: bool = True,
        with_content: bool = False,
        source: str = "",
        settings: Mapping[str, int] | None = None,
    ) -> Run:
        self.prepare(workload, records)
        sink, state = f"out-{os.urandom(4).hex()}", f"state-{os.urandom(4).hex()}"
        command = self.job(workload, records, sink, state, source, settings) + (["--cache"] if cache else [])
        try:
            cost = run(command, TIMEOUT)
            return Run(
                cost,
                digest(workload, output(self.log, sink)) if with_digest else None,
                content=tuple(content(self.log, sink)) if with_content else (),
            )
        finally:
            self.remove(sink, state)

    def job(
        self,
        workload: str,
        records: int,
        sink: str,
        state: str,
        source: str = "",
        settings: Mapping[str, int] | None = None,
    ) -> list[str]:
        """The command of a run."""
        command = [sys.executable, "-m", "bench.job", workload, str(records), "--work", str(self.work)]
        command += ["--sink", sink, "--state", state, *(["--source", source] if source else [])]
        for name, value in (settings or {}).items():
            command += ["--set", f"{name}={value}"]
        return command

    def remove(self, topic: str, state: str = "") -> None:
        """Remove what a run left."""
        with suppress(TopicNotFoundError):
            self.log.delete_topic(topic)
        if state:
            shutil.rmtree(self.work / state, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what a run that was killed left; the input topics stay."""
        kept = {f"{name}-" for name in data.SETS}
        for topic in self.log.topics():
            if not topic.startswith(tuple(kept)):
                self.log.delete_topic(topic)
        for folder in [*self.work.glob("state-*"), *(self.work / "log").glob(".deleted-*")]:
            shutil.rmtree(folder, ignore_errors=True)

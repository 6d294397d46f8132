"""What a process and everything it starts costs: CPU seconds and memory, seen from outside.

A command is run in a session of its own, by which its processes (the driver, the JVM, the slots) are known.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ROOT = Path(__file__).resolve().parent.parent


class RunError(Exception):
    """A run failed; the message says which, and how."""


@dataclass
class ProcessCost:
    """What one process used.

    Attributes:
        is_slot: whether it is one of Penstock's slots.
        is_worker: whether it is one of Spark's Python workers.
        cpu: CPU seconds so far.
        peak_rss: the most resident memory, in bytes.
        peak_private: the same without pages of files, which the system can take back.
    """

    name: str
    is_slot: bool = False
    is_worker: bool = False
    cpu: float = 0.0
    peak_rss: int = 0
    peak_private: int = 0


@dataclass(frozen=True)
class Cost:
    """What one run cost.

    Attributes:
        cpu: CPU seconds of all processes, start-up and shut-down included.
        peak_private: the largest sum of private memory at one time, in bytes: without pages of files, which the system
            can take back.
        seconds: from its start to its end.
        processes: what each process used.
        said: the last line of standard output that is JSON.
    """

    cpu: float
    peak_private: int
    seconds: float
    processes: list[ProcessCost]
    said: dict[str, Any]

    @property
    def slots(self) -> list[ProcessCost]:
        """What Penstock's slots used; one that was replaced is there with its successor."""
        return [process for process in self.processes if process.is_slot]


class _Seen(NamedTuple):
    """One look at a process."""

    name: str
    parent: int
    cpu: float
    rss: int
    private: int


class Sampler(threading.Thread):
    """Watches all processes of a session ten times a second; those that end keep what they had used."""

    def __init__(self, session: int, every: float = 0.1):
        super().__init__(daemon=True)
        self.session = session
        self.every = every
        self.processes: dict[int, ProcessCost] = {}
        self.peak_private = 0
        self._on = True

    def run(self) -> None:
        while self._on:
            self.sample()
            time.sleep(self.every)

    def stop(self) -> None:
        self._on = False
        self.join()

    def sample(self) -> None:
        private = 0
        for pid, seen in _processes(self.session):
            process = self.processes.get(pid)
            if process is None or process.name != seen.name:  # new, or a fork that became what it is
                process = self.processes[pid] = ProcessCost(seen.name, _is_slot(pid, seen.parent), _is_worker(pid))
            process.cpu = seen.cpu
            process.peak_rss = max(process.peak_rss, seen.rss)
            process.peak_private = max(process.peak_private, seen.private)
            private += seen.private
        self.peak_private = max(self.peak_private, private)

    @property
    def cpu(self) -> float:
        return sum(process.cpu for process in self.processes.values())


def run(command: Sequence[str], timeout: float = 900, environment: Mapping[str, str] = MappingProxyType({})) -> Cost:
    """Run a command to its end and say what it cost.

    Raises:
        RunError: it failed or took too long; nothing of it is left running.
    """
    began = time.monotonic()
    process = start(command, environment=environment)
    sampler = Sampler(process.pid)
    sampler.start()
    try:
        out, err = process.communicate(timeout=timeout)
        seconds = time.monotonic() - began
    except subprocess.TimeoutExpired:
        kill_session(process.pid)
        _, err = process.communicate()
        raise RunError(f"{_short(command)} took more than {timeout:g} s:\n{err[-3000:]}") from None
    finally:
        sampler.stop()
        kill_session(process.pid)
    if process.returncode != 0:
        raise RunError(f"{_short(command)} ended with {process.returncode}:\n{err[-3000:]}")
    lines = [line for line in out.splitlines() if line.startswith("{")]
    said = json.loads(lines[-1]) if lines else {}
    return Cost(sampler.cpu, sampler.peak_private, seconds, list(sampler.processes.values()), said)


def start(
    command: Sequence[str], with_input: bool = False, environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[str]:
    """Start a command in a session of its own; ``python -m bench...`` finds its modules."""
    path = os.pathsep.join([str(_ROOT), *filter(None, [environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment, "PYTHONPATH": path},
    )


def session_cpu(session: int) -> float:
    """CPU seconds that the processes of a session, as far as they are alive, have used."""
    return sum(seen.cpu for _, seen in _processes(session))


def process_cpu(pid: int) -> float:
    """CPU seconds that one process has used; 0 when it is gone."""
    look = _look(pid)
    return look[1].cpu if look else 0.0


def kill_session(session: int, patience: float = 10.0) -> None:
    """Kill every process of a session with SIGKILL, and wait until they are gone (all but their parent's zombies)."""
    deadline = time.monotonic() + patience
    while living := [pid for pid, _ in _processes(session)]:
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            raise RunError(f"processes {living} do not end after SIGKILL")
        time.sleep(0.01)


def _processes(session: int) -> Iterator[tuple[int, _Seen]]:
    """The living processes of a session."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (look := _look(int(entry))) is not None and look[0] == session:
            yield int(entry), look[1]


def _look(pid: int) -> tuple[int, _Seen] | None:
    """A process's session and what it uses; None when it is gone or a zombie."""
    stat = _stat(pid)
    if stat is None or stat[1][0] == "Z":
        return None
    name, fields = stat
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return None
    cpu = (int(fields[11]) + int(fields[12])) / _TICK
    return int(fields[3]), _Seen(name, int(fields[1]), cpu, resident * _PAGE, (resident - shared) * _PAGE)


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """A process's name and the fields of its stat file from the state on."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            head, _, rest = file.read().rpartition(") ")
    except OSError:
        return None
    return head.partition(" (")[2], rest.split()


def _is_slot(pid: int, parent: int) -> bool:
    """Whether a process is a slot: one of those that Spark's worker daemon forked under a slot's environment."""
    try:
        return all(b"PENSTOCK_SLOT=" in Path(f"/proc/{one}/environ").read_bytes() for one in (pid, parent))
    except OSError:
        return False


def _is_worker(pid: int) -> bool:
    """Whether a process is Spark's worker daemon, or was forked by it."""
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _short(command: Sequence[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:]])[:300]

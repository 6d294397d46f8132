"""What a process and everything it starts costs: CPU seconds and memory, seen from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """What one run cost.

    Attributes:
        cpu: CPU seconds of all processes, start-up and shut-down included.
        wall: seconds from start to exit.
        peak_rss: the largest sum of resident memory at one time, in bytes.
        peak_private: the same without pages of files, which the system can take back.
        said: the last line of standard output that is JSON.
    """

    cpu: float
    wall: float
    peak_rss: int
    peak_private: int
    said: dict[str, Any]


class Sampler(threading.Thread):
    """Watches all processes of a session ten times a second; those that end keep what they had used."""

    def __init__(self, session: int, every: float = 0.1):
        super().__init__(daemon=True)
        self.session = session
        self.every = every
        self.used: dict[int, float] = {}
        self.peak_rss = self.peak_private = 0
        self._on = True

    def run(self) -> None:
        while self._on:
            self.sample()
            time.sleep(self.every)

    def stop(self) -> None:
        self._on = False
        self.join()

    def sample(self) -> None:
        rss = private = 0
        for entry in os.listdir("/proc"):
            if entry.isdigit() and (seen := _process(int(entry))) is not None and seen[0] == self.session:
                self.used[int(entry)] = seen[1]
                rss += seen[2]
                private += seen[3]
        self.peak_rss = max(self.peak_rss, rss)
        self.peak_private = max(self.peak_private, private)

    @property
    def cpu(self) -> float:
        return sum(self.used.values())


def _process(pid: int) -> tuple[int, float, int, int] | None:
    """Session, CPU seconds, resident bytes and those of them that belong to no file."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(") ")[2].split()
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return None
    return int(fields[3]), (int(fields[11]) + int(fields[12])) / _TICK, resident * _PAGE, (resident - shared) * _PAGE


def run(command: list[str], timeout: float = 900, environment: dict[str, str] | None = None) -> Cost:
    """Run a command to its end and say what it cost; raises ``RuntimeError`` when it fails."""
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )
    sampler = Sampler(process.pid)
    sampler.start()
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    wall = time.monotonic() - began
    sampler.stop()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{err[-3000:]}")
    lines = [line for line in out.splitlines() if line.startswith("{")]
    said = json.loads(lines[-1]) if lines else {}
    return Cost(sampler.cpu, wall, sampler.peak_rss, sampler.peak_private, said)

"""Starts programs and kills them as ``kill -9`` does: all of them, their JVM, their slots, their helpers."""

from __future__ import annotations

import multiprocessing
import os
import random
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PATIENCE = 180.0
_SWEEPS = 1_000
_THREADS = 17
"""The place of the number of threads in what ``_stat`` returns."""
_LAST_WORDS_SECONDS = 1.0

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    [
        *("penstock", "penstock.engine.local", "penstock.query.committed", "penstock.storage.opening"),
        *("penstock.dsl.aggregates", "penstock.dsl.cogrouped", "penstock.dsl.windowed", "penstock.engine.commit.loop"),
    ]
)


class _Forked:
    """A program in a process that has already imported Penstock, which is most of a start's time; it has the interface
    of ``subprocess.Popen``.
    """

    def __init__(self, command: list[str], environment: dict[str, str]):
        (out, out_end), (err, err_end) = (_forks.Pipe(duplex=False) for _ in range(2))
        self._process = _forks.Process(target=_run, args=(command, environment, out_end, err_end), daemon=True)
        self._process.start()
        out_end.close()
        err_end.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.stdout, self.stderr = (os.fdopen(os.dup(end.fileno())) for end in (out, err))

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> None:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("program", timeout)


def _run(command: list[str], environment: dict[str, str], out: Connection, err: Connection) -> None:
    """Run as a separate program."""
    os.setsid()
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")


def _started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *command], start_new_session=True, env=environment, **pipes)


class Program:
    """One start of a program, in a new session. It prints a line for each commit.

    Args:
        command: a Python file and its arguments.
        is_forked: whether it runs in a process that has already imported Penstock. Not for programs on Spark, whose
            processes are recognised by their command lines.
        environment: variables in addition to those of this process.
    """

    def __init__(self, command: list[str], is_forked: bool = False, **environment: str):
        start = _Forked if is_forked else _started
        self._process = start(command, {**os.environ, **environment})
        self.lines: list[str] = []
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._collect, args=(stream, lines), daemon=True)
            for stream, lines in ((self._process.stdout, self.lines), (self._process.stderr, self._errors))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _collect(stream: Any, lines: list[str]) -> None:
        lines.extend(iter(stream.readline, ""))

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        return self._process.returncode

    def wait_for_commits(self, count: int) -> None:
        while self.is_running and len(self.lines) < count:
            time.sleep(0.005)

    def wait_until_stopped(self) -> int:
        """Wait until one of its processes is stopped by ``PENSTOCK_STOP_AT``. Return its number."""
        for _ in range(int(PATIENCE / 0.02)):
            assert self.is_running, f"it ended before it stopped: {self.errors()}"
            for pid in [self._process.pid, *_descendants(self._process.pid, _is_slot)]:
                if is_stopped(pid):
                    return pid
            time.sleep(0.02)
        raise AssertionError(f"nothing stopped after {self.lines[-1:]}")

    def processes(self, kind: str) -> list[int]:
        """Return its processes of a kind: the driver, the JVM, the slots, a cluster's executors, daemons of slots, or
        helpers (all others).
        """
        pid = self._process.pid
        return [pid] if kind == "driver" else _descendants(pid, _IS[kind])

    def pause(self) -> None:
        """Stop all its processes, like a machine that is suspended."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self, kind: str, rng: random.Random) -> bool:
        """Kill the driver, the JVM or one of the slots. Return whether there was one."""
        found = self.processes(kind)
        if not found:
            return False
        try:
            os.kill(rng.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def wait(self, tidy: bool = True, patience: float = PATIENCE) -> bool:
        """Wait for its end, by itself or by a kill. Return whether it had done everything.

        Args:
            tidy: whether processes that it leaves behind are killed too.
            patience: after how many seconds it counts as hanging.
        """
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill_what_is_left()
            raise AssertionError(f"it hangs after {self.lines[-1:]}:\n{self.errors()}") from None
        code = self._process.returncode
        if tidy:
            self.kill_what_is_left()
        for reader in self._readers:  # processes left behind may still hold its outputs open
            reader.join(_LAST_WORDS_SECONDS)
        assert code in (0, 1, -signal.SIGKILL), self.errors()
        return code == 0

    def errors(self) -> str:
        return "".join(self._errors)

    def kill_what_is_left(self) -> None:
        """Kill all processes of its session. A JVM without a driver ends by itself later, and is not waited for."""
        session = b"%d" % self._process.pid
        if self.is_running:  # it may not have made its session yet
            os.kill(self._process.pid, signal.SIGKILL)
        for _ in range(_SWEEPS):  # the processes just killed may have started others
            found = [pid for pid in _all() if (stat := _stat(pid))[3:4] == [session] and not _is_over(stat)]
            if not found:
                return
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def _is_over(stat: list[bytes]) -> bool:
    """Return whether a process has ended with all its threads: until the last one ends, its sockets stay open."""
    return stat[0] == b"Z" and int(stat[_THREADS]) <= 1


def own(kind: str) -> list[int]:
    """Return the processes of a kind among the descendants of this one."""
    return _descendants(os.getpid(), _IS[kind])


def started_by(pid: int) -> list[int]:
    """Return all descendants of a process."""
    return _descendants(pid, lambda one: True)


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped until it gets ``SIGCONT``."""
    return _stat(pid)[:1] == [b"T"]


# --- processes ----------------------------------------------------------------------------------------------------


def kill_all_with(word: str) -> int:
    """Kill all descendants of this process with a word in their command or environment."""

    def fits(pid: int) -> bool:
        return pid != os.getpid() and word.encode() in _read(pid, "cmdline") + _read(pid, "environ")

    found = _descendants(os.getpid(), fits)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return len(found)


def _is_jvm(pid: int) -> bool:
    words = _read(pid, "cmdline").split(b"\0")
    return words[0].endswith(b"java") and b"org.apache.spark.deploy.SparkSubmit" in words


def _is_executor(pid: int) -> bool:
    words = _read(pid, "cmdline").split(b"\0")
    return words[0].endswith(b"java") and any(b"CoarseGrainedExecutorBackend" in word for word in words)


def _is_forked(pid: int) -> bool:
    return b"pyspark.daemon" in _read(pid, "cmdline")


def _is_slot(pid: int) -> bool:
    """Whether it is a slot, of Spark or without it."""
    return (_is_forked(pid) and b"PENSTOCK_SLOT=" in _read(pid, "environ")) or _is_slot_without_spark(pid)


def _is_of_fork_server(pid: int) -> bool:
    """Whether it is a fork server of slots without Spark, or forked by one."""
    return b"penstock.engine.slots.fork_server\0" in _read(pid, "cmdline")


def _is_slot_without_spark(pid: int) -> bool:
    return _is_of_fork_server(pid) and _is_of_fork_server(_parent(pid))


def _is_daemon(pid: int) -> bool:
    """Whether it forks slots: Spark's daemon, or the fork server without Spark."""
    parent = _parent(pid)
    return any(fits(pid) and not fits(parent) for fits in (_is_forked, _is_of_fork_server))


def _is_helper(pid: int) -> bool:
    return not (_is_jvm(pid) or _is_executor(pid) or _is_forked(pid) or _is_of_fork_server(pid))


_IS = {"jvm": _is_jvm, "executor": _is_executor, "slot": _is_slot, "daemon": _is_daemon, "helper": _is_helper}


def _descendants(pid: int, fits: Callable[[int], bool]) -> list[int]:
    """Return the descendants of a process of one kind."""
    children: dict[int, list[int]] = {}
    for one in _all():
        children.setdefault(_parent(one), []).append(one)
    family = [pid]
    for one in family:
        family += children.get(one, [])
    return [one for one in family[1:] if fits(one)]


def _all() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else -1


def _stat(pid: int) -> list[bytes]:
    """Return state, parent, process group, session and more of a process; empty if it does not exist."""
    return _read(pid, "stat").rpartition(b") ")[2].split()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""

"""Kills programs as ``kill -9`` does, again and again, and looks at what they leave behind."""

from __future__ import annotations

import multiprocessing
import os
import random
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import program

from penstock import Topology
from penstock.engine.coordinator import Coordinator
from penstock.log.file.log import FileLog
from penstock.query.committed import committed_store
from penstock.storage import LocalStorage

_PROGRAM = Path(program.__file__)
_MOST_STARTS = 200
_PATIENCE = 180


def prepared(folder: Path, count: int, script: Path = _PROGRAM) -> Path:
    """A folder with the input topics."""
    subprocess.run([sys.executable, str(script), str(folder), "--fill", str(count)], check=True)
    return folder


def copy_of(base: Path, folder: Path) -> Path:
    """Another folder with the same input topics, and nothing done with them."""
    shutil.copytree(base / "log", folder / "log")
    return folder


def outcome(folder: Path, topology: Topology | None = None) -> dict[str, Any]:
    """Everything that a program put out, record for record, and what its stores hold."""
    topology, log = topology or program.two_stages(), FileLog(folder / "log")
    found: dict[str, Any] = {}
    for topic in topology.sink_topics:
        for partition, end in enumerate(log.end_offsets(topic)):
            pieces = list(log.read(topic, partition, 0, end))
            columns = [
                [key for piece in pieces for key in piece.key.to_pylist()],
                [value for piece in pieces for value in piece.value.to_pylist()],
                [time for piece in pieces for time in piece.timestamp.tolist()],
            ]
            found[f"{topic}[{partition}]"] = list(zip(*columns, strict=True))
    storage = LocalStorage(folder / "state" / "checkpoint")
    coordinator = Coordinator(topology, program.APPLICATION, program.settings(folder), log, storage)
    for spec in topology.facts.stores.values():
        with committed_store(coordinator, spec.name) as store:
            found[spec.name] = sorted(store.all(), key=str)
    found["offsets"] = coordinator.offsets()
    found["figures"] = coordinator.manifest.metrics
    return found


_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["penstock", "penstock.engine.local", "penstock.query.committed"])


class _Forked:
    """A program in a process that has imported Penstock already, which is most of the time of a start; it has the face
    of ``subprocess.Popen``."""

    def __init__(self, arguments: list[str], environment: dict[str, str]):
        (out, out_end), (err, err_end) = (_forks.Pipe(duplex=False) for _ in range(2))
        self._process = _forks.Process(target=_run, args=(arguments, environment, out_end, err_end))
        self._process.start()
        out_end.close()
        err_end.close()
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


def _run(arguments: list[str], environment: dict[str, str], out: Connection, err: Connection) -> None:
    """Be a program of its own."""
    os.setsid()
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


def _started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    )


class Program:
    """One start of the program."""

    def __init__(self, folder: Path, mode: str, script: Path = _PROGRAM, **environment: str):
        command, environ = [str(script), str(folder), mode], {**os.environ, **environment}
        self._process = (
            _Forked(command, environ) if mode != "--spark" else _started([sys.executable, *command], environ)
        )
        self.lines: list[str] = []
        self._errors: list[str] = []
        for stream, lines in ((self._process.stdout, self.lines), (self._process.stderr, self._errors)):
            threading.Thread(target=self._collect, args=(stream, lines), daemon=True).start()

    @staticmethod
    def _collect(stream: Any, lines: list[str]) -> None:
        lines.extend(iter(stream.readline, ""))

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for_commits(self, count: int) -> None:
        while self.is_running and len(self.lines) < count:
            time.sleep(0.005)

    def wait_until_stopped(self) -> int:
        """Wait until one of its processes is stopped, as ``PENSTOCK_STOP_AT`` does it; which one."""
        for _ in range(int(_PATIENCE / 0.02)):
            assert self.is_running, f"it ended before it stopped: {self.errors()}"
            for pid in [self._process.pid, *_descendants(self._process.pid, _is_forked)]:
                if _read(pid, "stat").rpartition(b") ")[2].startswith(b"T"):
                    return pid
            time.sleep(0.02)
        raise AssertionError(f"nothing stopped after {self.lines[-1:]}")

    def processes(self, kind: str) -> list[int]:
        """Its processes of a kind: the driver, the JVM, the slots, their daemons, or helpers: all others."""
        pid = self._process.pid
        return [pid] if kind == "driver" else _descendants(pid, _IS[kind])

    def pause(self) -> None:
        """Stop all its processes, as a machine does that is suspended."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    def kill(self, kind: str, rng: random.Random) -> bool:
        """Kill the driver, the JVM or one of the slots; whether there was one."""
        found = self.processes(kind)
        if not found:
            return False
        try:
            os.kill(rng.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def wait(self, tidy: bool = True, patience: float = _PATIENCE) -> bool:
        """Wait for its end, by itself or by the kill; whether it had done everything.

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
        assert code in (0, 1, -signal.SIGKILL), "".join(self._errors)
        return code == 0

    def errors(self) -> str:
        return "".join(self._errors)

    def kill_what_is_left(self) -> None:
        """A JVM whose driver is gone ends by itself, some time later; the test does not wait for it."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run_to_the_end(folder: Path, mode: str, kinds: list[str], kills: int, seed: int, script: Path = _PROGRAM) -> int:
    """Start the program until it ends by itself, killing parts of it at random moments; how often it was killed."""
    rng = random.Random(seed)
    killed = 0
    for _ in range(_MOST_STARTS):
        running = Program(folder, mode, script)
        if killed < kills:
            killed += _kill_some(running, rng, kinds, kills - killed, 1.0 if mode == "--spark" else 0.03)
        if running.wait():
            return killed
    raise AssertionError(f"not done after {_MOST_STARTS} starts")


def _kill_some(running: Program, rng: random.Random, kinds: list[str], most: int, seconds: float) -> int:
    """Kill slots now and then, for as long as the program lives; a driver or a JVM once, which ends it.

    Commits are counted rather than seconds: so that a fast machine has not done everything before all kills came.
    """
    kind = rng.choice(kinds)
    if kind != "driver" or rng.random() < 0.8:  # now and then a driver dies while it starts
        running.wait_for_commits(rng.randint(1, 3))
    time.sleep(rng.uniform(0, seconds))
    if kind != "slot":
        return int(running.is_running and running.kill(kind, rng))
    killed = 0
    while running.is_running and killed < most:
        killed += running.kill("slot", rng)
        time.sleep(rng.uniform(0.2, 1.2))
    return killed


def run_with_crashes_at(folder: Path, mode: str, points: Sequence[str], count: int, script: Path = _PROGRAM) -> None:
    """Have the first process that comes to each of the named points for the so-many-th time killed there, one start
    after the other; then to the end."""
    markers = {point: folder / f"{point}-{count}" for point in points}
    at = ",".join(f"{point}:{count}:{marker}" for point, marker in markers.items())
    for _ in range(_MOST_STARTS):
        if Program(folder, mode, script, PENSTOCK_CRASH_AT=at).wait():
            missed = [point for point, marker in markers.items() if not marker.exists()]
            assert not missed, f"no process came to these points {count} times: {', '.join(missed)}"
            return
    raise AssertionError(f"not done after {_MOST_STARTS} starts")


# --- processes ----------------------------------------------------------------------------------------------------


def _is_jvm(pid: int) -> bool:
    words = _read(pid, "cmdline").split(b"\0")
    return words[0].endswith(b"java") and b"org.apache.spark.deploy.SparkSubmit" in words


def kill_all_with(word: str) -> int:
    """Kill all processes that this one and its children started with a word in their command or environment."""

    def fits(pid: int) -> bool:
        return pid != os.getpid() and word.encode() in _read(pid, "cmdline") + _read(pid, "environ")

    found = _descendants(os.getpid(), fits)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return len(found)


def _is_forked(pid: int) -> bool:
    return b"pyspark.daemon" in _read(pid, "cmdline")


def _is_slot(pid: int) -> bool:
    return _is_forked(pid) and b"PENSTOCK_SLOT=" in _read(pid, "environ")


def _is_daemon(pid: int) -> bool:
    return _is_forked(pid) and not _is_forked(_parent(pid))


def _is_helper(pid: int) -> bool:
    return not (_is_jvm(pid) or _is_forked(pid))


_IS = {"jvm": _is_jvm, "slot": _is_slot, "daemon": _is_daemon, "helper": _is_helper}


def _descendants(pid: int, fits: Callable[[int], bool]) -> list[int]:
    """The processes that a process started, and those that these started, of one kind."""
    children: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        children.setdefault(_parent(int(entry)), []).append(int(entry))
    family = [pid]
    for one in family:
        family += children.get(one, [])
    return [one for one in family[1:] if fits(one)]


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b") ")[2].split()
    return int(fields[1]) if fields else -1


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""

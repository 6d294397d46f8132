"""Hosts slots in processes of this machine, without Spark.

When a job ends, its processes stay, with their databases open, and are the slots of the next job. If a process ends in
any way, its job has failed, and the next job gets a new process in its place. All processes end with the driver: each
of them reads a pipe of the driver's that breaks then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from pathlib import Path

import msgspec

import penstock
from penstock.engine.slots.links import Address
from penstock.engine.slots.placement import Executor
from penstock.engine.slots.process import IGNORED, Start

ENVIRONMENT = {
    # numpy and Arrow use arrays of some hundred kilobytes: without this glibc maps and unmaps each of them
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    # there are as many slots as cores
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Variables of every slot's process."""

_LOCALHOST = "127.0.0.1"
_CLOSE_SECONDS = 2.0
"""How long processes may take to end before they are killed."""


class SlotProcess:
    """A process that is a slot, of one job after the other.

    Args:
        output: the descriptor that its output goes to.
    """

    def __init__(self, slot: int, output: int):
        self.slot = slot
        self._connection, theirs = Pipe()
        command = [sys.executable, "-P", "-u", "-m", "penstock.engine.slots.process", str(theirs.fileno())]
        with _signals_held():
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # nobody writes: it breaks with this process
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env=_environment(slot),
            )
        theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def serve(self, start: Start, program: bytes) -> str:
        """Have it be its slot in a job until that ends. Return why it could not, or how the process ended, or ""."""
        try:
            self._connection.send_bytes(msgspec.json.encode(start))
            self._connection.send_bytes(program)
            failure = self._connection.recv_bytes().decode()
        except (EOFError, OSError):
            failure = f"the process of slot {self.slot} ended {self._how()}"
        if failure:  # it ends; the next job gets another one
            self.kill()
        return failure

    def _how(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_SECONDS)
        code = self._process.returncode
        return "" if code is None else f"by signal {-code}" if code < 0 else f"with code {code}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self, until: float) -> None:
        """Let an idle process end, and kill it at that time of the monotonic clock."""
        self._connection.close()
        assert self._process.stdin is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(until - time.monotonic(), 0))
        self.kill()
        self._process.stdin.close()


@contextmanager
def _signals_held() -> Iterator[None]:
    """The context in which a process starts that takes no signals until it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _environment(slot: int) -> dict[str, str]:
    """Return the variables of a slot's process. It imports Penstock from where this process has it."""
    folders = [*filter(None, [os.environ.get("PYTHONPATH")]), str(Path(penstock.__file__).parents[1])]
    return {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(folders), "PENSTOCK_SLOT": f"slot-{slot}"}


class SlotProcesses:
    """The processes of an application's slots."""

    def __init__(self) -> None:
        self._processes: list[SlotProcess] = []
        self._output: int | None = None

    def at_least(self, slots: int) -> list[SlotProcess]:
        """Start or replace processes, so that each of so many slots has one. Return these."""
        for slot in range(slots):
            if slot == len(self._processes):
                self._processes.append(SlotProcess(slot, self._pipe()))
            elif not self._processes[slot].is_alive:
                self._processes[slot] = SlotProcess(slot, self._pipe())
        return self._processes[:slots]

    def _pipe(self) -> int:
        """Return the descriptor for the output of processes, which this process prints."""
        if self._output is None:
            read, self._output = os.pipe()
            threading.Thread(target=_print, args=(read,), name="penstock-slots-output", daemon=True).start()
        return self._output

    def close(self) -> None:
        """End all processes, which are idle."""
        until = time.monotonic() + _CLOSE_SECONDS
        for process in self._processes:
            process.close(until)
        self._processes.clear()
        if self._output is not None:
            os.close(self._output)
            self._output = None


def _print(read: int) -> None:
    """Pass on what slots print, line by line, so that it neither runs into a progress bar nor misses a notebook."""
    with open(read, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            sys.stderr.write(line)
            sys.stderr.flush()


class ProcessHost:
    """Starts the application's slots in processes of this machine.

    Args:
        program: the program for the slots, packed by ``shipping``.
    """

    name = bind = _LOCALHOST
    why_late = "this machine is too busy, or has too little memory for them; end other work, or start with fewer slots"

    def __init__(self, processes: SlotProcesses, program: bytes, slots: int):
        self.slots = slots
        self._processes = processes
        self._program = program

    @property
    def homes(self) -> list[Executor]:
        return []

    @property
    def followers(self) -> Mapping[int, int]:
        return {}

    def copied(self, slot: int) -> None:
        """There are no copies."""

    def avoid(self, slot: int) -> None:
        """There is no other machine."""

    def leave(self, slot: int) -> bool:
        return False

    def check(self) -> None:
        """This machine is there."""

    def has_moved(self) -> bool:
        return False

    def coming(self) -> int:
        return self.slots

    def why_none(self) -> str:
        return ""

    def start(self, run: str, number: int, address: Address, seconds: float, on_end: Callable[[], None]) -> ProcessJob:
        processes = self._processes.at_least(self.slots)
        starts = [Start(run, number, one.slot, *address, seconds) for one in processes]
        return ProcessJob(processes, starts, self._program, on_end)

    def close(self) -> None:
        """The processes belong to the engine."""


class ProcessJob:
    """One job of the slots: it has ended when all of them have, or one has failed."""

    def __init__(self, processes: list[SlotProcess], starts: list[Start], program: bytes, on_end: Callable[[], None]):
        self.number = starts[0].job
        self.failure = ""
        self._on_end = on_end
        self._left = len(processes)
        self._has_ended = threading.Event()
        self._ending = threading.Lock()
        self._serving = {
            process: threading.Thread(target=self._serve, args=(process, start, program), daemon=True)
            for process, start in zip(processes, starts, strict=True)
        }
        for thread in self._serving.values():
            thread.start()

    @property
    def has_ended(self) -> bool:
        return self._has_ended.is_set()

    def end(self, patience: float) -> None:
        # where no slot has failed, its caller has waited already
        until = time.monotonic() + (patience if self.has_ended else 0)
        for process, thread in self._serving.items():
            thread.join(max(until - time.monotonic(), 0))
            if thread.is_alive():
                process.kill()
            thread.join()

    def _serve(self, process: SlotProcess, start: Start, program: bytes) -> None:
        failure = process.serve(start, program)
        with self._ending:
            self._left -= 1
            is_over = not self.has_ended and (bool(failure) or not self._left)
            if is_over:
                self.failure = failure
                self._has_ended.set()
        if is_over:
            self._on_end()

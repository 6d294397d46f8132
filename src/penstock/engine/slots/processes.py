"""Hosts slots in processes of this machine, without Spark.

When a job ends, its processes stay, with their databases open, and are the slots of the next job. If a process ends in
any way, its job has failed, and the next job gets a new process in its place. All processes end with the driver.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence

from penstock.engine.slots.forked import ForkServer, SlotProcess
from penstock.engine.slots.links import Address
from penstock.engine.slots.process import Start
from penstock.engine.slots.sessions import Host

_LOCALHOST = "127.0.0.1"
_CLOSE_SECONDS = 2.0
"""How long processes may take to end before they are killed."""


class SlotProcesses:
    """The processes of an application's slots."""

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._processes: list[SlotProcess] = []
        self._output: int | None = None

    def begin(self) -> ForkServer:
        """Start or replace the process that forks them. Return it."""
        if self._server is None or not self._server.is_alive:
            self._server = ForkServer(self._pipe())
        return self._server

    def at_least(self, slots: int, imports: Sequence[str]) -> list[SlotProcess]:
        """Start or replace processes, so that each of so many slots has one. Return these.

        Args:
            imports: the modules that new processes begin with, beside those of every slot.
        """
        for slot in range(slots):
            if slot == len(self._processes):
                self._processes.append(self.begin().fork(slot, imports))
            elif not self._processes[slot].is_alive:
                self._processes[slot] = self.begin().fork(slot, imports)
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
        if self._server is not None:
            self._server.close(until)
            self._server = None
        if self._output is not None:
            os.close(self._output)
            self._output = None


def _print(read: int) -> None:
    """Pass on what slots print, line by line, so that it neither runs into a progress bar nor misses a notebook."""
    with open(read, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            sys.stderr.write(line)
            sys.stderr.flush()


class ProcessHost(Host):
    """Starts the application's slots in processes of this machine.

    Args:
        program: the program for the slots, packed by ``shipping``.
        imports: the modules that it needs beside those of every slot.
    """

    name = bind = _LOCALHOST
    why_late = "this machine is too busy, or has too little memory for them; end other work, or start with fewer slots"

    def __init__(self, processes: SlotProcesses, program: bytes, slots: int, imports: Sequence[str]):
        self.slots = slots
        self._processes = processes
        self._program = program
        self._imports = imports

    def coming(self) -> int:
        return self.slots

    def start(self, run: str, number: int, address: Address, seconds: float, on_end: Callable[[], None]) -> ProcessJob:
        processes = self._processes.at_least(self.slots, self._imports)
        starts = [Start(run, number, one.slot, *address, seconds) for one in processes]
        return ProcessJob(processes, starts, self._program, on_end)


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

"""The processes of slots without Spark, as the driver sees them: their fork server, and one object for each process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from pathlib import Path
from queue import SimpleQueue
from socket import SHUT_WR, socket

import msgspec

import penstock
from penstock.engine.slots.environment import ENVIRONMENT
from penstock.engine.slots.fork_server import IGNORED, Ended, Fork, Forked, Kill, NotForked
from penstock.engine.slots.process import Start
from penstock.values.decoding import json_decoder

_ONE_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Variables of the fork server: Arrow's jemalloc, which it does not use, starts no thread."""
_ANSWERS = json_decoder(Forked | NotForked | Ended)
_MAIN = ["-m", "penstock.engine.slots.fork_server"]


class SlotProcess:
    """A process that is a slot, of one job after the other.

    Args:
        connection: the driver's end of its connection.
    """

    def __init__(self, slot: int, server: ForkServer, connection: Connection):
        self.slot = slot
        self._server = server
        self._connection = connection
        self._pid: int | None = None
        self._known = threading.Event()
        """Set when it has started, or never will."""
        self._ended = threading.Event()
        self._how = ""

    def started(self, pid: int) -> None:
        """Record its number."""
        self._pid = pid
        self._known.set()

    def ended(self, how: str) -> None:
        """Record how it ended."""
        self._how = how
        self._ended.set()
        self._known.set()

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set()

    def serve(self, start: Start, program: bytes) -> str:
        """Have it be its slot in a job until that ends. Return why it could not, or how the process ended, or ""."""
        try:
            self._connection.send_bytes(msgspec.json.encode(start))
            self._connection.send_bytes(program)
            failure = self._connection.recv_bytes().decode()
        except (EOFError, OSError):
            self.kill()  # it has ended, but for what takes the system some time
            failure = f"the process of slot {self.slot} ended {self._how}"
        if failure:  # it ends; the next job gets another one
            self.kill()
        return failure

    def kill(self) -> None:
        self._known.wait()
        if self._pid is not None and self.is_alive:
            self._server.kill(self._pid)
        self._ended.wait()

    def close(self, until: float) -> None:
        """Let an idle process end, and kill it at that time of the monotonic clock."""
        self._connection.close()
        self._ended.wait(max(until - time.monotonic(), 0))
        self.kill()


class ForkServer:
    """The process that forks the slots of an application.

    Args:
        output: the descriptor that its output and that of its slots goes to.
    """

    def __init__(self, output: int):
        self._connection, theirs = Pipe()
        command = [sys.executable, "-P", "-u", *_MAIN, str(theirs.fileno())]
        with _signals_held():
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env=_environment(),
            )
        theirs.close()
        self._forked: SimpleQueue[SlotProcess] = SimpleQueue()
        self._running: dict[int, SlotProcess] = {}
        self._sending = threading.Lock()
        self._is_lost = False
        self._listening = threading.Thread(target=self._listen, name="penstock-fork-server", daemon=True)
        self._listening.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return not self._is_lost

    def fork(self, slot: int, imports: Sequence[str]) -> SlotProcess:
        """Start the process of a slot, which has these modules imported."""
        ours, theirs = Pipe()
        process = SlotProcess(slot, self, ours)
        with self._sending:
            if self._is_lost:
                process.ended(self._how())
            else:
                self._forked.put(process)
                with suppress(OSError):  # it has just been lost; the listener says so to the process
                    self._connection.send_bytes(msgspec.json.encode(Fork(slot, list(imports))))
                    send_handle(self._connection, theirs.fileno(), self.pid)
        theirs.close()
        return process

    def kill(self, pid: int) -> None:
        """Kill a process that has been forked."""
        with self._sending, suppress(OSError):  # if the server is lost, so are its processes
            self._connection.send_bytes(msgspec.json.encode(Kill(pid)))

    def close(self, until: float) -> None:
        """End it when all of its slots have ended, and kill it at that time of the monotonic clock."""
        with socket(fileno=os.dup(self._connection.fileno())) as shared, suppress(OSError):
            shared.shutdown(SHUT_WR)  # a thread reads from it, so to close it would tell nobody
        self._listening.join(max(until - time.monotonic(), 0))
        self._process.kill()
        self._listening.join()
        self._connection.close()

    def _listen(self) -> None:
        """Tell each process when it has started and when it has ended, until the server ends."""
        with suppress(EOFError, OSError):
            while True:
                notice = _ANSWERS.decode(self._connection.recv_bytes())
                if isinstance(notice, Forked):
                    self._running[notice.pid] = process = self._forked.get()
                    process.started(notice.pid)
                elif isinstance(notice, NotForked):
                    self._forked.get().ended(f"before it began: {notice.why}")
                else:
                    self._running.pop(notice.pid).ended(_ended(notice.code))
        self._process.wait()
        with self._sending:
            self._is_lost = True
            for pid, process in self._running.items():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # it ends anyway, as soon as it notices
                process.ended(self._how())
            while not self._forked.empty():
                self._forked.get().ended(self._how())

    def _how(self) -> str:
        """Return how slots ended when it did."""
        return f"with its fork server, which ended {_ended(self._process.returncode)}"


def _ended(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with code {code}"


@contextmanager
def _signals_held() -> Iterator[None]:
    """The context in which a process starts that takes no signals until it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _environment() -> Mapping[str, str]:
    """Return the variables of the processes. They import Penstock from where this process has it."""
    folders = [*filter(None, [os.environ.get("PYTHONPATH")]), str(Path(penstock.__file__).parents[1])]
    return {**os.environ, **ENVIRONMENT, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(folders)}

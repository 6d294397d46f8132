"""The process that forks the slots of a program without Spark: Penstock is imported once for all of them.

python -m penstock.engine.slots.fork_server DESCRIPTOR

A fork copies a process as it is, also the locks that its other threads hold. So this process has one thread, runs none
of the user's code, and opens nothing. Numba and the rules that a program needs are loaded before the first fork.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle

import msgspec

from penstock.values.decoding import json_decoder

FORKS_WITH_MODULES = sys.platform == "linux"
"""Whether slots get the imported modules of this process. On macOS, libraries that NumPy loads do not survive a fork,
so each slot imports on its own.
"""
IGNORED = (signal.SIGINT, signal.SIGTERM)
"""Signals that go to all processes of a terminal or a service; the driver ends slots in order."""


class Fork(msgspec.Struct, tag=True, frozen=True):
    """An order to fork a slot; the descriptor of its connection follows."""

    slot: int
    imports: list[str]
    """The modules to import before."""


class Kill(msgspec.Struct, tag=True, frozen=True):
    """An order to kill a forked process that has not ended."""

    pid: int


class Forked(msgspec.Struct, tag=True, frozen=True):
    """The answer to ``Fork``."""

    pid: int


class NotForked(msgspec.Struct, tag=True, frozen=True):
    """The answer to ``Fork`` when the system has no room for another process."""

    why: str


class Ended(msgspec.Struct, tag=True, frozen=True):
    """A notice that a forked process has ended.

    Attributes:
        code: its exit code, or the signal that ended it as a negative number.
    """

    pid: int
    code: int


_ORDERS = json_decoder(Fork | Kill)


class _Slot(msgspec.Struct, frozen=True):
    """The input of a slot's process."""

    number: int
    connection: Connection


class _Server:
    """Forks slots, and tells the driver when one of them ends."""

    def __init__(self, driver: Connection):
        self._driver = driver
        self._running: set[int] = set()
        self._lives, self._life = os.pipe()  # breaks when this process ends
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def run(self) -> _Slot | None:
        """Carry out the driver's orders until it ends. Return what to do in each forked process, and None in this
        one.
        """
        driver = self._driver.fileno()
        while True:
            ready, _, _ = select.select([driver, self._wakes], [], [])
            try:
                if self._wakes in ready:
                    os.read(self._wakes, 4096)
                    self._tell_ended()
                slot = self._carry_out(_ORDERS.decode(self._driver.recv_bytes())) if driver in ready else None
            except (EOFError, OSError):  # the driver has ended
                return None
            if slot is not None:
                return slot

    def _carry_out(self, order: Fork | Kill) -> _Slot | None:
        if isinstance(order, Kill):
            if order.pid in self._running:  # it is not reaped yet, so nobody else has its number
                os.kill(order.pid, signal.SIGKILL)
            return None
        descriptor = recv_handle(self._driver)
        if FORKS_WITH_MODULES:
            for name in order.imports:
                with suppress(Exception):  # the slot fails in the same way, and the driver hears of it
                    import_module(name)
        gc.collect()
        gc.freeze()  # a collection in a slot leaves these objects alone, so their memory stays shared
        try:
            pid = os.fork()
        except OSError as error:
            os.close(descriptor)
            self._tell(NotForked(str(error)))
            return None
        if not pid:
            self._leave()
            return _Slot(order.slot, Connection(descriptor))
        os.close(descriptor)
        self._running.add(pid)
        self._tell(Forked(pid))
        return None

    def _leave(self) -> None:
        """Close what belongs to the server, in a forked process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (self._wakes, self._wake, self._life):
            os.close(descriptor)
        os.dup2(self._lives, sys.stdin.fileno())
        os.close(self._lives)
        self._driver.close()

    def _tell_ended(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._running.remove(pid)
            self._tell(Ended(pid, os.waitstatus_to_exitcode(status)))

    def _tell(self, notice: Forked | NotForked | Ended) -> None:
        self._driver.send_bytes(msgspec.json.encode(notice))


def main() -> None:
    """Fork slots until the driver ends; be one in a forked process."""
    for number in IGNORED:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)  # who started it has held them until now
    if FORKS_WITH_MODULES:
        import_module("penstock.engine.slots.process")
    slot = _Server(Connection(int(sys.argv[1]))).run()
    if slot is None:
        return
    os.environ["PENSTOCK_SLOT"] = f"slot-{slot.number}"
    from penstock.engine.slots.process import be_slot

    be_slot(slot.connection)


if __name__ == "__main__":
    main()

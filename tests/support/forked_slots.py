"""Slots in processes of their own without Spark: forked, as Spark's are, and lost as those are."""

from __future__ import annotations

import multiprocessing
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from penstock.engine.shipping.shipping import dumps, loads
from penstock.engine.slots import links
from penstock.engine.slots.links import Address
from penstock.engine.slots.placement import Executor
from penstock.engine.slots.sessions import Host
from penstock.engine.slots.slot import EXECUTOR_STATE_DIR, Place, Program, serve, serve_anywhere
from penstock.errors import SparkLostError

HALF_AN_ANSWER = "TESTS_HALF_AN_ANSWER"
"""A variable of slots: a file, and the number of the signal that the first of them sends itself in its first answer."""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["penstock", "penstock.engine.slots.slot", "penstock.engine.shipping.shipping"])


class ForkedHost(Host):
    """Starts slots as forks of this process.

    Attributes:
        environment: variables of the slots that are started from now on.
        is_gone: whether to say that the host is gone for good.
        replaces: whether a job goes on with new slots in place of lost ones, as those of a cluster do.
        has_numbers: whether slots know theirs; else they get them at the door, as under Spark Connect.
        spares: how many slots too many there are.
        late: the slots that wait until ``come`` has them come.
    """

    bind = name = "127.0.0.1"
    why_late = "they are late"
    followers: Mapping[int, int] = {}

    def __init__(self, slots: int = 2):
        self.slots = slots
        self.environment: dict[str, str] = {}
        self.is_gone = False
        self.replaces = False
        self.has_numbers = True
        self.spares = 0
        self.late: set[int] = set()
        self.moved = False
        self.machines: dict[int, Path] = {}
        """By slots the disk of the machine that they live on; none where they share the driver's."""
        self.left: list[Path] = []
        """The disks that were full."""
        self.copies: set[int] = set()
        """The slots whose copies have caught up."""
        self.jobs: list[ForkedJob] = []
        self.packed = b""

    @property
    def homes(self) -> dict[int, Executor]:
        return {slot: Executor(str(slot), disk.name) for slot, disk in self.machines.items()}

    def copied(self, slot: int) -> None:
        self.copies.add(slot)

    def prepare(self, program: Program) -> None:
        """Have slots run a program."""
        self.packed = dumps(program)

    def check(self) -> None:
        if self.is_gone:
            raise SparkLostError("gone")

    def leave(self, slot: int) -> bool:
        """Where a slot's disk is full it goes to the other machine, if that is not full, too."""
        left = self.machines[slot]
        self.left.append(left)
        others = [disk for disk in self.machines.values() if disk not in self.left]
        self.machines = {one: others[0] if disk == left and others else disk for one, disk in self.machines.items()}
        return bool(others)

    def has_moved(self) -> bool:
        moved, self.moved = self.moved, False
        return moved

    def start(self, run: str, number: int, address: Address, seconds: float, on_end: Callable[[], None]) -> ForkedJob:
        count = self.slots + self.spares
        places = [Place(run, number, slot) for slot in range(count) if slot not in self.late]
        self.jobs.append(ForkedJob(self, number, places, address, seconds, on_end))
        return self.jobs[-1]

    def come(self, slot: int) -> None:
        """Have a late slot of the present job come."""
        self.late.remove(slot)
        self.jobs[-1].come(slot)

    def coming(self) -> int:
        return len(self.jobs[-1].slots)

    def why_none(self) -> str:
        return "there is no room" if len(self.late) == self.slots else ""

    def close(self) -> None:
        for job in self.jobs:
            job.end(0)


class ForkedJob:
    """A process for each slot; when one is lost, so is the job, unless its host replaces it."""

    def __init__(
        self,
        host: ForkedHost,
        number: int,
        places: list[Place],
        address: Address,
        seconds: float,
        on_end: Callable[[], None],
    ):
        self.number = number
        self.failure = ""
        self._host = host
        self._given = address, seconds, host.packed
        self._places = places
        self.slots = [self._process(place) for place in places]
        self._over = threading.Event()
        threading.Thread(target=self._watch, args=(on_end,), daemon=True).start()

    def come(self, slot: int) -> None:
        self._places.append(self._places[0]._replace(slot=slot))
        self.slots.append(self._process(self._places[-1]))

    def _process(self, place: Place) -> Any:
        disk = self._host.machines.get(place.slot)
        own = {} if disk is None else {EXECUTOR_STATE_DIR: str(disk)}
        given = self._host.has_numbers, {**self._host.environment, **own}, *self._given
        process = _forks.Process(target=_be_slot, args=(place, *given), daemon=True)
        process.start()
        return process

    @property
    def has_ended(self) -> bool:
        return self._over.is_set()

    def end(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        for slot in self.slots:
            slot.join(max(deadline - time.monotonic(), 0))
            if slot.is_alive():
                slot.kill()
        self._over.wait()

    def pids(self) -> list[int]:
        return [slot.pid or 0 for slot in self.slots]

    def _watch(self, on_end: Callable[[], None]) -> None:
        while any(slot.is_alive() for slot in self.slots):
            lost = [number for number, slot in enumerate(self.slots) if slot.exitcode]
            if lost and not self._host.replaces:
                break
            for number in lost:
                self.slots[number] = self._process(self._places[number])
            time.sleep(0.005)
        if any(slot.exitcode for slot in self.slots):
            self.failure = f"slots ended with {[slot.exitcode for slot in self.slots]}"
        self._over.set()
        on_end()


class Nobody:
    """A job whose slots never come."""

    number = 99
    failure = ""
    has_ended = False

    def end(self, patience: float) -> None:
        pass


def _be_slot(
    place: Place, has_number: bool, environment: dict[str, str], address: Address, seconds: float, packed: bytes
) -> None:
    os.environ.update(environment)
    if HALF_AN_ANSWER in environment:
        file, number = environment[HALF_AN_ANSWER].split(":")
        _dies_or_sleeps_in_its_answer(file, int(number))
    if has_number:
        serve(place, address, lambda: loads(packed).on_executor(), seconds)
    else:
        serve_anywhere(place.run, place.job, address, seconds, lambda: loads(packed).on_executor())


def _dies_or_sleeps_in_its_answer(file: str, number: int) -> None:
    """Have the first slot to answer send half of that and then die, or sleep until somebody wakes it."""
    send = links.Link.send

    def send_half(self: links.Link, message: links.Order | links.Message) -> None:
        if isinstance(message, links.Done) and _is_first(file):
            data = msgspec.json.encode(message)
            os.write(self.fileno(), struct.pack("!i", len(data)) + data[: len(data) // 2])
            os.kill(os.getpid(), number)
        send(self, message)

    links.Link.send = send_half  # type: ignore[method-assign]


def _is_first(file: str) -> bool:
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def stop_and_go_on(pid: int, seconds: float) -> None:
    """Have a process sleep for a while."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass

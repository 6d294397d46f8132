"""Slots as sessions: one long job hosts them, orders and answers travel over a separate connection.

A slot that dies, stalls or sends nonsense is a lost attempt: all slots are abandoned, and the next attempt uses the
slots of a new job. Surviving processes come back with their databases open; for the others the host starts new
processes.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from penstock.engine.operate.restores import Restores
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.places import NOWHERE, SlotPlace, slot_of
from penstock.engine.shared.runner import LostWorkError, StageRunner
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.engine.slots.door import Door
from penstock.engine.slots.following import Following
from penstock.engine.slots.links import (
    NO_SLOT,
    Address,
    Alive,
    AtDisk,
    Close,
    Done,
    Failed,
    Followed,
    Hello,
    Link,
    LinkLostError,
    Message,
    Restoring,
    Seat,
    Work,
    readable,
)
from penstock.engine.slots.placement import Executor
from penstock.engine.slots.seating import seated
from penstock.engine.task.live import StoreAnswer, StoreQuestion
from penstock.faults import crash_point

_LOOK_SECONDS = 0.05
_DISK_SECONDS = 600.0
"""How long a slot may send nothing after reporting that it waits for its disk."""
_END_SECONDS, _ENDED_LOOK_SECONDS = 2.0, 0.005
_COME_SECONDS = 60.0
"""How long slots may take to start, at least: on a busy machine Python itself takes seconds."""


class Job(Protocol):
    """The running slots of one job."""

    number: int
    """Distinguishes the jobs of a run."""
    failure: str
    """Why it ended, if not because all slots have."""

    @property
    def has_ended(self) -> bool: ...

    def end(self, patience: float) -> None:
        """End the slots that are left, and wait so many seconds for them."""


class Host(Protocol):
    """Starts the processes of slots, and replaces them: Spark."""

    bind: str
    """The address of this machine at which slots can reach it."""
    name: str
    """The name under which they find it."""
    slots: int
    why_late: str
    """Why slots may not come, and what to do."""

    @property
    def homes(self) -> list[Executor]:
        """The executor of each slot; empty if all are on this machine."""

    @property
    def followers(self) -> Mapping[int, int]:
        """For each slot, the slot on another machine that follows it."""

    def copied(self, slot: int) -> None:
        """Record that the slot's follower has a copy of its state."""

    def avoid(self, slot: int) -> None:
        """Avoid the machine of a slot that was silent for too long, for a while."""

    def leave(self, slot: int) -> bool:
        """Avoid the machine of a slot, whose disk is full, for a while. Return whether there is another machine."""

    def check(self) -> None:
        """Raise ``SparkLostError`` when Spark is lost."""

    def has_moved(self) -> bool:
        """Return whether slots should move to other executors."""

    def start(self, run: str, number: int, address: Address, seconds: float, on_end: Callable[[], None]) -> Job:
        """Start a job of a run; ``on_end`` is called from another thread when it has ended."""

    def close(self) -> None:
        """Release the resources it keeps for slots."""


class _Asked:
    """The connection to a slot for questions; one at a time."""

    def __init__(self, link: Link):
        self._link = link
        self._asking = threading.Lock()

    def ask(self, question: StoreQuestion) -> StoreAnswer | None:
        """Return the answer; None if the slot is gone."""
        try:
            with self._asking:
                self._link.send(question)
                answer = self._link.message()
        except LinkLostError:
            return None
        return answer if isinstance(answer, StoreAnswer) else None


class SlotSessions(StageRunner):
    """Runs stages in the slots of a host.

    Args:
        restores: receives the progress of restores.
        timeout: how many seconds a slot may send nothing while it has an order.
        asks: whether slots also open a connection for questions, as in programs that run at least once.
    """

    def __init__(self, host: Host, application_id: str, restores: Restores, timeout: float, asks: bool = False):
        self.slots = host.slots
        self._host = host
        self.restores = restores
        self._timeout = timeout
        self._run = f"{application_id}-{os.urandom(6).hex()}"
        self._door = Door(host.bind, host.name, secrets.token_bytes(32), timeout)
        self._links: dict[int, Link] = {}
        self._guests: list[tuple[Link, Hello]] = []
        """Slots that came without a number: until all are there, and then those too many."""
        self._machines: dict[int, str] = {}
        """Where those were that got one."""
        self._asked: dict[int, _Asked] = {}
        self._asks = asks
        self._job: Job | None = None
        self._jobs = 0
        self._is_given_up = False
        self._following = Following({}, self.slots, host.copied)
        self.on_lost: Callable[[], None] = lambda: None
        """Called from another thread when the slots' job has ended, for any reason."""
        self.on_moved: Callable[[], None] = lambda: None
        """Called when a slot has made progress."""

    # --- orders --------------------------------------------------------------------------------------------------

    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        """Run all tasks of a stage.

        Raises:
            LostWorkError: a slot's process or its executor is gone or stalled, or failed without an answer.
            SparkLostError: Spark itself is gone.
        """
        try:
            if self._host.has_moved():
                self._close_slots()  # they hold databases that others will open
            self._come_together()
            return self._ordered(stage)
        except LinkLostError as error:
            reason = self._job.failure if self._job is not None and self._job.failure else str(error)
            self._let_go()
            self._host.check()
            self.restores.suspend()
            raise LostWorkError(reason) from error

    def follow(self, application: str, manifest: Manifest, changed: Iterable[str]) -> None:
        """Let copies on other machines apply a commit, in which some tasks took part.

        The driver does not wait for them. A lost slot is noticed with its next work.
        """
        self._following.note(application, manifest, changed)
        try:
            for slot, link in self._links.items():
                while link.has_more():
                    self._heard(link.message(), slot)
            for slot, order in self._following.due():
                self._links[slot].send(order)
        except LinkLostError:
            pass

    @property
    def places(self) -> list[SlotPlace]:
        """The place of each slot, by slot number."""
        homes = self._host.homes or [
            Executor(NOWHERE, self._machines.get(slot, self._host.name)) for slot in range(self.slots)
        ]
        copies = {slot: homes[self._host.followers[slot]].host for slot in self._following.copied}
        return [SlotPlace(home.id, home.host, copy=copies.get(slot, "")) for slot, home in enumerate(homes)]

    def give_up(self) -> None:
        """Turn the running stage into a lost attempt; from any thread."""
        self._is_given_up = True

    def check(self) -> None:
        """Replace lost slots before there is work for them. Raise ``SparkLostError`` if Spark is lost."""
        if self._has_failed():
            self._host.check()
            self._let_go()
            self.begin()

    def _ordered(self, stage: StageWork) -> list[TaskDone]:
        by_slot: dict[int, list[Any]] = {}
        for work in stage.tasks:
            by_slot.setdefault(slot_of(work.task, self.slots), []).append(work)
        waited_for: dict[Link, int] = {}
        for slot, works in by_slot.items():
            link = self._links[slot]
            link.heard = time.monotonic()
            link.send(Work(msgspec.structs.replace(stage, tasks=works)))
            waited_for[link] = slot
            crash_point("after-order")
        done: list[TaskDone] = []
        while waited_for:
            ready = readable(waited_for, _LOOK_SECONDS)
            self._check_wanted()
            if not ready and self._has_failed():
                raise LinkLostError("the job of the slots has ended")
            for link in ready:
                answer = self._heard(link.message(), waited_for[link])
                if answer is not None:
                    slot = waited_for.pop(link)
                    done += [self._checked(task, slot) for task in answer.tasks]
            self._check_not_stalled(waited_for)
        return done

    def _checked(self, done: TaskDone, slot: int) -> TaskDone:
        """Return the result of a task.

        If the disk of its slot's machine failed, the slot moves to another machine; if there is no other, the error
        names this one.
        """
        if not done.is_disk_full or not self._host.homes:
            return done
        machine = self._host.homes[slot].host
        if self._host.leave(slot):
            raise LinkLostError(f"slot {slot} leaves {machine}: {done.error.partition(';')[0]}")
        return msgspec.structs.replace(done, error=f"on {machine}: {done.error}")

    def _check_wanted(self) -> None:
        if self._is_given_up:
            raise LinkLostError("it was given up")

    def _heard(self, message: Message, slot: int) -> Done | None:
        """Process a slot's message. Return it if it is the answer to an order."""
        if not isinstance(message, Alive) or message.has_moved:
            self.on_moved()
        if isinstance(message, Done):
            return message
        if isinstance(message, AtDisk):
            self._links[slot].is_at_disk = message.is_there
        elif isinstance(message, Restoring):
            for step in message.steps:
                self.restores.hear(step)
        elif isinstance(message, Followed):
            self._following.heard(slot, message)
        elif not isinstance(message, Alive):
            said = message.reason if isinstance(message, Failed) else type(message).__name__
            raise LinkLostError(f"slot {slot} failed: {said}")
        return None

    def _check_not_stalled(self, waited_for: dict[Link, int]) -> None:
        """Raise ``LinkLostError`` for a slot that was silent for too long.

        Messages that came while this process itself was stopped count.
        """
        for link, slot in waited_for.items():
            patience = max(self._timeout, _DISK_SECONDS) if link.is_at_disk else self._timeout
            if time.monotonic() - link.heard > patience and not link.has_more():
                self._host.avoid(slot)
                where = "it waits for its disk" if link.is_at_disk else "slot_timeout"
                raise LinkLostError(
                    f"slot {slot} has said nothing for {patience:g} s ({where}): its process is stopped, or "
                    "its machine cannot be reached"
                )

    def ask(self, question: StoreQuestion) -> StoreAnswer:
        """Return the present content of a task's store, committed or not; from any thread, also while a stage runs."""
        slot = slot_of(question.task, self.slots)
        there = self._asked
        asked = there.get(slot)
        answer = None if asked is None else asked.ask(question)
        if answer is not None:
            return answer
        there.pop(slot, None)
        return StoreAnswer(False)

    # --- the slots -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the slots; they come up in the background."""
        if self._job is None:
            self._jobs += 1
            lost = self._tell_of_loss
            self._job = self._host.start(
                self._run, self._jobs, self._door.address, max(self._timeout, _COME_SECONDS), lost
            )
            self._following = Following(self._host.followers, self.slots, self._host.copied)

    def _tell_of_loss(self) -> None:
        self.on_lost()

    def _come_together(self) -> None:
        """Wait until all slots are there."""
        if self._are_together():
            return
        try:
            self.begin()
        except Exception as error:  # py4j raises many kinds of errors
            raise LinkLostError(f"the slots could not be started: {type(error).__name__}") from error
        patience = max(self._timeout, _COME_SECONDS)
        deadline = time.monotonic() + patience
        while not self._are_together():
            if readable([self._door], _LOOK_SECONDS):
                self._welcome()
            elif self._has_failed():
                raise LinkLostError("the job of the slots has ended")
            elif time.monotonic() > deadline:
                come = max(len(self._links), len(self._guests))
                raise LinkLostError(f"{come} of {self.slots} slots came within {patience:g} s: {self._host.why_late}")

    def _are_together(self) -> bool:
        return len(self._links) == self.slots and (not self._asks or len(self._asked) == self.slots)

    def _welcome(self) -> None:
        assert self._job is not None
        come = self._door.next()
        if come is None:
            return
        link, hello = come
        there = self._asked if hello.asks else self._links
        if hello.job != self._job.number or hello.slot in there:
            link.close()  # it belongs to an abandoned job
        elif hello.slot == NO_SLOT:
            self._guests.append(come)
            if len(self._guests) == self.slots and not self._links:
                self._seat()
        elif hello.asks:
            self._asked[hello.slot] = _Asked(link)
        else:
            self._links[hello.slot] = link

    def _seat(self) -> None:
        """Give all slots their numbers."""
        slots = seated([hello.had for _, hello in self._guests])
        for slot, (link, hello) in zip(slots, self._guests, strict=True):
            link.send(Seat(slot))
            self._links[slot] = link
            self._machines[slot] = hello.host
        self._guests.clear()

    def _has_failed(self) -> bool:
        return self._job is None or self._job.has_ended

    def _let_go(self, waits: bool = True) -> None:
        """Abandon the present slots; they end when they notice."""
        for link in [*self._links.values(), *(link for link, _ in self._guests)]:
            link.close()
        self._links.clear()
        self._guests.clear()
        self._asked = {}  # waiting callers get their answer, or hear that the slot is gone
        job, self._job = self._job, None
        if job is not None and waits:
            self._see_out(job)

    def _see_out(self, job: Job) -> None:
        """Wait for the slots of a job to end, and then end what is left.

        The host may still start replacements for lost slots of this job. They are turned away: otherwise they would
        wait to be accepted, and the job for them.
        """
        deadline = time.monotonic() + _END_SECONDS
        while not job.has_ended and time.monotonic() < deadline:
            if readable([self._door], _ENDED_LOOK_SECONDS) and (come := self._door.next()) is not None:
                come[0].close()
        job.end(_END_SECONDS)

    def _close_slots(self, waits: bool = True) -> None:
        """Make all slots close their state, and end."""
        try:
            for link in self._links.values():
                link.send(Close())
            for slot, link in self._links.items():
                while self._heard(link.message(), slot) is None:
                    pass
        except LinkLostError:  # a lost slot has closed already
            pass
        self._let_go(waits)

    def close(self, host_goes_on: bool = True) -> None:
        """Close all slots' state.

        Args:
            host_goes_on: whether the host must end the slots' job; otherwise the job ends with the host.
        """
        self._close_slots(host_goes_on)
        if host_goes_on:
            self._host.close()
        self._door.close()

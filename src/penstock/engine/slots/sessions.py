"""Slots as sessions: one long job hosts them, orders and answers travel over a separate connection.

Work begins when all slots for which there is room have come, or after ``_GRACE_SECONDS`` with some of them. They share
the tasks of the others until these come, between two commits.

A slot that dies, stalls or sends nonsense is a lost attempt: all slots are abandoned, and the next attempt uses the
slots of a new job. Surviving processes come back with their databases open; for the others the host starts new
processes.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from penstock.engine.operate.restores import Restores
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.places import NOWHERE, SlotPlace, slot_of
from penstock.engine.shared.runner import LostWorkError, StageRunner
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.engine.slots.arrivals import Arrivals
from penstock.engine.slots.door import Door
from penstock.engine.slots.following import Following
from penstock.engine.slots.links import (
    Address,
    Alive,
    AtDisk,
    Close,
    Done,
    Failed,
    Followed,
    LetGo,
    Link,
    LinkLostError,
    Message,
    Restoring,
    Work,
    readable,
)
from penstock.engine.slots.placement import Executor
from penstock.engine.slots.seating import shared_out
from penstock.engine.task.live import StoreAnswer, StoreQuestion
from penstock.errors import ConfigError, PenstockError
from penstock.faults import crash_point

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.05
_DISK_SECONDS = 600.0
"""How long a slot may send nothing after reporting that it waits for its disk."""
_END_SECONDS, _ENDED_LOOK_SECONDS = 2.0, 0.005
_COME_SECONDS = 60.0
"""How long slots may take to start, at least: on a busy machine Python itself takes seconds."""
_GRACE_SECONDS = 2.0
"""How long work waits for the rest of the slots when the first one has come."""
_NONE_SECONDS = 1.0
"""How long no slot may come before the host is asked whether one can."""


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
    """Starts the processes of slots, and replaces them: Spark. By default all that it knows is one machine."""

    bind: str
    """The address of this machine at which slots can reach it."""
    name: str
    """The name under which they find it."""
    slots: int

    @property
    @abstractmethod
    def why_late(self) -> str:
        """Why slots may not come, and what to do."""

    def room(self) -> int:
        """Return how many slots there is room for at this moment, or might be."""
        return self.slots

    def found(self, slots: Collection[int]) -> None:
        """Record that only these slots have come. They are where the host runs them."""
        return

    def coming(self) -> int:
        """Return how many slots have been started, whether they have come or not, as far as that is known."""
        return 0

    def why_none(self) -> str:
        """Return why no slot can come, and what to do; "" if one may still come."""
        return ""

    @property
    def homes(self) -> Mapping[int, Executor]:
        """The executor of each slot that has one; empty if all are on this machine."""
        return {}

    @property
    def followers(self) -> Mapping[int, int]:
        """For each slot, the slot on another machine that follows it."""
        return {}

    def copied(self, slot: int) -> None:
        """Record that the slot's follower has a copy of its state."""
        return

    def avoid(self, slot: int) -> None:
        """Avoid the machine of a slot that was silent for too long, for a while."""
        return

    def leave(self, slot: int) -> bool:
        """Avoid the machine of a slot, whose disk is full, for a while. Return whether there is another machine."""
        return False

    def check(self) -> None:
        """Raise ``SparkLostError`` when Spark is lost."""
        return

    def has_moved(self) -> bool:
        """Return whether slots should move to other executors."""
        return False

    @abstractmethod
    def start(self, run: str, number: int, address: Address, seconds: float, on_end: Callable[[], None]) -> Job:
        """Start a job of a run; ``on_end`` is called from another thread when it has ended."""

    def close(self) -> None:
        """Release the resources it keeps for slots."""
        return


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
        self._application_id = application_id
        self._timeout = timeout
        self._run = f"{application_id}-{os.urandom(6).hex()}"
        self._door = Door(host.bind, host.name, secrets.token_bytes(32), timeout)
        self._come = Arrivals(self._door, self.slots, asks)
        self._sharing: list[int] = []
        """For each slot, the one that has its tasks; empty while no slot is at work."""
        self._job: Job | None = None
        self._jobs = 0
        self._began = 0.0
        """When the newest job was started, by the monotonic clock."""
        self._cpu_seconds = 0.0
        self._is_given_up = False
        self._following = Following({}, self.slots, host.copied)
        self._copied_to: dict[int, str] = {}
        """By slot, the machine of the slot that follows it."""
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
            self._get_ready()
            return self._ordered(stage)
        except LinkLostError as error:
            reason = self._job.failure if self._job is not None and self._job.failure else str(error)
            self._let_go()
            self._host.check()
            self.restores.suspend()
            raise LostWorkError(reason) from error
        except PenstockError:
            raise
        except Exception:  # py4j raises many kinds of errors when Spark is lost
            self._host.check()
            raise

    def follow(self, application: str, manifest: Manifest, changed: Iterable[str]) -> None:
        """Let copies on other machines apply a commit, in which some tasks took part.

        The driver does not wait for them. A lost slot is noticed with its next work.
        """
        self._following.note(application, manifest, changed)
        try:
            for slot, link in self._come.links.items():
                while link.has_more():
                    self._heard(link.message(), slot)
            for slot, order in self._following.due():
                self._come.links[slot].send(order)
        except LinkLostError:
            pass

    @property
    def places(self) -> list[SlotPlace]:
        """The place of each slot, by slot number."""
        there = {slot: Executor(NOWHERE, self._come.machines.get(slot, self._host.name)) for slot in range(self.slots)}
        homes = there | dict(self._host.homes)
        copies = {slot: homes[self._host.followers[slot]].host for slot in self._following.copied}
        return [
            SlotPlace(homes[by].id, homes[by].host, copy=copies.get(slot, ""), shared_by=None if by == slot else by)
            for slot, by in enumerate(self._sharing or range(self.slots))
        ]

    @property
    def cpu_seconds(self) -> float:
        return self._cpu_seconds

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
            by_slot.setdefault(self._sharing[slot_of(work.task, self.slots)], []).append(work)
        waited_for: dict[Link, int] = {}
        for slot, works in by_slot.items():
            link = self._come.links[slot]
            link.heard = time.monotonic()
            link.send(Work(msgspec.structs.replace(stage, tasks=works), self._shares_of(slot)))
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

    def _shares_of(self, slot: int) -> list[int]:
        return [one for one, by in enumerate(self._sharing) if by == slot]

    def _checked(self, done: TaskDone, slot: int) -> TaskDone:
        """Return the result of a task.

        If the disk of its slot's machine failed, the slot moves to another machine; if there is no other, the error
        names this one.
        """
        if not done.is_disk_full or slot not in self._host.homes:
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
            self._cpu_seconds += message.cpu_seconds
            return message
        if isinstance(message, AtDisk):
            self._come.links[slot].is_at_disk = message.is_there
        elif isinstance(message, Restoring):
            for step in message.steps:
                self.restores.hear(step)
        elif isinstance(message, Followed):
            self._following.heard(slot, message)
            for step in message.steps:
                self.restores.standbys.hear(step)
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
        sharing, there = self._sharing, self._come.asked
        slot = sharing[slot_of(question.task, self.slots)] if sharing else -1
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
            self._began = time.monotonic()
            lost = self._tell_of_loss
            self._job = self._host.start(
                self._run, self._jobs, self._door.address, max(self._timeout, _COME_SECONDS), lost
            )

    def _tell_of_loss(self) -> None:
        self.on_lost()

    def _get_ready(self) -> None:
        """Wait until there are slots for the work, and take in late ones."""
        if not self._sharing:
            self._come_together()
            self._share_out()
        elif len(set(self._sharing)) < self.slots:
            assert self._job is not None
            while self._come.welcome(self._job.number):
                pass
            self._come.seat()
            if self._come.ready != set(self._sharing):
                self._share_out()

    def _come_together(self) -> None:
        """Wait until all slots are there, or as many as can be expected."""
        try:
            self.begin()
        except Exception as error:  # py4j raises many kinds of errors
            raise LinkLostError(f"the slots could not be started: {type(error).__name__}") from error
        assert self._job is not None
        patience, since = max(self._timeout, _COME_SECONDS), time.monotonic()
        while not self._may_begin():
            if self._come.welcome(self._job.number, _LOOK_SECONDS):
                continue
            if self._has_failed():
                raise LinkLostError("the job of the slots has ended")
            if time.monotonic() - since > patience:
                come = f"{self._come.count} of {self.slots} slots came within {patience:g} s"
                raise LinkLostError(f"{come}: {self._host.why_late}")
            if self._come.first is None and self._jobs == 1 and time.monotonic() - self._began > _NONE_SECONDS:
                self._check_room()

    def _may_begin(self) -> bool:
        come = self._come
        if come.first is None:
            return False
        if come.count < min(self.slots, self._host.room()) and not self._has_waited_enough(come.first):
            return False
        come.seat()
        return come.ready == set(come.links)

    def _has_waited_enough(self, first: float) -> bool:
        return time.monotonic() - first > _GRACE_SECONDS and self._come.count >= self._host.coming()

    def _check_room(self) -> None:
        """Raise ``ConfigError`` if no slot can come."""
        if why := self._host.why_none():
            raise ConfigError(f"start: no slot has come for {_NONE_SECONDS:g} s, and none can: {why}")

    def _share_out(self) -> None:
        """Give every slot's tasks to one that has come."""
        ready, before = self._come.ready, self._sharing
        now = shared_out(self.slots, ready)
        for slot in {was for was, by in zip(before, now, strict=False) if was != by}:
            self._order_and_wait(slot, LetGo())
        self._sharing = now
        self._host.found(ready)
        are_all = len(ready) == self.slots
        self._follow_anew(self._host.followers if are_all else {})
        if not are_all:
            _log.warning(
                "application %r: %d of %d slots have come, and do the work of all; the others join as they come: %s",
                self._application_id, len(ready), self.slots, self._host.why_late,
            )  # fmt: skip
        elif before:
            _log.warning("application %r: all %d slots have come", self._application_id, self.slots)

    def _follow_anew(self, followers: Mapping[int, int]) -> None:
        """Have copies follow the slots where they are now."""
        now = {slot: home.host for slot, home in self._host.homes.items()}
        promoted = {slot for slot, machine in self._copied_to.items() if now.get(slot) == machine}
        self.restores.standbys.suspend(lambda task: slot_of(task, self.slots) in promoted)
        self._copied_to = {slot: now.get(by, "") for slot, by in followers.items()}
        self._following = Following(followers, self.slots, self._host.copied)

    def _order_and_wait(self, slot: int, order: LetGo) -> None:
        link = self._come.links[slot]
        link.send(order)
        while self._heard(link.message(), slot) is None:
            pass

    def _has_failed(self) -> bool:
        return self._job is None or self._job.has_ended

    def _let_go(self, waits: bool = True) -> None:
        """Abandon the present slots; they end when they notice."""
        seconds = 0.0 if self._come.first is None else _END_SECONDS
        self._come.clear()
        self._sharing = []
        job, self._job = self._job, None
        if job is not None and waits:
            self._see_out(job, seconds)

    def _see_out(self, job: Job, seconds: float) -> None:
        """Wait so many seconds for the slots of a job to end, and then end what is left.

        The host may still start replacements for lost slots of this job. They are turned away: otherwise they would
        wait to be accepted, and the job for them.
        """
        deadline = time.monotonic() + seconds
        while not job.has_ended and time.monotonic() < deadline:
            if readable([self._door], _ENDED_LOOK_SECONDS):
                self._come.turn_away()
        job.end(_END_SECONDS)

    def _close_slots(self, waits: bool = True) -> None:
        """Make all slots close their state, and end."""
        try:
            for link in self._come.links.values():
                link.send(Close())
            for slot, link in self._come.links.items():
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
        self.restores.standbys.suspend()
        if host_goes_on:
            self._host.close()
        self._door.close()

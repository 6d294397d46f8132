"""One long Spark job that hosts the slots: Spark starts, places, isolates and replaces their processes.

The job is a union of one-partition RDDs, one for each slot. Spark keeps its Python processes apart by the environment
of the function they run. Each RDD is made under its own environment, so that a slot always gets its own process, with
its databases open, when another job follows. The next program in the same session profits too: it need not wait for
Python and its imports. On a cluster each RDD is located at an executor. If Spark still starts a slot elsewhere, the
slot's previous process is killed (``SlotLock``).
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from penstock.engine.shipping.shipping import loads
from penstock.engine.slots.environment import ENVIRONMENT
from penstock.engine.slots.links import Address
from penstock.engine.slots.placement import Executor, Placement
from penstock.engine.slots.sessions import Host
from penstock.engine.slots.slot import Place, Program, serve
from penstock.engine.spark import private
from penstock.errors import SparkLostError

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
"""How often to look for new executors."""

_COME_SECONDS = 5.0
"""How long a job waits for executors that are about to come."""

_YOUNG_SECONDS = 20.0
"""How old a session is whose first executors must have come, if it has any."""

_MORE_SECONDS = 2.0
"""How long it waits for more of them when there are too few for all slots."""

_FULL_SECONDS = 600.0
"""How long to avoid a machine whose disk is full."""

_POOL = "spark.scheduler.pool"

_LOCALHOST = "127.0.0.1"
"""Where slots find a driver that is the only machine, whatever names it has."""


class SparkHost(Host):
    """Starts the application's slots on Spark.

    Args:
        context: Spark's context.
        about: the job's description, which Spark shows.
        program: the program for the slots, packed by ``shipping``.
        copies: whether each slot's state is followed on another machine.
    """

    def __init__(self, context: Any, application_id: str, about: str, program: bytes, slots: int, copies: bool = False):
        self.slots = slots
        conf = context.getConf()
        driver = conf.get("spark.driver.host", "localhost")
        self.name = _LOCALHOST if is_local(context) else driver
        self.bind = _LOCALHOST if is_local(context) else conf.get("spark.driver.bindAddress", driver)
        self._context = context
        self._application_id = application_id
        self._about = about
        self._program = context.broadcast(program)
        self._comes_with_tasks = conf.get("spark.dynamicAllocation.enabled", "false") == "true"
        """Whether Spark requests executors only for waiting tasks."""
        self._placement = Placement(slots, copies=copies)
        """The executors of the slots; empty if the driver is the only executor."""
        self._avoided: dict[Executor, float] = {}
        """Executors on which a slot was silent or whose disk is full, and until when they get no slots."""
        self._looked = 0.0
        self._is_first = True

    @property
    def why_late(self) -> str:
        return (
            f"{self._what_there_is()}, a slot keeps one task for as long as the program runs, and "
            "other work may have the rest; end that, give Spark more cores, or start with fewer slots"
        )

    def _what_there_is(self) -> str:
        """Return what Spark can run, in numbers."""
        conf, room = self._context.getConf(), self.room()
        where = "this machine" if is_local(self._context) else f"{len(live_executors(self._context))} executors"
        cpus = conf.get("spark.task.cpus", "1")
        return f"Spark runs {room} tasks at once on {where} (spark.task.cpus is {cpus})"

    def why_none(self) -> str:
        if self._comes_with_tasks or self.coming():
            return ""
        room = self.room()
        others = set(self._context.statusTracker().getActiveJobsIds()) - set(self._jobs())
        if room and len(private.running_tasks(self._context, others)) >= room:
            jobs = "another job has" if len(others) == 1 else f"{len(others)} other jobs have"
            return (
                f"{self._what_there_is()}, and {jobs} all of them. End other work, give the session more cores, or "
                "start programs that share a session with slots= so that all fit"
            )
        if not room and self._context.master.startswith("spark://"):
            return (
                f"no executor has come. Look at {self._context.master} whether it has workers with free cores and "
                "memory for spark.executor.memory"
            )
        return ""

    def room(self) -> int:
        return private.tasks_at_once(self._context)

    def coming(self) -> int:
        return len(private.running_tasks(self._context, self._jobs()))

    def found(self, slots: Collection[int]) -> None:
        if is_local(self._context):
            return
        tasks, reachable = private.running_tasks(self._context, self._jobs()), self._reachable_executors()
        there = {slot: one for slot, *place in tasks if (one := Executor(*place)) in reachable}  # or they would move on
        homes = self.homes | there
        self._placement.found({slot: homes[slot] for slot in slots if slot in homes})

    def _jobs(self) -> Sequence[int]:
        """Return the numbers of its jobs in Spark."""
        jobs: Sequence[int] = self._context.statusTracker().getJobIdsForGroup(self.group)
        return jobs

    @property
    def group(self) -> str:
        """The group of its jobs, as Spark calls it."""
        return f"penstock-{self._application_id}"

    @property
    def homes(self) -> dict[int, Executor]:
        return self._placement.homes

    @property
    def followers(self) -> Mapping[int, int]:
        return self._placement.followers

    def copied(self, slot: int) -> None:
        self._placement.copied(slot)

    def avoid(self, slot: int) -> None:
        if slot in self.homes:
            seconds = int(private.scala_context(self._context).conf().getTimeAsSeconds("spark.network.timeout", "120s"))
            self._avoided[self.homes[slot]] = time.monotonic() + seconds

    def leave(self, slot: int) -> bool:
        if slot not in self.homes:
            return False
        live, until = self._reachable_executors(), time.monotonic() + _FULL_SECONDS
        host = self.homes[slot].host
        self._avoided.update((executor, until) for executor in [*live, self.homes[slot]] if executor.host == host)
        return any(executor.host != host for executor in live)

    def check(self) -> None:
        check_alive(self._context, self._application_id)

    def has_moved(self) -> bool:
        """Return whether executors have changed so that slots should move."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return False
        self._looked = time.monotonic()
        live = self._reachable_executors()
        return bool(live) and not self._placement.fits(live)

    def _reachable_executors(self) -> list[Executor]:
        live, now = live_executors(self._context), time.monotonic()
        return [executor for executor in live if self._avoided.get(executor, now) <= now] or live

    def start(self, run: str, number: int, address: Address, seconds: float, on_end: Callable[[], None]) -> SlotsJob:
        self._looked = time.monotonic()
        self._placement.settle(self._executors_to_be())
        if self._is_first and not self._comes_with_tasks and self.room() == 1:
            _log.warning(
                "application %r: Spark runs 1 task at once, and the program's slot keeps it: until the program stops, "
                "no other job of this session runs. Give the session another core, such as local[2]",
                self._application_id,
            )
        self._is_first = False
        body = _serving(run, number, address, self._program, seconds, not is_local(self._context))
        graph = SlotGraph(self._context, self.group, self._about, self._seats(), self.slots, body)
        return SlotsJob(graph, number, on_end)

    def _seats(self) -> dict[int, str]:
        """Return where Spark starts the slots for which there is room. The others start wherever room comes."""
        by_home: dict[Executor, list[int]] = {}
        for slot, home in self.homes.items():
            by_home.setdefault(home, []).append(slot)
        live = live_executors(self._context)
        is_avoided = live != self._reachable_executors()
        room = self.slots if is_avoided else -(-self.room() // max(len(live), 1))
        for home, slots in by_home.items():
            _log.info("application %r: %d slots at %s", self._application_id, len(slots), home)
        return {slot: f"executor_{home.host}_{home.id}" for home, slots in by_home.items() for slot in slots[:room]}

    def _executors_to_be(self) -> list[Executor]:
        """Return the present executors, after waiting for executors that are about to come.

        At the first start they register one by one, and a lost single executor is replaced. Slots that had to move to
        them later would stand still during the move.
        """
        since = time.monotonic()
        live = self._reachable_executors()
        while self._waits_for_more(live) and time.monotonic() - since < (_MORE_SECONDS if live else _COME_SECONDS):
            time.sleep(0.05)
            live = self._reachable_executors()
        return live

    def _waits_for_more(self, live: list[Executor]) -> bool:
        if is_local(self._context) or self._comes_with_tasks:
            return False
        if not live:
            return not self._is_first or time.time() - self._context.startTime / 1000 < _YOUNG_SECONDS
        return self._is_first and not self._has_room(live)

    def _has_room(self, live: list[Executor]) -> bool:
        """Return whether these executors have a core for every slot."""
        return bool(live) and self.room() >= self.slots

    def close(self) -> None:
        if is_alive(self._context):
            self._program.unpersist()


class SlotGraph:
    """The RDD whose partitions are slots.

    Args:
        homes: the executors at which some of them are located.
        body: the function of each partition, given the slot's number; it returns why the slot did nothing.
    """

    def __init__(
        self, context: Any, group: str, about: str, homes: Mapping[int, str], slots: int, body: Callable[..., list[str]]
    ):
        self._context, self._group, self._about, self._homes = context, group, about, homes
        self._pool = context.getLocalProperty(_POOL)  # of the user's thread
        self._rdd = context.union([self._slot(slot, body) for slot in range(slots)])

    def run(self) -> list[str]:
        """Run the job, until all slots have ended or one has failed. Return why slots did nothing. Raise Spark's
        errors.
        """
        self._context.setJobGroup(self._group, self._about, interruptOnCancel=True)
        self._context.setLocalProperty(_POOL, self._pool)
        found: list[str] = self._rdd.collect()
        return found

    def cancel(self) -> None:
        """Cancel the running job, even if slots do not end."""
        self._context.cancelJobGroup(self._group)

    def _slot(self, slot: int, body: Callable[..., list[str]]) -> Any:
        """Return the RDD of one slot."""
        context, home = self._context, self._homes.get(slot)
        with private.worker_environment(context, {**ENVIRONMENT, "PENSTOCK_SLOT": f"slot-{slot}"}) as fixed:
            number = private.located(context, slot, home) if home else context.parallelize([slot], 1)
            return fixed(number.mapPartitions(body))


def _serving(
    run: str, job: int, address: Address, program: Any, seconds: float, is_cluster: bool
) -> Callable[..., list[str]]:
    """Return the function that a slot runs. It is sent with every job, so it holds only a reference to the program."""

    def given() -> Program:
        known: Program = loads(program.value)
        return known.on_executor() if is_cluster else known

    def body(numbers: Iterator[int]) -> list[str]:
        (slot,) = list(numbers)
        failure = serve(Place(run, job, slot), address, given, seconds)
        return [failure] if failure else []

    return body


class Graph(Protocol):
    """The work that Spark runs."""

    def run(self) -> list[str]:
        """Run until all slots have ended or one has failed. Return why slots did nothing. Raise Spark's errors."""

    def cancel(self) -> None:
        """Cancel what runs, even if slots do not end."""


class SlotsJob:
    """A job that runs in its own thread.

    Args:
        number: distinguishes the jobs of a run.
        on_end: called in that thread when the job has ended.
    """

    def __init__(self, graph: Graph, number: int, on_end: Callable[[], None]):
        self.number = number
        self.failure = ""
        """Why it ended, if not because all slots have."""
        self._graph = graph
        self._on_end = on_end
        self._has_ended = threading.Event()
        threading.Thread(target=self._run, name="penstock slots", daemon=True).start()

    @property
    def has_ended(self) -> bool:
        return self._has_ended.is_set()

    def end(self, patience: float) -> None:
        """Cancel the job if it has not ended, and wait so many seconds for it."""
        if not self.has_ended:
            try:
                self._graph.cancel()
            except Exception:  # Spark is gone, and the slots with it
                return
            self._has_ended.wait(patience)

    def wait(self, seconds: float) -> bool:
        """Wait so many seconds for its end. Return whether it has ended."""
        return self._has_ended.wait(seconds)

    def _run(self) -> None:
        try:
            failure = next(iter(self._graph.run()), "")
        except Exception as error:  # py4j raises many kinds of errors
            failure = first_lines(error)
        self.end_with(failure)

    def end_with(self, failure: str) -> None:
        """Take the job for ended, whether or not Spark says so."""
        if not self.has_ended:
            self.failure = failure
            self._has_ended.set()
            self._on_end()


def is_alive(context: Any) -> bool:
    """Return whether Spark still answers."""
    try:
        return not private.scala_context(context).isStopped()
    except Exception:  # without a JVM, py4j raises many kinds of errors
        return False


def check_alive(context: Any, application_id: str) -> None:
    """Raise ``SparkLostError`` when Spark no longer answers."""
    if not is_alive(context):
        raise SparkLostError(
            f"application {application_id!r} stopped because Spark is gone: its JVM was killed, ran out of memory, or "
            "its session was stopped. Everything committed is safe; start again, and the application continues where "
            "it was"
        )


def is_local(context: Any) -> bool:
    """Return whether the driver is the only machine, and its own executor."""
    master: str = context.master
    return master.startswith("local[") or master == "local"


def live_executors(context: Any) -> list[Executor]:
    """Return the executors that stay, without those that Spark is decommissioning; empty if the driver is the only
    one.
    """
    if is_local(context):
        return []
    backend = private.scala_context(context).schedulerBackend()
    statuses = private.scala_context(context).env().blockManager().master().getMemoryStatus()
    ids = statuses.keysIterator()
    found = []
    while ids.hasNext():
        id_ = ids.next()
        if id_.executorId() != "driver" and backend.isExecutorActive(id_.executorId()):
            found.append(Executor(str(id_.executorId()), str(id_.host())))
    return sorted(found)


_OF_PYTHON = re.compile(r"^(?!org\.|java\.|py4j\.)[\w.]*(?:Error|Exception): .*$", re.MULTILINE)


def first_lines(error: Exception) -> str:
    """Return the error message, without stack traces: the last line of a Python process, else the first ones."""
    text = str(error)
    if "No module named 'penstock'" in text:
        return (
            "the Python that Spark runs has no Penstock: install penstock-streams there, or set PYSPARK_PYTHON to a "
            "Python that has it before Spark, or its Connect server, starts"
        )
    if "Traceback" in text and (found := _OF_PYTHON.findall(text)):
        return str(found[-1])[:600]
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return " / ".join(lines[:4])[:600] or type(error).__name__

"""The code inside a slot: one long-lived Python process that owns several tasks.

It stays in one Spark task for as long as the driver wants, and carries out orders. When the connection is lost, it ends
that task. If the same process becomes the slot again, it finds the databases still open.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from penstock.engine.commit.identity import check_shared
from penstock.engine.operate.lock import SlotLock
from penstock.engine.operate.restores import Batched
from penstock.engine.shared.garbage import set_apart
from penstock.engine.shared.layout import Layout
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.engine.slots.followers import Followers
from penstock.engine.slots.links import (
    NO_SLOT,
    Address,
    Alive,
    AtDisk,
    Done,
    Failed,
    Follow,
    Followed,
    Hello,
    LetGo,
    Link,
    LinkLostError,
    Restoring,
    Seat,
    UnreachableError,
    Work,
    connected,
)
from penstock.engine.task.host import TaskHost, is_of_folder
from penstock.engine.task.live import StoreAnswer, StoreQuestion
from penstock.errors import ConfigError, PenstockError, StoreError
from penstock.faults import crash_point
from penstock.figures.moving import moving
from penstock.log.open import open_log
from penstock.messages import describe
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.state.at_disk import at_disk
from penstock.storage.opening import open_storage

_BEAT_SECONDS = 1.0

EXECUTOR_STATE_DIR = "PENSTOCK_EXECUTOR_STATE_DIR"
"""The environment variable on a cluster's machine that says where executors keep state, in a folder per application. By
default they use the program's ``state_dir``, a path that every machine has.
"""


class Program:
    """The application as a slot needs it; sent to every slot once."""

    def __init__(
        self, topology: Topology, layout: Layout, settings: Settings, log_place: Any, storage_url: str, folder: Path
    ):
        self.topology = topology
        self.layout = layout
        self.settings = settings
        self.log_place = log_place
        self.storage_url = storage_url
        self.folder = folder
        """Where tasks have their databases."""

    def on_executor(self) -> Program:
        """Return the program with the paths of this machine, which may not be the driver's."""
        own = os.environ.get(EXECUTOR_STATE_DIR)
        if own:
            self.folder = Path(own).absolute() / self.layout.application_id / "tasks"
        return self

    def lock(self, slot: int, run: str) -> SlotLock:
        return SlotLock(self.folder.parent / "slots", slot, run)

    def had(self) -> dict[int, float]:
        """Return the slots whose state is on this machine's disk, and when it was last begun with, since 1970."""
        found = {}
        with suppress(OSError):  # there is none yet
            for file in (self.folder.parent / "slots").iterdir():
                if file.name.isdecimal():
                    found[int(file.name)] = file.stat().st_mtime
        return found

    def host(self, application: str) -> TaskHost:
        """Return a host for its tasks. Raise ``ConfigError`` if this machine has another checkpoint or other topics
        than the driver.
        """
        log, storage = open_log(self.log_place), open_storage(self.storage_url)
        check_shared(application, storage, log, self.topology.source_topics)
        return TaskHost(self.topology, self.layout, self.settings, log, storage, self.folder)

    def followers(self, tell: Callable[[Followed], None]) -> Followers:
        """Return the copies of tasks that run elsewhere."""
        storage = open_storage(self.storage_url)
        return Followers(self.topology, self.layout, self.settings, storage, self.folder, tell)


class Place(NamedTuple):
    """The run, the job and the slot that a process serves."""

    run: str
    """Distinguishes this start of the application from any other."""
    job: int
    slot: int


class _Held:
    """The state that this process holds, of one run.

    Args:
        shares: the slots whose tasks these are.
    """

    def __init__(self, program: Program, run: str, shares: Sequence[int], application: str):
        self.run = run
        self.shares = shares
        with ExitStack() as locks:
            for slot in shares:
                locks.callback(program.lock(slot, run).release)
            self.host = program.host(application)
            self._locks = locks.pop_all()

    def is_of(self, run: str, shares: Sequence[int]) -> bool:
        return (self.run, self.shares) == (run, shares)

    def close(self) -> None:
        self.host.close()
        self._locks.close()


_held: list[_Held] = []
"""At most one: a process is a slot of one application at a time."""


def serve(place: Place, address: Address, program: Callable[[], Program], seconds: float) -> str:
    """Serve as a slot until the driver ends it, or is gone. Return why the slot could not reach the driver, or "".

    Args:
        program: fetches the program.
        seconds: as in ``Link``.
    """
    _prepare_process()
    if _held and not _held[0].is_of(place.run, [place.slot]):
        _let_go()  # another slot may have come for a part of it
    try:
        link = connected(address, Hello(place.slot, place.job), seconds)
    except UnreachableError as error:  # unless the driver is gone, it has to know
        return (
            f"slot {place.slot}, on {socket.gethostname()}, cannot reach the driver at {address.host}:{address.port} "
            f"({error}): executors connect to spark.driver.host; set it to an address of the driver that they reach, "
            "and spark.driver.bindAddress to one that the driver has. Where executors may not connect to the driver at "
            'all, start with engine="micro-batch": it needs no connection'
        )
    except LinkLostError:
        return ""  # another job has started
    _serve_over(link, lambda: _serve(link, place, program(), address, seconds))
    return ""


def serve_anywhere(run: str, job: int, address: Address, seconds: float, program: Callable[[], Program]) -> str:
    """Serve as the slot that the driver chooses. Others may use this process afterwards, so it drops its state."""
    _prepare_process()
    known = program()
    host = socket.gethostname()
    try:
        link = connected(address, Hello(NO_SLOT, job, host, known.had()), seconds)
    except UnreachableError as error:
        return (
            f"a slot, on {host}, cannot reach the program at {address.host}:{address.port} ({error}): under Spark "
            "Connect slots connect to the machine of the program. Start it on a machine that the executors reach, such "
            'as the server\'s, or start it with engine="micro-batch": it needs no connection'
        )
    except LinkLostError:
        return ""
    try:
        _serve_over(link, lambda: _serve_seated(link, run, job, known, address, seconds))
    finally:
        _let_go()
    return ""


def _serve_seated(link: Link, run: str, job: int, program: Program, address: Address, seconds: float) -> None:
    seat = link.order()  # a slot too many waits here until the job ends: a copy of Spark's, say
    if isinstance(seat, Seat):
        _serve(link, Place(run, job, seat.slot), program, address, seconds)


def _serve_over(link: Link, serves: Callable[[], None]) -> None:
    try:
        serves()
    except LinkLostError:
        pass
    except Exception as error:
        _tell(link, Failed(describe(error)))
        raise
    finally:
        link.close()


def _serve(link: Link, place: Place, known: Program, address: Address, seconds: float) -> None:
    set_apart()
    asked = connected(address, Hello(place.slot, place.job, asks=True), seconds)
    threading.Thread(target=_answer, args=(asked, place.run), name="penstock-slot-answers", daemon=True).start()
    used = time.process_time()
    with _Beating(link) as beating, _telling_of_disk(link), closing(_Copies(known, link)) as copies:
        order = link.order()
        while isinstance(order, Work | Follow | LetGo):
            if isinstance(order, Work):
                with beating.at_work():
                    done = _obey(order, link, place, known)
                crash_point("before-answer")
                before, used = used, time.process_time()
                link.send(msgspec.structs.replace(done, cpu_seconds=used - before))
                crash_point("after-answer")
            elif isinstance(order, LetGo):
                _close(beating, copies)
                link.send(Done())
            else:
                copies.take(order)
            order = link.order()
        _close(beating, copies)
        link.send(Done())


def _close(beating: _Beating, copies: _Copies) -> None:
    with beating.at_work():
        copies.close()
        _let_go()


class _Copies:
    """The copies of other machines' tasks in this slot, while the connection lasts. A later owner of such a task on
    this machine finds their state on disk.
    """

    def __init__(self, program: Program, link: Link):
        self._program = program
        self._link = link
        self._followers: Followers | None = None

    def take(self, order: Follow) -> None:
        if self._followers is None:
            self._followers = self._program.followers(self._tell)
        self._followers.take(order)

    def _tell(self, followed: Followed) -> None:
        with suppress(LinkLostError, ValueError):  # the link is closed
            self._link.send(followed)

    def close(self) -> None:
        if self._followers is not None:
            self._followers.close()
            self._followers = None


def _obey(order: Work, link: Link, place: Place, program: Program) -> Done:
    """Carry out an order. State is opened with the first one, which proves that the driver wants this process."""
    stage = order.stage
    if not _held or not _held[0].is_of(place.run, order.shares):
        _let_go()
        try:
            _held.append(_Held(program, place.run, order.shares, stage.application))
        except ConfigError as error:  # the next attempt would fail the same way
            return _failed(stage, error)
        except StoreError as error:
            if not is_of_folder(error, program.folder.parent):
                raise
            return _failed(stage, error, is_disk_full=True)
    host = _held[0].host
    with Batched(lambda steps: link.send(Restoring(steps))) as restores:
        host.on_restore = restores.hear
        return Done(host.run(stage))


def _failed(stage: StageWork, error: PenstockError, is_disk_full: bool = False) -> Done:
    """Return the answer of a slot that cannot begin with any of its tasks."""
    says, kind = str(error), type(error).__name__
    return Done([TaskDone(work.task, error=says, error_type=kind, is_disk_full=is_disk_full) for work in stage.tasks])


def _answer(asked: Link, run: str) -> None:
    """Answer questions until the driver has no more."""
    try:
        while isinstance(question := asked.order(), StoreQuestion):
            held = next((one for one in _held if one.run == run), None)
            asked.send(StoreAnswer(False) if held is None else held.host.desk.ask(question))
    except LinkLostError:
        pass
    finally:
        asked.close()


def _let_go() -> None:
    while _held:
        _held.pop().close()


class _Beating:
    """Sends a sign of life to the driver while an order runs. A stopped process sends nothing.

    One thread lasts as long as the connection: commits come too fast to start one for each.
    """

    def __init__(self, link: Link):
        self._link = link
        self._is_over = threading.Event()
        self._works = False

    def __enter__(self) -> _Beating:
        threading.Thread(target=self._beat, name="penstock-slot-alive", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Context in which an order is carried out."""
        self._works = True
        try:
            yield
        finally:
            self._works = False

    def _beat(self) -> None:
        before = moving.place()
        while not self._is_over.wait(_BEAT_SECONDS):
            place = moving.place()
            if self._works and not _tell(self._link, Alive(place != before)):
                return
            before = place


@contextmanager
def _telling_of_disk(link: Link) -> Iterator[None]:
    """Tell the driver when this process waits for its disk, because it may not be able to send signs of life then."""
    at_disk.tell = lambda is_there: _tell(link, AtDisk(is_there))
    try:
        yield
    finally:
        at_disk.tell = None


def _tell(link: Link, message: Alive | AtDisk | Failed) -> bool:
    try:
        link.send(message)
    except (LinkLostError, ValueError):  # the link is closed
        return False
    return True


def _prepare_process() -> None:
    import pyarrow as pa

    pa.set_cpu_count(1)  # there are as many slots as cores
    pa.set_io_thread_count(1)

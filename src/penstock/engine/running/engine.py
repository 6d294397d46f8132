"""The interface of an engine, and which one runs an application: slots on Spark, micro-batches, or local processes."""

from __future__ import annotations

import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.engine.operate.restores import Restores
from penstock.engine.shared.runner import StageRunner
from penstock.engine.slots.sessions import Host, SlotSessions
from penstock.engine.task.live import StoreAnswer, StoreQuestion
from penstock.errors import ConfigError
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.engine.commit.attempt import Attempt
    from penstock.engine.commit.opening import Opened
    from penstock.engine.running.reports import Reports


class Sessions(StageRunner, Protocol):
    """Runs the tasks of one application: in slots, or as jobs."""

    on_lost: Callable[[], None]
    on_moved: Callable[[], None]

    def begin(self) -> None:
        """Start in the background what runs tasks."""

    def check(self) -> None:
        """Replace what is lost before there is work. Raise ``SparkLostError`` if Spark is lost."""

    def ask(self, question: StoreQuestion) -> StoreAnswer:
        """Return the present content of a task's store, if the task is at work."""

    def close(self, host_goes_on: bool = True) -> None:
        """Close all state, and end what runs tasks, unless that ends with its host."""


class Job(NamedTuple):
    """The work of an engine.

    Attributes:
        program: the program, packed by ``shipping``.
        imports: the modules with compiled rules that it needs.
        slots: how many processes work at once.
        subs: how many sub-topologies there are.
        page: where the program is shown.
    """

    application_id: str
    program: bytes
    imports: list[str]
    slots: int
    subs: int
    page: str
    settings: Settings


class Engine(Protocol):
    """Runs the tasks of one application, and starts what they need."""

    name: str
    is_own: bool
    """Whether Spark was started for this application, and ends with it."""
    keeps_cores: bool
    """Whether it takes a core of Spark for each slot as long as it runs."""

    @property
    def attempts(self) -> type[Attempt]:
        """The maker of attempts at commits."""

    def begin(self) -> None:
        """Start in the background what takes long."""

    def open(self) -> None:
        """Wait until slots can be started."""

    def default_slots(self, widest: int) -> int:
        """Return the default number of slots, for tasks of at most so many partitions."""

    def sessions(self, job: Job, restores: Restores) -> Sessions:
        """Return what runs the tasks of a program.

        Args:
            restores: receives the progress of restores.
        """

    def reports(self, job: Job, opened: Opened) -> Reports:
        """Return where to report what a program does."""

    def session(self) -> Any:
        """Return the Spark session. Raise ``ConfigError`` without one."""

    def expect_end(self) -> None:
        """Note that the application is about to end."""

    def close(self) -> None:
        """End what was started for this application."""

    def give_up(self) -> None:
        """End what was begun, and not opened."""


class SlotEngine(ABC):
    """An engine whose tasks run in slots."""

    keeps_cores = True

    @property
    def attempts(self) -> type[Attempt]:
        from penstock.engine.commit.attempt import Attempt  # while the JVM starts

        return Attempt

    @abstractmethod
    def host(self, job: Job, about: str) -> Host:
        """Return a host of slots that run a program.

        Args:
            about: a description of the program, for people who look at the engine.
        """

    def sessions(self, job: Job, restores: Restores) -> SlotSessions:
        about = about_job(job.application_id, job.subs, job.slots, job.page)
        return SlotSessions(
            self.host(job, about), job.application_id, restores, job.settings.slot_timeout / 1000, asks=True
        )


class Choice(NamedTuple):
    """An engine's name, and why it runs the application."""

    name: str
    why: str
    is_wanted: bool = False
    """Whether the user has chosen it."""

    @property
    def said(self) -> str:
        """The choice in one line, for the user who starts a program."""
        return "starting Spark ..." if self.name in ("spark", "micro-batch") else f"running without Spark: {self.why}"


def choice_of(settings: Settings, spark: Any | None) -> Choice:
    """Return the engine that runs an application: the setting's, else Spark where PySpark and Java are installed.

    Args:
        spark: the session that the user gave, if any.

    Raises:
        ConfigError: the local engine was given a session, or an engine without slots copies on other machines.
    """
    choice = _choice(settings, spark)
    if choice.name == "local" and spark is not None:
        raise ConfigError("start: spark is a session, and the setting engine is 'local'; leave one of them out")
    if choice.name == "micro-batch" and settings.standby_replicas:
        raise ConfigError(
            f"standby_replicas is {settings.standby_replicas}, and the setting engine is 'micro-batch': copies follow "
            "the tasks of slots, and a micro-batch has none. Set standby_replicas to 0; a task that comes to another "
            "machine is restored from the checkpoint"
        )
    if choice.name == "local" and settings.standby_replicas:
        raise ConfigError(
            f"standby_replicas is {settings.standby_replicas}, and the application runs without Spark ({choice.why}): "
            "copies are for other machines, and the local engine has only this one. Set standby_replicas to 0, or run "
            "it on a cluster of Spark"
        )
    return choice


def _choice(settings: Settings, spark: Any | None) -> Choice:
    if settings.engine != "auto":
        origin = settings.origins.get("engine", "keyword")
        where = "" if origin == "keyword" else f" ({origin})"
        return Choice(settings.engine, f"the setting engine says so{where}", True)
    if spark is not None or has_session():
        return Choice("spark", "there is a session")
    if find_spec("pyspark") is None:
        return Choice("local", "PySpark is not installed")
    if not has_java():
        return Choice("local", "there is no Java")
    return Choice("spark", "PySpark and Java are installed")


def has_java() -> bool:
    """Return whether there is a Java for Spark: that of ``JAVA_HOME``, or else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "java")) if home else "java") is not None


def has_session() -> bool:
    """Return whether this process runs Spark already, or is one of its own; PySpark is not imported for it."""
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    is_classic = context is not None and context._active_spark_context is not None
    return is_classic or connect_session() is not None


def connect_session() -> Any | None:
    """Return the active session of Spark Connect, if there is one; it is not imported for it."""
    connect = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    if connect is None:  # or another thread imports it just now
        return None
    from pyspark.errors import PySparkRuntimeError

    try:
        return connect.active()  # of this thread, or else the one that another one has made
    except PySparkRuntimeError:
        return None


def about_job(application_id: str, sub_topologies: int, slots: int, page: str) -> str:
    """Return what Spark's own pages say about the job of an application's slots.

    >>> about_job("shop", 2, 1, "")
    'penstock shop: 2 sub-topologies in 1 slot until it stops'
    """
    subs = f"{sub_topologies} sub-topolog{'y' if sub_topologies == 1 else 'ies'}"
    where = f"; its page: {page}" if page else ""
    return f"penstock {application_id}: {subs} in {slots} slot{'' if slots == 1 else 's'} until it stops{where}"

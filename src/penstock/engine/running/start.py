"""``Topology.start``: checks and completes its arguments, and starts the application."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.running.arguments import check_arguments, check_folders, settings_of
from penstock.engine.running.engine import Choice, Engine, choice_of
from penstock.engine.shared.progress import Progress
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.log.open import shared_log
from penstock.plan.topology import Topology
from penstock.values.durations import Duration

if TYPE_CHECKING:  # slow imports run while the JVM starts
    from penstock.engine.evolution.matching import Wishes
    from penstock.engine.operate.lifecycle import StateListener, UncaughtExceptionHandler
    from penstock.engine.running.child_queries import ChildQueries
    from penstock.engine.running.streams import Streams
    from penstock.engine.shared.program import ProgramFile
    from penstock.settings import Settings
    from penstock.state.restoring import StateRestoreListener
    from penstock.state.standby_updates import StandbyUpdateListener

_log = logging.getLogger(__name__)


def start(
    topology: Topology,
    application_id: str,
    log: Log | Kafka | Path | str | None = None,
    spark: Any | None = None,
    trigger: Duration | None = None,
    slots: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    program: ProgramFile | None = None,
    on_engine: Callable[[str], None] | None = None,
    state_restore_listener: StateRestoreListener | None = None,
    standby_update_listener: StandbyUpdateListener | None = None,
    state_listener: StateListener | None = None,
    uncaught_exception_handler: UncaughtExceptionHandler | None = None,
    rename: Mapping[str, str] | None = None,
    drop: Iterable[str] = (),
    page: str = "",
    **settings: Any,
) -> Streams:
    """Run a topology, on Spark or in processes of this machine.

    Args:
        topology: the topology to run.
        application_id: the name of the application, its folder, its internal topics and its job in Spark.
        log: the log: a folder, ``"kafka://host:9092"`` or :class:`penstock.Kafka`; by default that of the settings.
        spark: the session to run on; by default the active one, else a new local one.
        trigger: ``"available-now"`` to process all present records and stop; a duration in place of the setting
            ``commit_interval``; by default the program commits as records come, until it is stopped.
        slots: the number of Python processes that work at once; by default the number of cores.
        on_progress: a function that Penstock calls with a ``Progress`` after each commit.
        program: which program it is, where that is known; ``penstock run`` tells it.
        on_engine: called when nothing was found that stands in the way, with a line that says what runs it, and why.
        state_restore_listener: is told how restores go on, from the first one on.
        standby_update_listener: is told how the copies of ``standby_replicas=1`` go on.
        state_listener: is told of every change of the application's state.
        uncaught_exception_handler: is called when an error is about to stop the application, and returns how to react.
        rename: the new names of stores whose names have changed, by the old ones.
        drop: the stores and topics that the topology no longer has, and that are dropped.
        page: where it is shown meanwhile; ``penstock run`` tells it.
        settings: settings as keywords, see :class:`penstock.settings.Settings`.

    Raises:
        ConfigError: a setting is wrong, or the application is another program or has another topology's state; nothing
            was started.
        TopicNotFoundError: a source topic does not exist.
        AlreadyRunningError: another program runs under this application id.
    """
    check_arguments(application_id, spark, trigger, slots, on_progress)
    loaded = settings_of(application_id, settings)
    assert loaded.state_dir is not None
    shared = shared_log(log, loaded)
    check_folders(loaded, shared.url)
    choice = choice_of(loaded, spark)
    engine = _engine(choice, topology, application_id, loaded, spark, slots)
    engine.begin()
    try:
        from penstock.engine.operate.lifecycle import Lifecycle
        from penstock.engine.operate.restores import Restores
        from penstock.engine.running.streams import Streams

        owned = topology.completed_by(loaded).owned_by(application_id)
        return Streams(
            owned.expanded(shared.topics()),
            application_id,
            loaded,
            shared,
            engine,
            trigger,
            slots,
            on_progress,
            program,
            partial(_tell, choice, application_id, on_engine),
            Restores.of_start(application_id, state_restore_listener, standby_update_listener),
            Lifecycle(state_listener, uncaught_exception_handler),
            _wishes(rename, drop),
            children_of(owned, application_id, loaded, shared),
            page,
        )
    finally:
        engine.give_up()


def _wishes(rename: Mapping[str, str] | None, drop: Iterable[str]) -> Wishes:
    from penstock.engine.evolution.matching import Wishes

    return Wishes.of(rename, drop)


def _engine(
    choice: Choice, topology: Topology, application_id: str, settings: Settings, spark: Any | None, slots: int | None
) -> Engine:
    assert settings.state_dir is not None
    on_spark = spark, application_id, settings.state_dir / "spark.log"
    if choice.name == "spark":
        from penstock.engine.spark.streams import SparkEngine

        return SparkEngine(*on_spark)
    if choice.name == "micro-batch":
        from penstock.engine.micro_batches.engine import MicroBatchEngine

        return MicroBatchEngine(*on_spark)
    if topology.needs_spark:
        raise ConfigError(
            "the topology reads DataFrames or writes tables, which needs Spark, and it would run without "
            f"({choice.why}): install Java 17 or newer, pip install 'penstock-streams[spark]', and leave the setting "
            "engine at 'auto'"
        )
    from penstock.engine.running.local_engine import LocalEngine

    return LocalEngine(application_id, slots)


def _tell(choice: Choice, application_id: str, on_engine: Callable[[str], None] | None) -> None:
    """Say in one line what runs the application: to who asks for it, else in the log."""
    if on_engine is not None:
        on_engine(choice.said)
    elif choice.name == "local" and not choice.is_wanted:
        _log.warning("application %r is %s", application_id, choice.said)
    else:
        _log.info("application %r runs on engine %s: %s", application_id, choice.name, choice.why)


def children_of(
    topology: Topology, application_id: str, settings: Settings, log: Log, has_sources: bool = True
) -> ChildQueries:
    """Return the queries of DataFrames and tables, the sources, and the sinks.

    Args:
        topology: with the topics that the application owns.
        has_sources: whether the sources are among them.

    Raises:
        ConfigError: one of them cannot work here.
    """
    from penstock.engine.running.child_queries import ChildQueries

    found: list[ChildQueries] = []
    if topology.needs_spark:
        from penstock.engine.children.children import Children

        checkpoint = settings.checkpoint or str(settings.state_dir and settings.state_dir / "checkpoint")
        found.append(Children(topology, application_id, settings, log, checkpoint))
    if topology.feeds and has_sources:
        from penstock.engine.sources.sources import Sources

        found.append(Sources(topology, application_id, log))
    if topology.sinks:
        from penstock.engine.sinks.sinks import Sinks

        found.append(Sinks(topology, application_id, log))
    return ChildQueries(found)

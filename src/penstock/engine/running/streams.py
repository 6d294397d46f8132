"""The handle of a running application: it connects the slots and the loop that makes the commits."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.engine.commit.coordinator import CommitDone, Coordinator
from penstock.engine.commit.loop import CommitLoop
from penstock.engine.commit.opening import Ends, Opened, open_application, reopened
from penstock.engine.evolution.matching import Wishes
from penstock.engine.lowering.compiled_rules import compiled_rules
from penstock.engine.operate.close_options import CloseOptions, GroupOperation, timeout_of
from penstock.engine.operate.lifecycle import (
    Lifecycle,
    State,
    StateListener,
    UncaughtExceptionHandler,
    check_callable,
    clean_up,
)
from penstock.engine.operate.lock import ApplicationLock
from penstock.engine.operate.restores import RestoreProgress, Restores, check_listener
from penstock.engine.running.arguments import AVAILABLE_NOW
from penstock.engine.running.child_queries import ChildQueries
from penstock.engine.running.engine import Engine, Job
from penstock.engine.running.queryable import QueryableStreams
from penstock.engine.shared.places import Places, SlotPlace
from penstock.engine.shared.program import ProgramFile
from penstock.engine.shared.progress import Progress
from penstock.engine.shared.source_times import SourceTimes
from penstock.engine.shipping.shipping import dumps
from penstock.engine.slots.slot import Program
from penstock.engine.task.live import LiveTasks
from penstock.engine.task.questions import answering
from penstock.errors import CommitError, ConfigError, PenstockError
from penstock.figures.losses import LossCounter
from penstock.figures.metrics import Metric, Rates, figures_of, readable
from penstock.log.base import Log
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.state.restoring import StateRestoreListener
from penstock.state.standby_updates import StandbyUpdateListener
from penstock.storage.opening import open_storage
from penstock.usage.calls import refuse_result
from penstock.values.durations import Duration, to_ms

_log = logging.getLogger(__name__)


class Streams(QueryableStreams):
    """The handle of a running application, which ``topology.start`` returns.

    In a ``with`` block, it stops the application at the end.

    >>> def run(topology):
    ...     with topology.start(application_id="shop", commit_interval="100 ms") as streams:
    ...         streams.process_all_available()
    ...         print(streams.last_progress, streams.store("sold").get("tea"))
    """

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        settings: Settings,
        log: Log,
        engine: Engine,
        trigger: Duration | None,
        slots: int | None,
        on_progress: Callable[[Progress], None] | None,
        program: ProgramFile | None,
        on_opened: Callable[[], None],
        restores: Restores,
        lifecycle: Lifecycle,
        wishes: Wishes,
        children: ChildQueries,
        page: str,
    ):
        self.application_id = application_id
        self.topology = topology
        self.settings = settings
        self.log = log
        self._engine = engine
        self._progress: Progress | None = None
        self._listeners = [on_progress] if on_progress else []
        self._life = lifecycle
        self._wishes = wishes
        self._children = children
        self._page = page
        self._ending = threading.Lock()
        self._stopped = False
        self._is_closed = False
        """Whether the user has stopped it. An application that ended on its own still shows its stores."""
        self._total = 0
        self._restores = restores
        self._resources: list[Callable[[], None]] = []
        self._opening = threading.Lock()
        self._stores = None
        self._life.to(State.REBALANCING)
        try:
            self._open(slots, program, on_opened)
            self._losses = LossCounter(application_id, self._coordinator.manifest.metrics)
            self._rates = Rates(self._labelled())
            self._times = SourceTimes(self._coordinator.topology)
            self._loop = self._commit_loop(trigger)
            self._slots.on_lost = self._lost_slot
            if self._children.now():
                self._children.on_failure, self._children.committed = self._loop.wake, self.offsets
                self._children.begin(
                    self._session_of_children, self._coordinator.opened.storage, trigger == AVAILABLE_NOW
                )
            self._live = LiveTasks(self._coordinator.layout, self._loop.noting(lambda asked: self._slots.ask(asked)))
            self._resources.append(answering(self._coordinator.opened.storage, self._live))
            self._loop.start()
            self._reports.begin()
            atexit.register(self._warn_of_exit)
        except BaseException as error:
            self._life.ends(error if isinstance(error, PenstockError) else CommitError(str(error)))
            self._release()
            raise

    def _warn_of_exit(self) -> None:
        """Warn that the process ends while the application runs: nobody has waited for it."""
        if self.is_active:
            records = 0 if self._progress is None else self._progress.total_records
            _log.warning(
                "application %r ends, because the process that started it ends; it has processed %s records. Call "
                "streams.await_termination() at the end of the script, or process_all_available() and stop()",
                self.application_id,
                f"{records:,}",
            )

    # --- starting ------------------------------------------------------------------------------------------------

    def _commit_loop(self, trigger: Duration | None) -> CommitLoop:
        interval = self.settings.commit_interval if trigger in (None, AVAILABLE_NOW) else to_ms(trigger, "trigger")
        return CommitLoop(
            self._coordinator,
            interval / 1000,
            trigger == AVAILABLE_NOW,
            self._report,
            self._check_slots,
            self._life.goes_on_after,
            self._ended,
            self._take_up_topics,
            self._children.bring_in if self._children.now() else None,
            self._children.take_out,
            self._engine.attempts,
            self._children.holds,
            self.settings.commit_cpu_percent / 100,
        )

    @property
    def _session_of_children(self) -> Any:
        return self.spark if self._children.needs_session else None

    def _open(self, slots: int | None, program: ProgramFile | None, on_opened: Callable[[], None]) -> None:
        state_dir = self.settings.state_dir
        assert state_dir is not None
        lock = ApplicationLock(state_dir, self.application_id)
        self._resources.append(lock.release)
        self._children.prepare()
        storage = open_storage(self.settings.checkpoint or str(state_dir / "checkpoint"))
        given = self.topology, self.application_id, self.settings, self.log
        opened = open_application(*given, storage, program, self._wishes)
        self._resources.append(opened.log.close)
        packed = self._packed(opened)  # before Spark starts, so that the user sees early what cannot be pickled
        on_opened()
        self._engine.open()
        self._resources.append(self._engine.close)
        self._slot_count = slots or self._engine.default_slots(max(1, *opened.layout.tasks.values()))
        if self._children.now():
            self._children.check(self._session_of_children, self._slot_count if self._engine.keeps_cores else 0)
            self._resources.append(self._children.stop)
        self._coordinator = self._begun(opened, packed)

    def _packed(self, opened: Opened) -> bytes:
        """Return the program for the slots."""
        assert self.settings.state_dir is not None
        places = self.log.place, opened.storage.url, self.settings.state_dir / "tasks"
        return dumps(Program(opened.topology, opened.layout, self.settings, *places))

    def _begun(self, opened: Opened, packed: bytes, before: Coordinator | None = None) -> Coordinator:
        """Continue the opened application with new slots."""
        subs, imports = len(opened.topology.sub_topologies), compiled_rules(opened.topology.nodes)
        job = Job(self.application_id, packed, imports, self._slot_count, subs, self._page, self.settings)
        if before is None:
            self._reports = self._engine.reports(job, opened)
        self._slots = self._engine.sessions(job, self._restores)
        self._resources.append(self._close_slots)
        self._slots.on_moved = opened.moved.note
        self._slots.begin()
        coordinator = Coordinator(opened, self._slots, before)
        coordinator.take_over()  # last, so that a start that fails stops no other program
        return coordinator

    def _take_up_topics(self) -> Coordinator | None:
        """Add topics that have appeared and match the sources' patterns, with new tasks in new slots."""
        topology = self._coordinator.opened.with_new_topics()
        if topology is None:
            return None
        self._life.to(State.REBALANCING)
        opened = reopened(self._coordinator.opened, topology)
        packed = self._packed(opened)
        self._resources.remove(self._close_slots)
        self._close_slots()
        self._coordinator = self._begun(opened, packed, self._coordinator)
        self.topology = topology
        self._slots.on_lost = self._lost_slot
        return self._coordinator

    def _ended(self, error: PenstockError | None) -> None:
        self._children.stop()
        self._reports.ended(error)
        self._life.ends(error)

    def _check_slots(self) -> None:
        self._slots.check()
        self._children.check_running()
        self._life.to(State.RUNNING)

    def _lost_slot(self) -> None:
        self._life.to(State.REBALANCING)
        self._loop.wake()

    def _report(self, done: CommitDone, ends: Ends) -> None:
        self._total += done.records
        lag = self._coordinator.lag(ends)
        self._rates.after(self._labelled)
        self._times.after(one.numbers for one in self._coordinator.manifest.tasks.values())
        losses = self._losses.after(done.commit, self._coordinator.manifest.metrics)
        places = self._coordinator.manifest.places or Places()
        did = done.commit, done.records, self._total, lag, done.seconds, losses
        moved = places.tasks, places.moved, places.moved_total
        progress = Progress(self.application_id, *did, *moved, self._children.now())
        self._progress = progress
        self._reports.committed(progress, self._coordinator.manifest, self._coordinator.opened, ends)
        for listener in self._listeners:
            refuse_result(listener(progress), "on_progress", ConfigError)

    # --- the handle ----------------------------------------------------------------------------------------------

    @property
    def last_progress(self) -> Progress | None:
        """The progress after the last commit since this start, and the present state of queries, sinks and sources;
        None before the first commit.
        """
        return None if self._progress is None else replace(self._progress, children=self._children.now())

    @property
    def state(self) -> State:
        """The application's state, as in Kafka Streams: ``RUNNING``, ``REBALANCING``, ``ERROR``, ..."""
        return self._life.state

    def set_state_listener(self, listener: StateListener | None) -> None:
        """Set a function of (new state, old state) that is called at each change. ``start(state_listener=...)`` also
        gets the first ones.

        Raises:
            ConfigError: the argument is not a function.
        """
        check_callable(listener, "set_state_listener", "(new state, old state)")
        self._life.listener = listener

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler | None) -> None:
        """Set a function of (error) that is called before an error stops the application. If it returns ``"replace"``,
        new tasks start from the last commit; ``"stop"`` stops the application.

        Raises:
            ConfigError: the argument is not a function.
        """
        check_callable(handler, "set_uncaught_exception_handler", "(error)")
        self._life.handler = handler

    def pause(self) -> None:
        """Pause the application after the current commit, until ``resume``. It then calls no punctuations either; its
        tasks stay open."""
        self._check_open("pause")
        self._loop.pause()

    def resume(self) -> None:
        """Continue after ``pause``."""
        self._check_open("resume")
        self._loop.resume()

    @property
    def is_paused(self) -> bool:
        """Whether the application is paused."""
        return self._loop.is_paused

    def clean_up(self) -> None:
        """Remove the databases of the stopped application from this machine; the next start restores them from the
        checkpoint.

        Raises:
            ConfigError: it runs.
        """
        if not self.state.has_completed_shutdown:
            raise ConfigError(
                f"clean_up: application {self.application_id!r} is {self.state}; stop it first. Nothing was removed"
            )
        assert self.settings.state_dir is not None
        clean_up(self.settings.state_dir, self.application_id)

    @property
    def is_active(self) -> bool:
        """Whether the application is running."""
        return not self._stopped and not self._loop.has_ended

    def exception(self) -> PenstockError | None:
        """Return the error that stopped the application; None while it runs, or if it ended normally."""
        return self._loop.error

    def on_progress(self, listener: Callable[[Progress], None]) -> None:
        """Call a function after every commit.

        Raises:
            ConfigError: the application was stopped, or the argument is not a function.
        """
        self._check_open("on_progress")
        check_callable(listener, "on_progress", "(progress)")
        self._listeners.append(listener)

    def set_global_state_restore_listener(self, listener: StateRestoreListener | None) -> None:
        """Set the listener that hears about restores from now on, in place of the previous listener; None for no
        listener.

        The restores of the start may have begun already; ``start(state_restore_listener=...)`` hears about all of them.

        Raises:
            ConfigError: the application was stopped, or it is no listener.
        """
        self._check_open("set_global_state_restore_listener")
        check_listener(listener, "set_global_state_restore_listener")
        self._restores.listener = listener

    def set_standby_update_listener(self, listener: StandbyUpdateListener | None) -> None:
        """Set the listener that hears about copies of stores from now on, in place of the previous listener; None for
        no listener.

        ``start(standby_update_listener=...)`` hears about all of them.

        Raises:
            ConfigError: the application was stopped, or it is no listener.
        """
        self._check_open("set_standby_update_listener")
        check_listener(listener, "set_standby_update_listener", StandbyUpdateListener)
        self._restores.standbys.listener = listener

    def restores(self) -> list[RestoreProgress]:
        """Return the progress of all restores of stores since the start, also of finished ones."""
        return self._restores.progress()

    def slots(self) -> list[SlotPlace]:
        """Return the machine and the number of tasks of each slot, as of the last commit; empty before the first
        commit."""
        places = self._coordinator.manifest.places
        return [] if places is None else list(places.slots)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the application ends, at most ``timeout`` seconds, and return whether it has ended. Ctrl-C stops
        it cleanly.

        Raises:
            PenstockError: it failed.
        """
        try:
            if not self._loop.wait(timeout):
                return False
        except KeyboardInterrupt:
            self.stop()
            raise
        self._end()
        self._raise_failure()
        return True

    def process_all_available(self) -> None:
        """Wait until the program has processed and committed all records that are in the source topics now.

        It first reads the present rows of DataFrames. At the end, all results are in their tables and sinks.

        Raises:
            PenstockError: the application failed.
            ConfigError: it was stopped, or has ended.
        """
        if self._stopped:
            self._raise_failure()
            self._check_open("process_all_available", is_open=False)
        self._children.process_sources()
        self._loop.process_all_available()
        self._children.process_sinks()
        self._raise_failure()

    def stop(self, timeout: Duration | CloseOptions | GroupOperation | None = None) -> bool:
        """Finish the current commit, then stop; a later start continues from there.

        Information about the last commit stays available: ``last_progress``, ``offsets()``, ``metrics()``.

        Args:
            timeout: the longest time to wait, or ``CloseOptions`` with this time; by default until the commit is done.

        Returns:
            True if the application has stopped. If it has not, it gives up the current commit and stops soon. The next
            start makes this commit again, so nothing is lost.
        """
        seconds = timeout_of(timeout)
        self._is_closed = True
        self._life.to(State.PENDING_SHUTDOWN)
        if seconds is not None and not self._loop.stop(seconds):
            threading.Thread(target=self._end, name=f"penstock {self.application_id} stops", daemon=True).start()
            return False
        self._end()
        return True

    def _end(self) -> None:
        with self._ending:
            if self._stopped:
                return
            atexit.unregister(self._warn_of_exit)
            self._children.stop_sources()
            self._loop.stop()
            self._stopped = True
            self._engine.expect_end()
            self._release()

    @property
    def spark(self) -> Any:
        """The Spark session on which the application runs.

        Raises:
            ConfigError: the application runs without Spark; or Penstock started Spark for it, and both have ended.
        """
        if self._engine.is_own:
            self._check_open("spark", is_open=not self._stopped)
        return self._engine.session()

    @property
    def engine(self) -> str:
        """The engine that runs the application: ``"spark"``, ``"micro-batch"``, or ``"local"`` for processes on this
        machine."""
        return self._engine.name

    def offsets(self) -> Ends:
        """Return the offsets up to which all records are processed and committed, by source topic and partition."""
        return self._coordinator.offsets()

    def metrics(self) -> dict[Metric, float]:
        """Return all metrics since the application's first start, as of the last commit.

        Names, groups, tags and recording levels are those of Kafka Streams 4.4. Metrics that it lacks have those of the
        KIPs (docs/metrics.md). A ``-rate`` is the growth of its ``-total`` per second, over the last half minute of
        this run.
        """
        figures, level = self._labelled(), self._coordinator.settings.metrics_recording_level
        given = self.application_id, level
        return readable(figures, *given) | self._rates.readable(figures, *given)

    def _labelled(self) -> dict[str, int]:
        manifest = self._coordinator.manifest
        return figures_of(manifest.metrics, manifest.observed, self._coordinator.settings.metrics_recording_level)

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _repr_html_(self) -> str:
        from penstock.watch.notebook import html_of

        return html_of(self)

    def __repr__(self) -> str:
        how = "failed" if self._loop.error else "stopped" if self._stopped else "running"
        done = "nothing committed yet" if self._progress is None else f"commit {self._progress.commit}"
        return f"<Streams of application {self.application_id!r}: {how}, {done}>"

    def _check_open(self, asked: str, is_open: bool | None = None) -> None:
        if self._is_closed if is_open is None else not is_open:
            raise ConfigError(
                f"{asked}: application {self.application_id!r} was stopped, or has ended; start it again with "
                "topology.start(...), and it continues from there"
            )

    def _raise_failure(self) -> None:
        if self._loop.error is not None:
            raise self._loop.error

    def _close_slots(self) -> None:
        self._slots.close(host_goes_on=not (self._engine.is_own and self._stopped))

    def _release(self) -> None:
        self._stores = None  # existing views keep working
        while self._resources:
            self._resources.pop()()

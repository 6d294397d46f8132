"""A running application on Spark: Structured Streaming gives the trigger, the coordinator makes the commits."""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.durations import Duration, to_ms
from penstock.engine.attempt import Ends
from penstock.engine.coordinator import CommitDone, Coordinator
from penstock.engine.lock import ApplicationLock
from penstock.engine.program import ProgramFile
from penstock.engine.restores import RestoreProgress, Restores, check_listener
from penstock.engine.spark.output import SPARK_OUTPUT
from penstock.engine.spark.query import SteadyQuery
from penstock.engine.spark.runner import SparkRunner, is_alive, spark_lost
from penstock.engine.spark.session import session_for
from penstock.engine.spark.shipping import dumps
from penstock.engine.spark.slot import Program
from penstock.engine.spark.source import FORMAT, OffsetsSource
from penstock.errors import ConfigError, PenstockError, ProcessingError
from penstock.log.base import Log
from penstock.log.file.log import FileLog
from penstock.losses import LossCounter
from penstock.messages import show
from penstock.metrics import Metric, Rates, readable
from penstock.plan.names import check_name
from penstock.plan.topology import Topology
from penstock.progress import Progress
from penstock.settings import Settings
from penstock.state.restoring import StateRestoreListener
from penstock.storage import open_storage

if TYPE_CHECKING:
    from penstock.query.answers import StateQueryResult
    from penstock.query.application import ApplicationStores
    from penstock.query.typed import StateQueryRequest

_log = logging.getLogger(__name__)

AVAILABLE_NOW = "available-now"
_POLL_SECONDS = 0.1


class Streams:
    """A running application; what ``topology.start`` returns.

    It can be used in a ``with`` block, which stops it at the end.
    """

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        settings: Settings,
        log: Log,
        spark: Any | None,
        trigger: Duration,
        slots: int | None,
        on_progress: Callable[[Progress], None] | None,
        program: ProgramFile | None = None,
        on_spark: Callable[[], None] | None = None,
        state_restore_listener: StateRestoreListener | None = None,
    ):
        self.application_id = application_id
        self.topology = topology
        self.settings = settings
        self.log = log
        self.last_progress: Progress | None = None
        self._listeners = [on_progress] if on_progress else []
        self._error: PenstockError | None = None
        self._stopping = threading.Event()
        self._working = threading.Lock()
        self._stopped = False
        self._is_closed = False
        """Whether the user has stopped it; what has ended by itself shows its stores on."""
        self._total = 0
        self._restores = Restores(application_id, state_restore_listener)
        self._resources: list[Callable[[], None]] = []
        self._opening = threading.Lock()
        self._stores: ApplicationStores | None = None
        try:
            self._open(spark, slots, program, on_spark)
            self._losses = LossCounter(application_id, self._coordinator.manifest.metrics)
            self._rates = Rates(self._coordinator.manifest.metrics)
            self._ends = self._coordinator.end_offsets() if trigger == AVAILABLE_NOW else None
            self._query = SteadyQuery(lambda: self._start_query(trigger), self._may_go_on, application_id)
            self._query.start()
            if self._coordinator.idle and trigger != AVAILABLE_NOW:
                threading.Thread(target=self._go_on, name=f"penstock {application_id} idle", daemon=True).start()
        except BaseException:
            self._release()
            raise

    # --- starting ------------------------------------------------------------------------------------------------

    def _open(
        self, spark: Any | None, slots: int | None, program: ProgramFile | None, on_spark: Callable[[], None] | None
    ) -> None:
        state_dir = self.settings.state_dir
        assert state_dir is not None
        lock = ApplicationLock(state_dir, self.application_id)
        self._resources.append(lock.release)
        storage = open_storage(self.settings.checkpoint or str(state_dir / "checkpoint"))
        self._coordinator = Coordinator(
            self.topology, self.application_id, self.settings, self.log, storage, program=program
        )
        layout = self._coordinator.layout
        shipped = Program(self.topology, layout, self.settings, self.log.url, storage.url, state_dir / "tasks")
        packed = dumps(shipped)  # before Spark starts: what cannot be pickled is the user's to mend
        if on_spark is not None:
            on_spark()
        self._spark, self._owns_session = session_for(spark, self.application_id, state_dir / "spark.log")
        if self._owns_session:
            self._resources.append(self._stop_session)
        runner = SparkRunner(
            self._spark, packed, max(layout.tasks.values()), self.application_id, storage, self._restores, slots
        )
        self._resources.append(runner.close)
        self._coordinator.runner = runner
        self._coordinator.take_over()  # last: what stands in the way of this start stops nobody else

    def _start_query(self, trigger: Duration) -> Any:
        assert self.settings.state_dir is not None
        offsets = self.settings.state_dir / "spark"
        shutil.rmtree(
            offsets, ignore_errors=True
        )  # Spark's own; of another run it may not fit what is processed by now
        self._spark.dataSource.register(OffsetsSource)
        stream = self._spark.readStream.format(FORMAT)
        stream = stream.option("log", self.log.url).option("topics", json.dumps(self.topology.source_topics))
        stream = stream.option("start", str(time.time_ns()))
        writer = stream.load().writeStream.queryName(self.application_id).foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", str(offsets))
        if trigger == AVAILABLE_NOW:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{to_ms(trigger, 'trigger')} milliseconds").start()

    def _go_on(self) -> None:
        """While there is nothing to read, let time go on where suppressions ask for it."""
        while not self._stopping.wait(self._coordinator.idle.seconds()):
            try:
                with self._working:
                    if not self._stopping.is_set() and (done := self._coordinator.advance_time()):
                        self._report(done, self._coordinator.offsets())
            except Exception as error:
                self._error = error if isinstance(error, PenstockError) else self._unexpected(error)
                self._stopping.set()
                self._query.stop()

    # --- one micro-batch -----------------------------------------------------------------------------------------

    def _batch(self, _: Any, batch: int) -> None:
        """Everything that is there now, commit by commit, or up to where an available-now run ends."""
        with self._working:
            try:
                ends = self._ends or self._coordinator.end_offsets()
                while not self._stopping.is_set():
                    done = self._coordinator.step(ends | self._own_ends())
                    if done is None:
                        break
                    self._report(done, ends)
            except PenstockError as error:
                self._error = error
                raise
            except Exception as error:
                self._error = self._unexpected(error)
                raise
            self._query.had_a_batch()

    def _may_go_on(self) -> bool:
        """Whether a query that failed is to be started again: nothing is wrong but one of Spark's helper processes."""
        if self._error is None and not self._stopping.is_set() and is_alive(self._spark.sparkContext):
            try:
                self._coordinator.end_offsets()  # what the helper may have failed at
            except PenstockError as error:
                self._error = error
        return self._error is None and not self._stopping.is_set() and is_alive(self._spark.sparkContext)

    def _unexpected(self, error: Exception) -> PenstockError:
        return ProcessingError(
            f"application {self.application_id!r} stopped at commit {self._coordinator.manifest.commit + 1}: "
            f"{type(error).__name__}: {error}; everything committed before is safe"
        )

    def _own_ends(self) -> Ends:
        """The ends of the topics that the application both writes and reads, as they are now."""
        own = set(self.topology.source_topics) & set(self.topology.sink_topics)
        return {topic: self.log.end_offsets(topic) for topic in own}

    def _report(self, done: CommitDone, ends: Ends) -> None:
        self._total += done.records
        lag = self._coordinator.lag(ends)
        self._rates.after(self._coordinator.manifest.metrics)
        losses = self._losses.after(done.commit, self._coordinator.manifest.metrics)
        progress = Progress(self.application_id, done.commit, done.records, self._total, lag, done.seconds, losses)
        self.last_progress = progress
        for listener in self._listeners:
            listener(progress)

    # --- the handle ----------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether the application is running."""
        if self._stopped:
            return False
        if self._query.has_ended:
            if not is_alive(self._spark.sparkContext):
                self._error = self._error or spark_lost(self.application_id)
            return False
        return True

    def exception(self) -> PenstockError | None:
        """Why the application stopped by itself; None while it runs or when it ended well."""
        return self._error

    def on_progress(self, listener: Callable[[Progress], None]) -> None:
        """Call a function after every commit.

        Raises:
            ConfigError: the application was stopped.
        """
        self._check_open("on_progress")
        self._listeners.append(listener)

    def set_global_state_restore_listener(self, listener: StateRestoreListener | None) -> None:
        """Have a listener told how restores go on from now on, in place of the one before; None for no one.

        The restores of the start may be under way already: ``start(state_restore_listener=...)`` misses none.

        Raises:
            ConfigError: the application was stopped, or it is no listener.
        """
        self._check_open("set_global_state_restore_listener")
        check_listener(listener, "set_global_state_restore_listener")
        self._restores.listener = listener

    def restores(self) -> list[RestoreProgress]:
        """How far the restores of stores are, those since the start that are over as well."""
        return self._restores.progress()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the application ends; whether it did within so many seconds. Ctrl-C stops it cleanly.

        Raises:
            PenstockError: it failed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while self.is_active and (deadline is None or time.monotonic() < deadline):
                time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            self.stop()
            raise
        if self.is_active:
            return False
        self._end()
        self._raise_failure()
        return True

    def process_all_available(self) -> None:
        """Wait until everything that is in the source topics now is processed and committed.

        Raises:
            PenstockError: the application failed.
            ConfigError: it was stopped, or has ended.
        """
        if self._stopped:
            self._raise_failure()
            self._check_open("process_all_available", is_open=False)
        try:
            self._query.process_all_available()
        except Exception:
            self._raise_failure()
            raise

    def stop(self) -> None:
        """Finish the commit under way, then stop; a later start goes on from there.

        What the last commit was can still be asked for: ``last_progress``, ``offsets()``, ``metrics()``.
        """
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        if self._stopped:
            return
        self._stopping.set()
        with self._working:
            self._stopped = True
            if self._owns_session:
                SPARK_OUTPUT.expect_end()
            try:
                if is_alive(self._spark.sparkContext):
                    self._query.stop()
            finally:
                self._release()

    @property
    def query(self) -> Any:
        """Spark's streaming query; another one when Spark had to start it again."""
        return self._query.now

    @property
    def spark(self) -> Any:
        """The Spark session it runs on.

        Raises:
            ConfigError: the session was made for the application, and ended with it.
        """
        if self._owns_session:
            self._check_open("spark", is_open=not self._stopped)
        return self._spark

    def offsets(self) -> Ends:
        """For each source topic the offsets, by partition, up to which everything is processed and committed."""
        return self._coordinator.offsets()

    def metrics(self) -> dict[Metric, float]:
        """All figures since the application's first start, as of the last commit.

        Names, groups and tags are those of Kafka Streams. A ``-rate`` is what its ``-total`` grew by in a second, over
        the last half minute of this run.
        """
        figures = self._coordinator.manifest.metrics
        return readable(figures, self.application_id) | self._rates.readable(figures, self.application_id)

    def store(self, name: str) -> Any:
        """A state store, for reading, from any thread: each call shows the newest commit, ``snapshot()`` stays.

        The first call for a store makes a copy of it, which commits move on from then until the application stops.

        Raises:
            ConfigError: there is no such store, or the application was stopped.
        """
        self._check_open("store")
        return self.stores().view(name)

    def query_state(self, request: StateQueryRequest) -> StateQueryResult:
        """What a store answers to a typed query, partition by partition (KIP-796).

        Raises:
            ConfigError: there is no such store, or the application was stopped.
        """
        return self.stores().query(request)

    def stores(self) -> ApplicationStores:
        """All its stores, for reading.

        Raises:
            ConfigError: the application was stopped.
        """
        self._check_open("stores")
        from penstock.query.application import ApplicationStores
        from penstock.query.commits import OwnCommits

        with self._opening:
            if self._stores is None:
                self._stores = ApplicationStores(OwnCommits(self._coordinator), self.settings.block_cache_bytes)
            return self._stores

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        how = "failed" if self._error else "stopped" if self._stopped else "running"
        done = "nothing committed yet" if self.last_progress is None else f"commit {self.last_progress.commit}"
        return f"<Streams of application {self.application_id!r}: {how}, {done}>"

    def _check_open(self, asked: str, is_open: bool | None = None) -> None:
        if self._is_closed if is_open is None else not is_open:
            raise ConfigError(
                f"{asked}: application {self.application_id!r} was stopped, or has ended; start it again with "
                "topology.start(...), and it goes on from there"
            )

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise self._error
        if self._query.failure is not None:
            raise ProcessingError(f"application {self.application_id!r} stopped: {self._query.failure}")

    def _stop_session(self) -> None:
        if is_alive(self._spark.sparkContext):
            self._spark.stop()

    def _release(self) -> None:
        self._stores = None  # who has a view goes on with it
        while self._resources:
            self._resources.pop()()


def _check_arguments(application_id: Any, spark: Any, trigger: Any, slots: Any, on_progress: Any) -> None:
    """Raise ``ConfigError`` for arguments of ``start`` that would only fail when Spark has started."""
    check_name(application_id)
    if trigger != AVAILABLE_NOW:
        try:
            to_ms(trigger, "trigger")
        except ConfigError as error:
            raise ConfigError(f"start: {error}; or {AVAILABLE_NOW!r} to process what is there and stop") from None
    if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 1):
        raise ConfigError(f"start: slots is a number of processes from 1 on, got {show(slots)}")
    if on_progress is not None and not callable(on_progress):
        raise ConfigError(f"start: on_progress is called after every commit; got {show(on_progress)}")
    if spark is not None and not hasattr(spark, "readStream"):
        raise ConfigError(f"start: spark is a SparkSession, got {show(spark)} of type {type(spark).__name__}")


def start(
    topology: Topology,
    application_id: str,
    log: Log | Path | str | None = None,
    spark: Any | None = None,
    trigger: Duration = "500 ms",
    slots: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    program: ProgramFile | None = None,
    on_spark: Callable[[], None] | None = None,
    state_restore_listener: StateRestoreListener | None = None,
    **settings: Any,
) -> Streams:
    """Run a topology on Spark.

    Args:
        topology: what to run.
        application_id: names the application: its folder, its internal topics, its query in Spark.
        log: the file log, or its folder; by default the setting ``log_dir``.
        spark: the session to run on; by default the active one, else a new local one.
        trigger: how often to look for new records, or ``"available-now"`` to process what is there and stop.
        slots: how many Python processes work at once; by default as many as cores.
        on_progress: called after every commit.
        program: which program it is, where that is known; ``penstock run`` tells it.
        on_spark: called when nothing was found that stands in the way, and Spark is about to be started.
        state_restore_listener: is told how restores go on, from the first one on.
        settings: settings as keywords, see :class:`penstock.settings.Settings`.

    Raises:
        ConfigError: a setting is wrong, or the application is another program or has another topology's state; nothing
            was started.
        TopicNotFoundError: a source topic does not exist.
        AlreadyRunningError: another program runs under this application id.
    """
    _check_arguments(application_id, spark, trigger, slots, on_progress)
    check_listener(state_restore_listener, "start: state_restore_listener")
    loaded = Settings.load(**settings)
    if loaded.state_dir is None:
        loaded = Settings.load(**settings, state_dir=Path(".penstock") / application_id)
    loaded = loaded.resolved()
    if log is None:
        log = FileLog(loaded.log_dir)
    elif isinstance(log, str | Path):
        log = FileLog(Path(log).resolve())
    if not isinstance(log, FileLog):
        raise ConfigError(f"an application on Spark needs a log that its processes share, not a {type(log).__name__}")
    return Streams(
        topology.completed_by(loaded),
        application_id,
        loaded,
        log,
        spark,
        trigger,
        slots,
        on_progress,
        program,
        on_spark,
        state_restore_listener,
    )

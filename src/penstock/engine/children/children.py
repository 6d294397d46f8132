"""All queries of Spark that belong to a program. They start, run and stop with it."""

from __future__ import annotations

import logging
import os
import re
import threading
from typing import Any

from penstock.engine.children.jdbc import DatabaseSink
from penstock.engine.children.query import Query
from penstock.engine.children.sink import MergingSink, SinkQuery
from penstock.engine.children.source import SourceQuery
from penstock.engine.running.child_queries import ChildQueries
from penstock.engine.shared.children import FAILED, RUNNING, Child, ChildNotes
from penstock.engine.shared.counts import counts_of
from penstock.engine.spark import private
from penstock.engine.spark.job import is_alive, is_local
from penstock.engine.spark.log_option import option_of, place_of
from penstock.errors import ConfigError, PenstockError
from penstock.files.locations import scheme_of, spark_path
from penstock.log.base import Log
from penstock.plan.dataframes import UPSERT, FrameSource, TableTarget
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.storage.base import Storage
from penstock.values.masking import masked

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_WAIT_SECONDS = 0.1
_LOCAL = re.compile(r"local\[(\d+|\*)")


class Children(ChildQueries):
    """The queries of a program.

    Args:
        topology: with the topics that the application owns.
        checkpoint: where the commits of the application are.

    Raises:
        ConfigError: a DataFrame is one of a session that has ended, Spark cannot keep its progress beside the
            checkpoint, or a table would have two columns of one name.
    """

    def __init__(self, topology: Topology, application_id: str, settings: Settings, log: Log, checkpoint: str):
        self._topology = topology
        self._log = log
        option = option_of(log)
        given = progress_in(settings, checkpoint)
        self._sources: list[SourceQuery] = []
        for topic, node in topology.frame_sources.items():
            assert isinstance(node.outside, FrameSource)
            _check_session(node.outside)
            place = f"{given}/{node.outside.name}-source"
            where = place_of({"log": option})
            self._sources.append(SourceQuery(application_id, node.outside, topic, where, place))
        self._sinks: list[SinkQuery] = []
        for topic, sink in topology.table_sinks.items():
            assert isinstance(sink.outside, TableTarget)
            place = f"{given}/{sink.outside.name}-sink"
            kind = _kind_of(sink.outside)
            self._sinks.append(kind(application_id, sink.outside, topic, sink.types, option, place))
        self._notes: ChildNotes | None = None
        self._session: Any = None
        self._is_stopping = False
        self._is_available_now = False
        self._looking = threading.Lock()
        self._ended = threading.Event()

    needs_session = True

    @property
    def _all(self) -> list[Query]:
        return [*self._sources, *self._sinks]

    def now(self) -> tuple[Child, ...]:
        """Return the state of each query."""
        return tuple(one.child for one in self._all)

    # --- before the start ----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the topics of the DataFrames; raise ``ConfigError`` if one cannot be created."""
        counts = counts_of(self._topology, [one.child.topic for one in self._sources], self._log, None)
        for one in self._sources:
            one.prepare(self._log, counts[one.child.topic])

    def check(self, session: Any, slots: int) -> None:
        """Raise ``ConfigError`` for what cannot work on this session, before anything starts."""
        names = ", ".join(repr(one.child.name) for one in self._all)
        if private.is_connect(session):
            raise ConfigError(
                f"start: the topology has DataFrames or tables ({names}), and under Spark Connect a program starts no "
                "queries: their functions would run beside the server. Start them yourself: penstock.write(frame, "
                "topic, checkpoint=...) brings rows into a topic for builder.stream(topic), and "
                "stream.to_dataframe(spark, topic) gives the results to a query of yours"
            )
        cores = _cores(session.sparkContext)
        if slots >= cores:
            fewer = f"Start with slots={cores - 1}, or give" if cores > 1 else "Give"
            said = (
                f"{slots} slots take all {cores} cores of Spark, and the queries of {names} need one. {fewer} it more"
            )
            if is_local(session.sparkContext):
                raise ConfigError(f"start: {said}")
            _log.warning("%s", said)
        for one in self._all:
            one.check(session)

    # --- while it runs -------------------------------------------------------------------------------------------

    def begin(self, session: Any, storage: Storage, is_available_now: bool) -> None:
        """Start the queries; where a program ends with its input, ``bring_in`` and ``take_out`` start them in turn."""
        self._session, self._notes, self._is_available_now = session, ChildNotes(storage), is_available_now
        if not is_available_now:
            for one in self._all:
                one.begin(session, False)
        self._look()
        threading.Thread(target=self._watch, name="penstock queries", daemon=True).start()

    def bring_in(self) -> None:
        """Bring all existing rows into the topics, in a program that ends with its input."""
        self._finish(self._sources)

    def take_out(self) -> None:
        """Write all existing results into the tables, in such a program."""
        self._finish(self._sinks)

    def _finish(self, queries: list[Any]) -> None:
        if not self._is_available_now:
            return
        for one in queries:
            if not self._is_stopping:
                one.begin(self._session, True)
        while not self._is_stopping and any(one.is_working for one in queries):
            self._ended.wait(_WAIT_SECONDS)
            self._look()
        self.check_running()

    def check_running(self) -> None:
        """Raise ``QueryError`` if a query has failed. The next call restarts that query."""
        with self._looking:
            for one in self._all:
                if one.child.state == FAILED:
                    if one.is_told:
                        one.begin(self._session, self._is_available_now)
                    else:
                        one.is_told = True
                        raise one.failure()

    def process_sources(self) -> None:
        """Wait until all existing rows are in their topics."""
        self._process(self._sources)

    def process_sinks(self) -> None:
        """Wait until all existing results are in their tables."""
        self._process(self._sinks)

    def _process(self, queries: list[Any]) -> None:
        """Wait until the queries have processed their input; raise ``QueryError`` if one fails."""
        for one in queries:
            while one.is_working and not self._is_stopping and not one.process_all_available():
                self._ended.wait(_WAIT_SECONDS)
                self._look()
            if one.child.state == FAILED:
                raise one.failure()
        self._look()

    def stop_sources(self) -> None:
        """Stop the queries that bring rows in."""
        self._is_stopping = True
        for one in self._sources:
            one.stop()

    def stop(self) -> None:
        """Stop all queries. The next start of the program continues them."""
        self.stop_sources()
        for one in self._sinks:
            one.stop()
        self._look()
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            if self._look():
                self.on_failure()

    def _look(self) -> bool:
        """Update and record the state of each query. Return whether a running one has failed."""
        with self._looking:
            before = [one.child.state for one in self._all]
            for one in self._all:
                try:
                    one.look(self._is_stopping)
                except Exception as error:  # of py4j: Spark is gone, which the program finds out itself
                    if not self._is_stopping and isinstance(error, PenstockError):
                        raise
            if self._notes is not None:
                self._notes.write(self.now())
            states = [one.child.state for one in self._all]
            return any(old == RUNNING and new == FAILED for old, new in zip(before, states, strict=True))


def _kind_of(target: TableTarget) -> type[SinkQuery]:
    if target.format == "jdbc":
        return DatabaseSink
    return MergingSink if target.mode == UPSERT else SinkQuery


def progress_in(settings: Settings, checkpoint: str) -> str:
    """Return where Spark keeps the progress of the queries: the setting ``query_checkpoint``, or beside the checkpoint.

    Raises:
        ConfigError: Spark cannot write there.

    >>> progress_in(Settings(), "s3://bucket/shop"), progress_in(Settings(query_checkpoint="hdfs://name/q"), "state")
    ('s3a://bucket/shop/queries', 'hdfs://name/q')
    """
    if settings.query_checkpoint is not None:
        return spark_path(settings.query_checkpoint, "query_checkpoint").rstrip("/")
    scheme = scheme_of(checkpoint)
    if scheme in ("s3", "s3a"):
        return f"s3a{checkpoint[len(scheme) :]}/queries"
    if scheme in (None, "file", "gs", "abfs", "abfss"):
        return f"{spark_path(checkpoint)}/queries"
    raise ConfigError(
        f"the checkpoint {masked(checkpoint)!r} is a URL that Spark does not write. Say where the queries of "
        "DataFrames and tables keep their progress, with "
        'query_checkpoint="abfss://container@account.dfs.core.windows.net/folder" or another URL that Spark has'
    )


def _cores(context: Any) -> int:
    """Return how many tasks Spark runs at once."""
    found = _LOCAL.match(context.master)
    if found is None:
        return int(context.defaultParallelism)
    return os.cpu_count() or 1 if found[1] == "*" else int(found[1])


def _check_session(source: FrameSource) -> None:
    if source.frame is None:
        raise ConfigError(
            f"DataFrame {source.name!r} is not in this process: build the topology where the program is started"
        )
    session = source.frame.sparkSession
    if private.is_classic(session) and not is_alive(session.sparkContext):
        raise ConfigError(
            f"DataFrame {source.name!r} belongs to a Spark session that was stopped. Create it with the session "
            "that the program runs on"
        )

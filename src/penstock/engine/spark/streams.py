"""Spark as the engine of an application, whose handle is ``Streams``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.engine.commit.opening import Opened
from penstock.engine.running.engine import Job, SlotEngine
from penstock.engine.running.reports import Reports
from penstock.engine.running.streams import Streams as Streams
from penstock.engine.slots.sessions import Host
from penstock.engine.spark import jvm, private
from penstock.engine.spark.job import SparkHost, is_alive
from penstock.engine.spark.output import SPARK_OUTPUT
from penstock.engine.spark.reports import SparkReports
from penstock.engine.spark.session import (
    begin_jvm,
    check_idle_timeout,
    context_for,
    default_slots,
    session_on,
    stop_context,
)


class SparkContextEngine:
    """The session of an engine on Spark, and its end.

    Args:
        spark: the user's session, if any; by default the active one, else a new local one.
        log_file: where a new session keeps its log.
    """

    def __init__(self, spark: Any | None, application_id: str, log_file: Path):
        self.is_own = False
        self._session = spark
        self._given = application_id, log_file
        self._context: Any = None

    def begin(self) -> None:
        begin_jvm(self._session, *self._given)

    def open(self) -> None:
        self._context, self.is_own = context_for(self._session, *self._given)

    def session(self) -> Any:
        return self._session or session_on(self._context)

    def reports(self, job: Job, opened: Opened) -> Reports:
        if private.is_connect(self._context):
            return Reports()
        return SparkReports(
            self._context, lambda: self._session or private.known_session(), opened, job.slots, self.is_own
        )

    def expect_end(self) -> None:
        if self.is_own:
            SPARK_OUTPUT.expect_end()

    def close(self) -> None:
        if self.is_own and is_alive(self._context):
            stop_context(self._context)

    def give_up(self) -> None:
        jvm.give_up()


class SparkEngine(SparkContextEngine, SlotEngine):
    """Runs slots in one long job of Spark."""

    name = "spark"

    def default_slots(self, widest: int) -> int:
        return default_slots(self._context, widest, self.is_own)

    def host(self, job: Job, about: str) -> Host:
        check_idle_timeout(self._context)
        copies = job.settings.standby_replicas > 0
        given = self._context, self._given[0], about, job.program, job.slots, copies
        if private.is_connect(self._context):
            from penstock.engine.spark.connect import ConnectHost

            return ConnectHost(*given)
        return SparkHost(*given)

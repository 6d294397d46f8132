"""Spark as the engine of an application whose commits are short jobs."""

from __future__ import annotations

import logging

from penstock.engine.commit.attempt import Attempt
from penstock.engine.micro_batches.attempt import MicroBatchAttempt
from penstock.engine.micro_batches.jobs import ClassicJobs, ConnectJobs
from penstock.engine.micro_batches.runner import MicroBatches
from penstock.engine.operate.restores import Restores
from penstock.engine.running.engine import Job
from penstock.engine.spark import private
from penstock.engine.spark.session import default_slots
from penstock.engine.spark.streams import SparkContextEngine

_log = logging.getLogger(__name__)


class MicroBatchEngine(SparkContextEngine):
    """Runs each stage of a commit as a job of Spark."""

    name = "micro-batch"
    attempts: type[Attempt] = MicroBatchAttempt
    keeps_cores = False

    def default_slots(self, widest: int) -> int:
        return default_slots(self._context, widest, True)  # a core is busy only while a job runs

    def sessions(self, job: Job, restores: Restores) -> MicroBatches:
        if job.settings.queries_see == "read_uncommitted":
            _log.warning(
                "application %r runs in micro-batches: queries see committed state, although they may see what is not "
                "committed (setting default_interactive_query_isolation_level), because no task runs between commits",
                job.application_id,
            )
        given = self._context, job.application_id, job.program
        jobs = ConnectJobs(*given) if private.is_connect(self._context) else ClassicJobs(*given, job.page)
        return MicroBatches(jobs, job.slots, restores)

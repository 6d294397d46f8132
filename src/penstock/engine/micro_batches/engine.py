"""Spark as the engine of an application whose commits are short jobs."""

from __future__ import annotations

from penstock.engine.commit.attempt import Attempt
from penstock.engine.micro_batches.attempt import MicroBatchAttempt
from penstock.engine.micro_batches.jobs import ClassicJobs, ConnectJobs
from penstock.engine.micro_batches.runner import MicroBatches
from penstock.engine.operate.restores import Restores
from penstock.engine.running.engine import Job
from penstock.engine.spark import private
from penstock.engine.spark.session import default_slots
from penstock.engine.spark.streams import SparkContextEngine


class MicroBatchEngine(SparkContextEngine):
    """Runs each stage of a commit as a job of Spark."""

    name = "micro-batch"
    attempts: type[Attempt] = MicroBatchAttempt

    def default_slots(self, widest: int) -> int:
        return default_slots(self._context, widest, True)  # a core is busy only while a job runs

    def sessions(self, job: Job, restores: Restores) -> MicroBatches:
        given = self._context, job.application_id, job.program
        jobs = ConnectJobs(*given) if private.is_connect(self._context) else ClassicJobs(*given, job.page)
        return MicroBatches(jobs, job.slots, restores)

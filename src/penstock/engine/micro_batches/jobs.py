"""The jobs of Spark that stages are: of a classic session as RDDs, and of one of Spark Connect as DataFrames."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from penstock.engine.micro_batches.task import serve
from penstock.engine.shared.runner import LostWorkError
from penstock.engine.slots.environment import ENVIRONMENT
from penstock.engine.spark import private
from penstock.engine.spark.job import check_alive, first_lines

_LOOK_SECONDS = 10.0
"""How often to look whether Spark is there, during a job and between jobs. Spark's own client tries for minutes."""

_GROUP, _ABOUT = "spark.jobGroup.id", "spark.job.description"
_INTERRUPTS, _POOL = "spark.job.interruptOnCancel", "spark.scheduler.pool"

_ENVIRONMENT = {**ENVIRONMENT, "PENSTOCK_SLOT": "micro-batch"}


class ClassicJobs:
    """Jobs in a session with a JVM. They are RDDs, which cost half of what a DataFrame of one row for each task does.

    Args:
        context: Spark's context.
        program: the program, packed by ``shipping``.
        page: where the program is shown.
    """

    look_seconds = _LOOK_SECONDS

    def __init__(self, context: Any, application_id: str, program: bytes, page: str):
        self._context, self._application_id, self._page = context, application_id, page
        self._key = hashlib.sha256(program).hexdigest()
        self._program = context.broadcast(program)
        self._group = f"penstock-{application_id}"
        self._named = {
            _GROUP: self._group,
            _INTERRUPTS: "true",
            _POOL: context.getLocalProperty(_POOL),  # of the user's thread
        }

    def run(self, orders: Sequence[bytes], label: str) -> list[bytes]:
        program, key = self._program, self._key

        def answers(given: Iterator[bytes]) -> Iterator[bytes]:
            return (serve(lambda: program.value, key, bytes(order)) for order in given)

        shown = f"{label}; its page: {self._page}" if self._page else label
        try:
            for name, value in (self._named | {_ABOUT: shown}).items():  # of the thread that makes the commits
                self._context.setLocalProperty(name, value)
            found: list[bytes] = self._rdd(orders, answers).collect()
        except Exception as error:  # py4j raises many kinds of errors
            self.check()
            raise LostWorkError(first_lines(error)) from error
        return found

    def _rdd(self, orders: Sequence[bytes], answers: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Any:
        """Return the RDD of the answers. Its Python processes have variables as slots have them, so they are others
        than those of the user's functions.
        """
        with private.worker_environment(self._context, _ENVIRONMENT) as fixed:
            return fixed(self._context.parallelize(orders, len(orders)).mapPartitions(answers))

    def cancel(self) -> None:
        with suppress(Exception):  # Spark is gone, and the job with it
            self._context.cancelJobGroup(self._group)

    def check(self) -> None:
        check_alive(self._context, self._application_id)

    def close(self) -> None:
        with suppress(Exception):  # Spark is gone
            self._program.destroy()


class ConnectJobs:
    """Jobs in a session of Spark Connect, whose client sees only DataFrames.

    Args:
        spark: the session.
        program: the program, packed by ``shipping``.
    """

    look_seconds = _LOOK_SECONDS

    def __init__(self, spark: Any, application_id: str, program: bytes):
        self._spark, self._application_id, self._program = spark, application_id, program
        self._key = hashlib.sha256(program).hexdigest()
        self._tag = f"penstock {application_id}"
        self._asked = time.monotonic()
        """When the server last answered."""

    def run(self, orders: Sequence[bytes], label: str) -> list[bytes]:
        job: Future[list[bytes]] = Future()
        given = self._frame(orders), label, job
        threading.Thread(target=self._collect, args=given, name="penstock micro-batch", daemon=True).start()
        while True:
            try:
                return job.result(_LOOK_SECONDS)
            except TimeoutError:  # Spark's client would go on waiting for a server that is gone
                self._ask()
            except Exception as error:  # gRPC and PySpark raise many kinds
                self._ask()
                raise LostWorkError(first_lines(error)) from error

    def _frame(self, orders: Sequence[bytes]) -> Any:
        """Return the DataFrame whose rows are the answers."""
        packed, key, orders = self._program, self._key, list(orders)

        def answers(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                found = [serve(lambda: packed, key, orders[row]) for row in batch.column(0).to_pylist()]
                yield pa.record_batch({"answer": pa.array(found, pa.binary())})

        answers.__name__ = "penstock_" + re.sub(r"\W", "_", self._application_id)  # Spark shows it in the plan
        return self._spark.range(0, len(orders), 1, len(orders)).mapInArrow(answers, "answer binary")

    def _collect(self, frame: Any, label: str, job: Future[list[bytes]]) -> None:
        try:
            self._spark.addTag(self._tag)  # of this thread
            self._spark.addTag(label.replace(",", ";"))
            job.set_result([bytes(row[0]) for row in frame.collect()])
        except BaseException as error:
            job.set_exception(error)

    def cancel(self) -> None:
        """Cancel the running job, without waiting for a server that may be gone."""
        threading.Thread(target=self._interrupt, name="penstock cancels", daemon=True).start()

    def _interrupt(self) -> None:
        with suppress(Exception):  # of a server that is gone, and the job with it
            self._spark.interruptTag(self._tag)

    def check(self) -> None:
        if time.monotonic() - self._asked > _LOOK_SECONDS / 2:  # who looks now does so again after `look_seconds`
            self._ask()

    def _ask(self) -> None:
        """Raise ``SparkLostError`` when the server does not answer."""
        from penstock.engine.spark.connect_server import check_server  # it imports Spark SQL

        check_server(self._spark, self._application_id)
        self._asked = time.monotonic()

    def close(self) -> None:
        """Do nothing: nothing is kept for jobs."""

"""Questions of a program to a Spark Connect server, which may be gone, and how the two machines reach each other."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from pyspark.sql import functions as f

from penstock.engine.spark import private
from penstock.errors import ConfigError, SparkLostError

_CORE_SECONDS = 30.0
"""How long Spark may take to run a task."""

_ANSWER_SECONDS = 10.0
"""How long the server may take to answer. Spark's own client tries for minutes to reach one that is gone."""

T = TypeVar("T")

_LOCAL = re.compile(r"local\[(\d+)")

_DETAILS = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)


def cores_of(spark: Any) -> int:
    """Return how many tasks a session can run at once, as far as a client can see it."""
    found = _LOCAL.match(spark.conf.get("spark.master", "") or "")
    try:
        cores = int(found[1]) if found else within(_CORE_SECONDS, lambda: _parallelism(spark))
    except TimeoutError:
        raise ConfigError(
            f"start: Spark has run no task for {_CORE_SECONDS:g} s, so it has no free core for slots. End other work, "
            "or give the Connect server executors; with slots=, a start does not check this"
        ) from None
    return max(cores // int(spark.conf.get("spark.task.cpus", "1")), 1)


def _parallelism(spark: Any) -> int:
    """Return into how many parts Spark divides what has no parts of its own: as many as it has cores."""
    [row] = spark.range(1 << 16).select(f.spark_partition_id().alias("p")).agg(f.max("p")).collect()
    return int(row[0]) + 1


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return what a call returns. Raise its error, or ``TimeoutError`` after so many seconds."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="penstock asks Spark", daemon=True).start()
    return result.result(seconds)


def check_server(spark: Any, application_id: str) -> None:
    """Raise ``SparkLostError`` when the server of a session does not answer. Calls to a lost server fail soon."""
    try:
        within(_ANSWER_SECONDS, lambda: spark.conf.get("spark.app.name", ""))
    except Exception as error:  # gRPC and PySpark raise many kinds
        private.stop_retrying(spark)
        is_late = isinstance(error, TimeoutError)
        why = f"it has not answered for {_ANSWER_SECONDS:g} s" if is_late else _first_line(error)
        raise SparkLostError(
            f"application {application_id!r} stopped because the Spark Connect server or its session is gone ({why}). "
            "Everything committed is safe; start again with a new session, and the application continues where it was"
        ) from error


def _first_line(error: Exception) -> str:
    """Return the first line of an error, or the details of one of gRPC."""
    text = str(error)
    found = _DETAILS.search(text)
    return (found[1] if found else text.partition("\n")[0])[:300]


def own_address(server: str) -> str:
    """Return the address of this machine from which it reaches the server; executors are expected there, too."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
        try:
            towards.connect((server, 9))  # of datagrams, so nothing is sent
        except OSError as error:
            raise ConfigError(
                f"start: there is no way from this machine to the Spark Connect server {server!r} by IPv4 ({error}), "
                "and slots would have none to this program"
            ) from None
        return str(towards.getsockname()[0])

"""Spark's context: that of the user's session, unchanged, or a quiet local one."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

from penstock.engine.running.engine import connect_session
from penstock.engine.spark import class_archive, jvm, private
from penstock.engine.spark.jvm import JvmEndedError
from penstock.engine.spark.output import SPARK_OUTPUT
from penstock.engine.spark.surroundings import cause, java_option, options_of_temporary_folder, temporary_folder
from penstock.errors import ConfigError, PenstockError
from penstock.files.plain_files import check_appendable

_log = logging.getLogger(__name__)

_MOST_OF_LOG = 1 << 20
"""How many bytes of Spark's log are read to find out why it ended."""
_LOGGING = Path(__file__).with_name("log4j2.properties")

_OPTIONS = {
    "spark.driver.host": "127.0.0.1",  # the name localhost may mean ::1 alone
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.locality.wait": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
}

_OF_CONTEXT = "spark.python.worker.killOnIdleTimeout", "spark.python.worker.idleTimeoutSeconds"
_OF_CONNECT = "spark.sql.execution.pyspark.udf.killOnIdleTimeout", "spark.sql.execution.pyspark.udf.idleTimeoutSeconds"
"""The settings with which Spark ends Python processes that return no rows for a while."""


def context_for(spark: Any | None, name: str, log_file: Path) -> tuple[Any, bool]:
    """Return the Spark context to run on, and whether it was created here and must be stopped at the end. A session of
    Spark Connect has no context, and stands in its place.

    The context of a given or active session is used unchanged, and never stopped. One exception: if it runs on this
    machine alone and no Python was chosen, it gets the driver's. A context that is created here keeps its log in a
    file.

    Raises:
        ConfigError: Java is missing.
    """
    if spark is not None and private.is_connect(spark):
        return spark, False
    active = spark.sparkContext if spark is not None else private.active_context()
    if active is None:
        if (remote := connect_session()) is not None:
            return remote, False
        return _new_context(name, log_file), True
    work_with_this_python(active)
    return active, False


def session_on(context: Any) -> Any:
    """Return the session of a context. It is created on first use, since that takes seconds."""
    if private.is_connect(context):
        return context
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession(context)


@contextmanager
def session_for(name: str, log_file: Path) -> Iterator[Any]:
    """Return a session to run a job on: the active one, or else a new one, which ends with the context.

    Raises:
        ConfigError: Java is missing, or Spark does not start.
    """
    begin_jvm(None, name, log_file)
    try:
        context, is_own = context_for(None, name, log_file)
        try:
            yield session_on(context)
        finally:
            if is_own:
                SPARK_OUTPUT.expect_end()
                stop_context(context)
    finally:
        jvm.give_up()


def stop_context(context: Any) -> None:
    """Stop a context without the usual half second for its accumulator thread.

    Penstock uses no accumulators. The thread is told to end at once, and does so while the JVM stops; the context
    closes it.
    """
    private.end_accumulators(context)
    context.stop()


def default_slots(context: Any, widest: int, is_own: bool) -> int:
    """Return the default number of slots: as many tasks as Spark can run at once, and at most that of partitions.

    A slot keeps one of these tasks for as long as the program runs. So in a user's session that can run several, one
    stays free for other work. Where Spark adds executors for waiting tasks, the partitions say how many are wanted.
    """
    if private.is_connect(context):
        from penstock.engine.spark.connect_server import cores_of

        tasks: float = cores_of(context)
    elif is_own:
        return int(max(min(context.defaultParallelism, widest), 1))
    else:
        tasks = _most_tasks(context)
    return int(max(min(tasks - 1, widest), 1))


def _most_tasks(context: Any) -> float:
    """Return how many tasks Spark can run at once, with the executors that it may add."""
    conf = context.getConf()
    now = private.tasks_at_once(context) or context.defaultParallelism
    if conf.get("spark.dynamicAllocation.enabled", "false") != "true":
        return int(now)
    most, cores = (conf.get(f"spark.{name}") for name in ("dynamicAllocation.maxExecutors", "executor.cores"))
    if most is None:
        return inf
    return max(int(now), int(most) * (int(cores or 1) // int(conf.get("spark.task.cpus", "1"))))


def check_idle_timeout(context: Any) -> None:
    """Raise ``ConfigError`` if Spark ends Python processes that return no rows for long, which slots are."""
    is_remote = private.is_connect(context)
    names = _OF_CONNECT if is_remote else _OF_CONTEXT
    conf = context.conf if is_remote else context.getConf()
    kills, seconds = (conf.get(name, None) for name in names)
    if kills == "true" and seconds not in (None, "0", "0s"):
        raise ConfigError(
            f"start: the session has {names[0]}=true and {names[1]}={seconds}, so Spark kills a Python process that "
            "returns no row for this time. A slot returns none as long as the program runs. Leave the first setting "
            'out, or start with engine="micro-batch", whose processes end after each commit'
        )


def work_with_this_python(context: Any) -> None:
    """Use the driver's Python. Spark would choose the first ``python3`` on the path, which may not have Penstock."""
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        private.use_python(context, sys.executable)


def begin_jvm(spark: Any | None, name: str, log_file: Path) -> None:
    """Start the JVM of a new context, if ``context_for`` will need one."""
    if spark is None and private.active_context() is None and connect_session() is None:
        jvm.begin(_options(name, log_file))


def _options(name: str, log_file: Path) -> dict[str, str]:
    """Return Spark's options for a new context, and set environment variables for it.

    Called once for each start, because the checksum of the archive of Spark's classes takes a while.

    Raises:
        CorruptDataError: the log file is a link, or no file.
    """
    with suppress(OSError):  # without it Spark keeps no log
        log_file.parent.mkdir(parents=True, exist_ok=True)
        check_appendable(log_file)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", jvm.QUICK)  # for the short-lived JVM that builds the command
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # Spark's web pages are for this machine alone, too
    cores = os.cpu_count() or 1
    in_patterns = Path(str(log_file).replace("%", "%%"))
    logs = (
        f"{java_option('-Dlog4j2.configurationFile=', _LOGGING.as_uri())} {java_option('-Dpenstock.log=', log_file)} "
        f"{java_option('-Dpenstock.rolled=', in_patterns)} "
        f"{java_option('-Djava.io.tmpdir=', jvm.folder_of_jvm() or temporary_folder())} "
        f"{java_option('-XX:ErrorFile=', in_patterns.with_name('hs_err_pid%p.log'))}"
    )
    return (
        _OPTIONS
        | options_of_temporary_folder()
        | {
            "spark.app.name": name,
            "spark.master": f"local[{2 * cores}]",  # slots stay, so users' work needs extra room
            "spark.driver.extraJavaOptions": f"{jvm.QUICK} {class_archive.java_options()} {logs}",
            "spark.default.parallelism": str(cores),
        }
    )


def _new_context(name: str, log_file: Path) -> Any:
    from py4j.protocol import Py4JNetworkError
    from pyspark import SparkConf, SparkContext

    SPARK_OUTPUT.expect_session()
    logged = log_file.stat().st_size if log_file.exists() else 0
    logging.getLogger("py4j").addHandler(logging.NullHandler())  # it would log stack traces of a lost JVM
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        try:
            begun = jvm.options_of_starting()
            options = begun if begun.get("spark.app.name") == name else _options(name, log_file)
            gateway = _gateway(options, name, log_file) if private.gateway() is None else None
            context = SparkContext(conf=SparkConf().setAll(list(options.items())), gateway=gateway)
        except PenstockError:
            raise
        except JvmEndedError as error:
            raise ConfigError(f"Spark did not start: {error}") from error
        except Exception as error:  # py4j raises many kinds of errors
            is_gone = isinstance(error, OSError | Py4JNetworkError)  # the JVM ended while it was asked
            in_log = _errors_in(log_file, logged) if is_gone else []
            told = cause([*in_log, *SPARK_OUTPUT.taken(), str(error)], None)
            raise ConfigError(f"Spark did not start: {told}") from error
    SPARK_OUTPUT.release()
    jvm.let_go_of_folder(private.jvm_of(context))
    return context


def _errors_in(log_file: Path, since: int) -> list[str]:
    """Return what Spark has logged as errors behind a position of its log."""
    with suppress(OSError), log_file.open("rb") as file:
        file.seek(since)
        lines = file.read(_MOST_OF_LOG).decode(errors="replace").splitlines(keepends=True)
        return [line.partition(" ERROR ")[2] for line in lines if " ERROR " in line]
    return []


def _gateway(options: Mapping[str, str], name: str, log_file: Path) -> Any:
    """Return the connection to a JVM. If the first crashed with the archive of Spark's classes, start another
    without it.
    """
    try:
        return jvm.gateway(options)
    except JvmEndedError as error:
        class_archive.forget_made()
        if error.keeps_no_classes:
            class_archive.give_up()
        elif not error.has_crashed or not class_archive.remove():
            raise
        else:
            _log.warning(
                "Spark's JVM crashed (code %s) and starts again without the archive of its classes", error.code
            )
    options = _options(name, log_file)
    jvm.begin(options)
    return jvm.gateway(options)

"""Spark's context: that of the user's own session as it is, or a quiet local one."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.engine.spark import class_archive, jvm, private
from penstock.engine.spark.jvm import JvmEndedError
from penstock.engine.spark.output import SPARK_OUTPUT
from penstock.engine.spark.surroundings import cause, java_option, options_of_temporary_folder, temporary_folder
from penstock.errors import ConfigError, PenstockError
from penstock.plain_files import check_appendable

_log = logging.getLogger(__name__)

_LOGGING = Path(__file__).with_name("log4j2.properties")

_OPTIONS = {
    "spark.driver.host": "127.0.0.1",  # the name localhost may be that of ::1 alone
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.locality.wait": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
}


def context_for(spark: Any | None, name: str, log_file: Path) -> tuple[Any, bool]:
    """The Spark context to run on, and whether it was made here and is to be stopped in the end.

    That of a session that is given or active is used as it is, and never stopped; only its Python is made the driver's
    when it works on this machine alone and nobody chose one. One that is made here keeps its log in a file.

    Raises:
        ConfigError: the session is one of Spark Connect, or Java is missing.
    """
    if spark is not None and not private.is_classic(spark):
        raise _is_connect()
    active = spark.sparkContext if spark is not None else private.active_context()
    if active is None:
        if _has_connect_session():
            raise _is_connect()
        return _new_context(name, log_file), True
    work_with_this_python(active)
    return active, False


def session_on(context: Any) -> Any:
    """The session of a context; made when somebody first wants it, since that takes seconds."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession(context)


@contextmanager
def session_for(name: str, log_file: Path) -> Iterator[Any]:
    """A session to run a job on: the one that is active, or else a new one, which ends with the context.

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
    """Stop a context, without waiting half a second for the thread that listens for accumulators, which Penstock has
    none of: it is told at once, and looks while the JVM stops. Closing it is left to the context."""
    private.end_accumulators(context)
    context.stop()


def _has_connect_session() -> bool:
    """Whether there is a session of Spark Connect, and no other."""
    connect = sys.modules.get("pyspark.sql.connect.session")
    return connect is not None and connect.SparkSession.getActiveSession() is not None


def _is_connect() -> ConfigError:
    return ConfigError(
        "Penstock does not run on a Spark Connect session: it places its work on executors, which Connect "
        "does not show. Use a classic session: SparkSession.builder.master(...).getOrCreate()"
    )


def default_slots(context: Any, widest: int, is_own: bool) -> int:
    """How many slots there are where nobody said: as many as cores, and no more than there are partitions.

    A slot keeps a core of Spark's for as long as the program runs, so in a session of the user's one stays free for
    other work, where there are several.
    """
    cores = context.defaultParallelism
    return int(max(min(cores if is_own else cores - 1, widest), 1))


def work_with_this_python(context: Any) -> None:
    """Spark's own choice is the first ``python3`` on the path, which may have no Penstock."""
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        private.use_python(context, sys.executable)


def begin_jvm(spark: Any | None, name: str, log_file: Path) -> None:
    """Have the JVM of a new context come up, where ``context_for`` will need one."""
    if spark is None and private.active_context() is None and not _has_connect_session():
        jvm.begin(_options(name, log_file))


def _options(name: str, log_file: Path) -> dict[str, str]:
    """Spark's options in a context that is made here; the environment is made to fit. Made once for a start: the
    checksum of the archive of Spark's classes takes a while.

    Raises:
        CorruptDataError: the log file is a link, or no file.
    """
    with suppress(OSError):  # then Spark keeps no log
        log_file.parent.mkdir(parents=True, exist_ok=True)
        check_appendable(log_file)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", jvm.QUICK)  # of the short-lived JVM that puts the command together
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the web pages of Spark, too, are for this machine alone
    cores = os.cpu_count() or 1
    logs = (
        f"{java_option('-Dlog4j2.configurationFile=', _LOGGING.as_uri())} {java_option('-Dpenstock.log=', log_file)} "
        f"{java_option('-Djava.io.tmpdir=', jvm.folder_of_jvm() or temporary_folder())} "
        f"{java_option('-XX:ErrorFile=', log_file.with_name('hs_err_pid%p.log'))}"
    )
    return (
        _OPTIONS
        | options_of_temporary_folder()
        | {
            "spark.app.name": name,
            "spark.master": f"local[{2 * cores}]",  # slots stay, so there is room beside them for what users do
            "spark.driver.extraJavaOptions": f"{jvm.QUICK} {class_archive.java_options()} {logs}",
            "spark.default.parallelism": str(cores),
        }
    )


def _new_context(name: str, log_file: Path) -> Any:
    from pyspark import SparkConf, SparkContext

    SPARK_OUTPUT.expect_session()
    logging.getLogger("py4j").addHandler(logging.NullHandler())  # it tells of a JVM that is gone in stack traces
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
        except Exception as error:  # what py4j raises is of many kinds
            told = cause([*SPARK_OUTPUT.taken(), str(error)], None)
            raise ConfigError(f"Spark did not start: {told}") from error
    SPARK_OUTPUT.release()
    jvm.let_go_of_folder(private.jvm_of(context))
    return context


def _gateway(options: Mapping[str, str], name: str, log_file: Path) -> Any:
    """The connection to a JVM; to another one when the first has crashed and had Spark's classes from an archive."""
    try:
        return jvm.gateway(options)
    except JvmEndedError as error:
        class_archive.forget_made()
        if not error.has_crashed or not class_archive.remove():
            raise
        _log.warning("Spark's JVM crashed (code %s) and starts again without the archive of its classes", error.code)
    options = _options(name, log_file)
    jvm.begin(options)
    return jvm.gateway(options)

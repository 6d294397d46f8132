"""The Spark session: the user's own as it is, or a quiet local one."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from penstock.engine.spark.output import SPARK_OUTPUT
from penstock.errors import ConfigError

# The JVM only coordinates: records never pass through it. The simple compiler and collector cost it half the CPU.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_OPTIONS = {
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.locality.wait": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    "spark.ui.showConsoleProgress": "false",
}


def session_for(spark: Any | None, name: str, log_file: Path) -> tuple[Any, bool]:
    """The session to run on, and whether it was made here and is to be stopped in the end.

    A session that is given or active is used as it is, and never stopped; only its Python is made the driver's when
    it works on this machine alone and nobody chose one. A session that is made here keeps its log in a file.

    Raises:
        ConfigError: the session is one of Spark Connect, or Java is missing.
    """
    from pyspark.sql import SparkSession

    active = spark if spark is not None else SparkSession.getActiveSession()
    if active is not None:
        if not hasattr(active, "_jvm") or "connect" in type(active).__module__:
            raise ConfigError(
                "Penstock does not run on a Spark Connect session: it places its work on executors, which Connect "
                "does not show. Use a classic session: SparkSession.builder.master(...).getOrCreate()"
            )
        work_with_this_python(active.sparkContext)
        return active, False
    return _new_session(name, log_file), True


def work_with_this_python(context: Any) -> None:
    """Spark's own choice is the first ``python3`` on the path, which may have no Penstock."""
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _new_session(name: str, log_file: Path) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the web pages of Spark, too, are for this machine alone
    logging = f'-Dlog4j2.configurationFile="{_LOGGING.as_uri()}" -Dpenstock.log="{log_file}"'
    options = {**_OPTIONS, "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} {logging}"}
    conf = SparkConf().setMaster("local[*]").setAppName(name).setAll(list(options.items()))
    SPARK_OUTPUT.expect_session()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        try:
            if SparkContext._gateway is None:
                SparkContext(conf=conf, gateway=SPARK_OUTPUT.launch(conf))
            return SparkSession.builder.config(conf=conf).getOrCreate()
        except PySparkRuntimeError as error:
            raise ConfigError(
                f"Spark did not start ({error}). It needs Java 17 or newer: install one (Debian and Ubuntu: "
                "apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or point JAVA_HOME at it"
            ) from error

"""The Spark session: the user's own as it is, or a quiet local one."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from penstock.errors import ConfigError

# The JVM only coordinates: records never pass through it. The simple compiler and collector cost it half the CPU.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_OPTIONS = {
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
    "spark.locality.wait": "0",
    "spark.log.level": "ERROR",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    "spark.ui.showConsoleProgress": "false",
}


def session_for(spark: Any | None, name: str) -> tuple[Any, bool]:
    """The session to run on, and whether it was made here and is to be stopped in the end.

    A session that is given or active is used as it is, and never configured or stopped.

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
        return active, False
    return _new_session(name), True


def _new_session(name: str) -> Any:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the web pages of Spark, too, are for this machine alone
    builder = SparkSession.builder.master("local[*]").appName(name)
    for key, value in _OPTIONS.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            raise ConfigError(
                f"Spark did not start ({error}). It needs Java 17 or newer: install one (Debian and Ubuntu: "
                "apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or point JAVA_HOME at it"
            ) from error

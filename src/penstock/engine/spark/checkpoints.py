"""The identity of a streaming query: the id in its checkpoint, not the checkpoint's path.

A query's id is new with each new checkpoint, so its batches are new too. Penstock before 0067 named the writer after
the checkpoint's path. When such a query is started again, its progress in a topic is carried over.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.engine.spark import private
from penstock.errors import ConfigError, PenstockError
from penstock.files.locations import scheme_of
from penstock.log.base import Log
from penstock.log.file.log import FileLog

_QUERY_ID = "sql.streaming.queryId"
"""The property in which Spark gives tasks the query's id, which is in ``<checkpoint>/metadata``."""


def query_of_this_batch(frame: Any) -> str | None:
    """Return the id of the query whose batch a DataFrame is; None outside of ``foreachBatch`` and in Connect."""
    spark = frame.sparkSession
    found: str | None = spark.sparkContext.getLocalProperty(_QUERY_ID) if private.is_classic(spark) else None
    return found


def query_of_this_task() -> str:
    """Return the id of the streaming query that this Spark task runs for. Raise ``PenstockError`` if it has none."""
    from pyspark import TaskContext

    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(_QUERY_ID)
    if not found:
        raise PenstockError(
            "write: Spark does not tell the id of this streaming query, without which a batch that it repeats would be "
            "written twice. Nothing was written; use a trigger of micro-batches (processingTime, availableNow)"
        )
    return str(found)


def producer_of(query_id: str) -> str:
    """Return the name under which a query's batches are numbered in a topic."""
    return f"spark-{query_id}"


def check_no_folder_of_url(checkpoint: str) -> None:
    """Raise ``ConfigError`` if Penstock before 0067 made a local folder from a checkpoint's URL.

    That folder has the query's progress, and a new checkpoint would write everything again.
    """
    if scheme_of(checkpoint) is None:
        return
    left = Path(checkpoint).resolve()
    if (left / "metadata").exists():
        raise ConfigError(
            f"write: an earlier Penstock kept this query's progress in the folder {left}, which it made of the URL "
            "checkpoint=. Copy its content to that URL to continue from there, and then remove the folder; or remove "
            "it to begin again"
        )


def carry_over(spark: Any, log: Log, topic: str, checkpoint: str) -> None:
    """Give a query the number of its last batch in the topic, which is stored under the checkpoint's path.

    Only a batch that Spark planned and did not finish can be repeated. Without one, or with a new checkpoint at an old
    path, the old name is forgotten.
    """
    former = f"spark:{checkpoint}:{topic}"
    if not isinstance(log, FileLog) or not log.exists(topic) or (last := log.last_sequence(topic, former)) < 0:
        return
    metadata = read_text(spark, f"{checkpoint}/metadata")
    is_planned = read_text(spark, f"{checkpoint}/offsets/{last}") is not None
    if metadata is not None and is_planned and read_text(spark, f"{checkpoint}/commits/{last}") is None:
        log.append(topic, [], producer_of(json.loads(metadata)["id"]), last)
    log.forget_producer(topic, former)


def sweep_first_batch(spark: Any, checkpoint: str) -> None:
    """Remove what a process killed while it planned a query's first batch has left in the checkpoint.

    Spark 4.2 takes these temporary files for another query's progress, and would never start the query again.
    """
    folder = f"{checkpoint}/offsets"
    if not private.is_classic(spark):
        found = list(Path(folder).iterdir()) if Path(folder).is_dir() else []
        for file in found if all(file.name.startswith(".") for file in found) else ():
            file.unlink(missing_ok=True)
        return
    path = private.jvm_of(spark).org.apache.hadoop.fs.Path(folder)
    with suppress(Exception):  # py4j has many kinds; Spark says what is wrong with the place when the query starts
        system = _file_system(spark, path)
        files = [status.getPath() for status in system.listStatus(path)] if system.exists(path) else []
        for file in files if all(file.getName().startswith(".") for file in files) else ():
            system.delete(file, False)


def read_text(spark: Any, file: str) -> str | None:
    """Return a small file of any of Spark's file systems; None if it does not exist."""
    if not private.is_classic(spark):
        path = Path(file)
        return path.read_text() if path.exists() else None
    jvm = private.jvm_of(spark)
    path = jvm.org.apache.hadoop.fs.Path(file)
    system = _file_system(spark, path)
    if not system.exists(path):
        return None
    stream = system.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _file_system(spark: Any, path: Any) -> Any:
    return path.getFileSystem(private.scala_session_state(spark).newHadoopConf())

"""The checkpoint of a streaming query: who writes, told by what it holds and not by where it lies.

A query's id is new with each checkpoint that is begun, so its batches are new too. Penstock before 0067 named the
writer by the checkpoint's path; what a topic has from such a writer is carried over when the query is started again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.engine.spark import private
from penstock.errors import ConfigError, PenstockError
from penstock.locations import scheme_of
from penstock.log.base import Log
from penstock.log.file.log import FileLog

_QUERY_ID = "sql.streaming.queryId"
"""What Spark tells the tasks of a streaming query: the id that stands in ``<checkpoint>/metadata``."""


def query_of_this_batch(frame: Any) -> str | None:
    """The id of the query of which a DataFrame is a batch; None outside of ``foreachBatch`` and in Connect."""
    spark = frame.sparkSession
    found: str | None = spark.sparkContext.getLocalProperty(_QUERY_ID) if private.is_classic(spark) else None
    return found


def query_of_this_task() -> str:
    """The id of the streaming query that this task of Spark works for; raises ``PenstockError`` if there is none."""
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
    """The name under which a query's batches are numbered in a topic."""
    return f"spark-{query_id}"


def check_no_folder_of_url(checkpoint: str) -> None:
    """Raise ``ConfigError`` where Penstock before 0067 made a local folder of a checkpoint's URL: it has the query's
    progress, and a new checkpoint would write everything again."""
    if scheme_of(checkpoint) is None:
        return
    left = Path(checkpoint).resolve()
    if (left / "metadata").exists():
        raise ConfigError(
            f"write: an earlier Penstock kept this query's progress in the folder {left}, which it made of the URL "
            "checkpoint=. Copy what is in it to that URL to go on from there, and then remove the folder; or remove it "
            "to begin anew"
        )


def carry_over(spark: Any, log: Log, topic: str, checkpoint: str) -> None:
    """Give a query the number of its last batch that is in the topic under the checkpoint's path.

    Only a batch that Spark planned and did not finish can be repeated. If there is none, or the checkpoint is a new one
    at an old place, the old name is forgotten.
    """
    former = f"spark:{checkpoint}:{topic}"
    if not isinstance(log, FileLog) or not log.exists(topic) or (last := log.last_sequence(topic, former)) < 0:
        return
    metadata = _read(spark, f"{checkpoint}/metadata")
    is_planned = _read(spark, f"{checkpoint}/offsets/{last}") is not None
    if metadata is not None and is_planned and _read(spark, f"{checkpoint}/commits/{last}") is None:
        log.append(topic, [], producer_of(json.loads(metadata)["id"]), last)
    log.forget_producer(topic, former)


def _read(spark: Any, file: str) -> str | None:
    """A small file of any file system that Spark has; None when there is none."""
    if not private.is_classic(spark):
        path = Path(file)
        return path.read_text() if path.exists() else None
    jvm = private.jvm_of(spark)
    path = jvm.org.apache.hadoop.fs.Path(file)
    system = path.getFileSystem(private.scala_session_state(spark).newHadoopConf())
    if not system.exists(path):
        return None
    stream = system.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()

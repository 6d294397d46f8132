"""Any Spark DataFrame into a topic."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import errors
from penstock.errors import ConfigError, PenstockError
from penstock.files.locations import spark_path
from penstock.frames.spark_python import lookup_python
from penstock.log.base import Log, TopicInfo
from penstock.log.cluster import Kafka
from penstock.log.open import opened
from penstock.log.produce import check_columns, check_partitions, key_columns
from penstock.log.tables import Chosen
from penstock.messages import show
from penstock.usage.signatures import telling
from penstock.values.topic_names import check_topic_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@telling
def write(
    df: DataFrame,
    topic: str,
    key: str | Sequence[str] | None = None,
    value: str | None = None,
    timestamp: str | None = None,
    log: Log | Kafka | Path | str | None = None,
    partitions: int | None = None,
    checkpoint: Path | str | None = None,
    timestamp_unit: str | None = None,
    headers: str | None = None,
) -> StreamingQuery | None:
    """Write a Spark DataFrame, batch or streaming, into a topic.

    All rows of a DataFrame, or of one micro-batch, become visible together and once. A write that fails writes no row.
    Kafka's partitioner chooses the partition of each record. Whole numbers, floats, text and bytes become ``int``,
    ``float``, ``str`` and ``bytes``; everything else becomes JSON, as in :func:`penstock.produce_columns`. Penstock
    keeps every value exactly, or refuses the write (docs/dataframes.md lists the types). To write text that is already
    JSON into a topic of JSON, cast it to ``binary``.

    If Spark repeats a batch of a streaming DataFrame, Penstock recognizes it by the id of the query and its number, and
    writes it once. Over Kafka, each batch is one transaction, and its records go through the driver (docs/kafka.md).

    To read a topic as a DataFrame, use ``spark.read.format("penstock").option("topic", topic)``, or
    ``spark.readStream`` in the same way. This works in every Spark session of a program that imports Penstock.

    Args:
        df: the DataFrame.
        topic: the topic. If it does not exist, Penstock creates it with the types of the columns.
        key: the column with the keys; none by default.
        value: the column with the values; by default all columns, as one JSON object.
        timestamp: the column with the times (timestamps, dates, text in ISO 8601, or whole milliseconds; UTC without a
            zone), without nulls; by default every record gets the current time.
        log: the log: a folder, ``"kafka://host:9092"`` or :class:`penstock.Kafka`, without passwords in plain text; by
            default the log of the settings.
        partitions: the number of partitions of a new topic, one by default; an existing topic must have this number.
        checkpoint: for a streaming DataFrame, the place where Spark keeps its progress (required): a folder, or a URL
            of any file system that Spark supports.
        timestamp_unit: the unit of times that are numbers, counted from 1970: ``"s"``, ``"ms"`` (default), ``"us"``
            or ``"ns"``.

    Returns:
        The ``StreamingQuery`` for a streaming DataFrame, else None.

    Raises:
        ConfigError: a column does not exist, or has the wrong type or a type that a topic cannot keep; the topic has
            other types; a path or URL cannot be used; or ``checkpoint`` is missing.
        SerdeError: a key or a value does not fit its type, or JSON cannot say it; nothing was written.

    >>> def deliver(spark):
    ...     orders = spark.read.parquet("orders.parquet")
    ...     write(orders, "orders", key="number", timestamp="ordered_at", partitions=4)
    """
    from penstock.engine.spark.dataframes import FORMAT, make_known
    from penstock.engine.spark.log_option import option_of

    if not hasattr(df, "isStreaming"):
        raise ConfigError(
            f"write takes a DataFrame of Spark; got {show(df)} of type {type(df).__name__}. penstock.produce takes "
            "rows, penstock.produce_columns DataFrames of pandas, polars or Arrow"
        )
    check_topic_name(topic)
    if df.isStreaming and checkpoint is None:
        raise ConfigError("write: a streaming DataFrame needs checkpoint=, the place where Spark keeps its progress")
    place = None if checkpoint is None else spark_path(checkpoint, "write: checkpoint")
    named = {"key": key_columns(key, "write"), "value": value, "timestamp": timestamp, "headers": headers}
    new = _topic(df, topic, named, timestamp_unit)
    with opened(log) as topics:
        check_columns(topics, new, "write")
        check_partitions(topics, topic, partitions)
        options = {"topic": topic, "log": option_of(topics), "partitions": str(partitions or 1)}
        options |= {} if timestamp_unit is None else {"timestamp_unit": timestamp_unit}
        make_known(df.sparkSession)
        if df.isStreaming and place is not None:
            _look_back(df.sparkSession, topics, topic, place)
    rows = _rows(df, named)
    if df.isStreaming:
        return rows.writeStream.format(FORMAT).options(**options).option("checkpointLocation", place).start()
    try:
        rows.write.format(FORMAT).mode("append").options(**options).save()
    except Exception as error:
        raise _plainly(error, named) from error
    return None


Named = Mapping[str, str | tuple[str, ...] | None]
"""The columns of the parts of a record; several columns are a key together."""


def _topic(df: DataFrame, topic: str, named: Named, timestamp_unit: str | None) -> TopicInfo:
    """Return the new topic's description; raise ``ConfigError`` for columns that a topic cannot keep."""
    from penstock.engine.spark.frame_types import written_schema

    chosen = Chosen("write", **named, timestamp_unit=timestamp_unit)  # type: ignore[arg-type]
    used = df.columns if named["value"] is None else chosen.names()
    return chosen.topic(topic, 1, written_schema(df.schema, used))


def _look_back(spark: SparkSession, log: Log, topic: str, checkpoint: str) -> None:
    """Take over what earlier versions of Penstock, or a process that was killed, left of a streaming query."""
    from penstock.engine.spark.checkpoints import carry_over, check_no_folder_of_url, sweep_first_batch

    check_no_folder_of_url(checkpoint)
    carry_over(spark, log, topic, checkpoint)
    sweep_first_batch(spark, checkpoint)


def _rows(df: DataFrame, named: Named) -> DataFrame:
    """The columns of records; a whole row is a struct called value."""
    from pyspark.sql import functions as f

    def column(name: str) -> Column:
        return f.col("`{}`".format(name.replace("`", "``")))

    columns = [
        (f.struct(*map(column, name)) if isinstance(name, tuple) else column(name)).alias(part)
        for part, name in named.items()
        if name is not None
    ]
    if named["value"] is None:
        columns.append(f.struct(*(column(name) for name in df.columns if name != named["headers"])).alias("value"))
    return df.select(*columns)


_OURS = re.compile(r"^penstock\.errors\.(\w+): (.*)$", re.MULTILINE)


def _plainly(error: Exception, named: Named) -> Exception:
    """Return a Spark worker's error about a record or a column, without the traces around it."""
    said = str(error)
    if "No module named 'penstock'" in said:
        return ConfigError(
            f"write: the Python that Spark runs, {lookup_python()}, has no Penstock; set PYSPARK_PYTHON to "
            f"{sys.executable} before Spark starts (`penstock doctor` looks at it)"
        )
    found = _OURS.search(said)
    if found is None or not hasattr(errors, found[1]):
        return error
    message: str = found[2].removeprefix("write: ")
    for part, column in named.items():
        if isinstance(column, str):
            message = message.replace(f"column {part!r}", f"column {column!r}")
        inside = f"{column}." if isinstance(column, str) else ""  # whole rows and keys of several columns are structs
        message = message.replace(f"column '{part}.", f"column '{inside}")
    kind: type[PenstockError] = getattr(errors, found[1])
    return kind(f"write: {message}")

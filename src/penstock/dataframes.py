"""Any Spark DataFrame into a topic."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import errors
from penstock.errors import ConfigError, PenstockError
from penstock.log.open import open_log
from penstock.log.produce import Chosen, check_partitions, topic_types
from penstock.messages import show
from penstock.spark_python import lookup_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def write(
    df: DataFrame,
    topic: str,
    key: str | None = None,
    value: str | None = None,
    timestamp: str | None = None,
    log: Path | str | None = None,
    partitions: int | None = None,
    checkpoint: Path | str | None = None,
    timestamp_unit: str | None = None,
) -> StreamingQuery | None:
    """Write a Spark DataFrame, batch or streaming, into a topic of a file log.

    All rows of a DataFrame, or of one micro-batch, become visible together and once; a write that fails leaves
    nothing behind. Records are placed by Kafka's partitioner. Whole numbers, floats, text and bytes become ``int``,
    ``float``, ``str`` and ``bytes``, anything else JSON, as :func:`penstock.produce_columns` has it. Text that is JSON
    already goes into a topic of JSON as ``binary``.

    To read a topic as a DataFrame: ``spark.read.format("penstock").option("topic", topic)``, or ``spark.readStream``
    the same way; that works in every session of a program that imports Penstock.

    Args:
        df: the DataFrame.
        topic: the topic; it is made when it does not exist, with the types of the columns.
        key: the column with the keys; none by default.
        value: the column with the values; by default all columns, as one JSON object.
        timestamp: the column with the times (timestamps, dates, text in ISO 8601, or whole milliseconds; UTC where no
            zone is given); now by default.
        log: the folder of the log; by default the setting ``log_dir``.
        partitions: how many partitions a new topic gets, one by default; a topic that exists must have as many.
        checkpoint: for a streaming DataFrame, where Spark keeps its progress; needed there.
        timestamp_unit: what times that are numbers count since 1970: ``"s"``, ``"ms"`` (default), ``"us"`` or ``"ns"``.

    Returns:
        The ``StreamingQuery`` for a streaming DataFrame, else None.

    Raises:
        ConfigError: a column does not exist or has the wrong type, the topic holds other types, or ``checkpoint`` is
            missing.
        SerdeError: a key or a value does not fit its type; nothing was written.
    """
    from pyspark.sql import functions as f

    from penstock.engine.spark.dataframes import FORMAT, IS_JSON, arrow_schema, make_known

    if not hasattr(df, "isStreaming"):
        raise ConfigError(
            f"write takes a DataFrame of Spark; got {show(df)} of type {type(df).__name__}. penstock.produce takes "
            "rows, penstock.produce_columns DataFrames of pandas, polars or Arrow"
        )
    if df.isStreaming and checkpoint is None:
        raise ConfigError("write: a streaming DataFrame needs checkpoint=, the folder where Spark keeps its progress")
    open_log_ = open_log(log)
    topic_types(
        open_log_, topic, *Chosen("write", key, value, timestamp, timestamp_unit).types(arrow_schema(df.schema))
    )
    check_partitions(open_log_, topic, partitions)
    make_known(df.sparkSession)
    named = {"key": key, "value": value, "timestamp": timestamp}
    columns = [f.col(f"`{column}`").alias(part) for part, column in named.items() if column is not None]
    if value is None:
        everything = f.to_json(f.struct(*(f.col(f"`{name}`") for name in df.columns)))
        columns.append(everything.alias("value", metadata={IS_JSON: True}))
    rows = df.select(*columns)
    options = {"topic": topic, "log": str(Path(open_log_.url).resolve()), "partitions": str(partitions or 1)}
    options |= {} if timestamp_unit is None else {"timestamp_unit": timestamp_unit}
    if not df.isStreaming:
        try:
            rows.write.format(FORMAT).mode("append").options(**options).save()
        except Exception as error:
            raise _plainly(error, named) from error
        return None
    folder = Path(str(checkpoint)).resolve()
    options["producer"] = f"spark:{folder}:{topic}"
    return rows.writeStream.format(FORMAT).options(**options).option("checkpointLocation", str(folder)).start()


_OURS = re.compile(r"^penstock\.errors\.(\w+): (.*)$", re.MULTILINE)


def _plainly(error: Exception, named: dict[str, str | None]) -> Exception:
    """What a worker of Spark said of a record or a column, without the traces around it."""
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
        message = message.replace(f"column {part!r}", f"column {column!r}")
    kind: type[PenstockError] = getattr(errors, found[1])
    return kind(f"write: {message}")

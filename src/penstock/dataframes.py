"""Any Spark DataFrame into a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.errors import ConfigError


def write(
    df: Any,
    topic: str,
    key: str | None = None,
    value: str | None = None,
    timestamp: str | None = None,
    log: Path | str = Path(".penstock/log"),
    partitions: int = 1,
    checkpoint: Path | str | None = None,
) -> Any:
    """Write a Spark DataFrame, batch or streaming, into a topic of a file log.

    All rows of a DataFrame, or of one micro-batch, become visible together and once. Records are placed by Kafka's
    partitioner. To read a topic as a DataFrame: ``spark.read.format("penstock").option("topic", topic)``, or
    ``spark.readStream`` the same way.

    Args:
        df: the DataFrame.
        topic: the topic; it is made when it does not exist.
        key: the column with the keys; none by default.
        value: the column with the values; by default all columns, as one JSON object.
        timestamp: the column with the times (a timestamp, or milliseconds); now by default.
        log: the folder of the log.
        partitions: how many partitions a new topic gets.
        checkpoint: for a streaming DataFrame, where Spark keeps its progress; needed there.

    Returns:
        The ``StreamingQuery`` for a streaming DataFrame, else None.

    Raises:
        ConfigError: a column does not exist, or ``checkpoint`` is missing.
    """
    from pyspark.sql import functions as f

    for name in (key, value, timestamp):
        if name is not None and name not in df.columns:
            raise ConfigError(f"write: the DataFrame has no column {name!r}; its columns are {', '.join(df.columns)}")
    columns = [f.to_json(f.struct(*df.columns)).alias("value") if value is None else f.col(value).alias("value")]
    if key is not None:
        columns.insert(0, f.col(key).cast("string").alias("key"))
    if timestamp is not None:
        columns.append(f.col(timestamp).alias("timestamp"))
    options = {"topic": topic, "log": str(Path(log).resolve()), "partitions": str(partitions)}
    rows = df.select(*columns)
    if not df.isStreaming:
        rows.write.format("penstock").mode("append").options(**options).save()
        return None
    if checkpoint is None:
        raise ConfigError("write: a streaming DataFrame needs checkpoint=, the folder where Spark keeps its progress")
    folder = Path(checkpoint).resolve()
    options["producer"] = f"spark:{folder}:{topic}"
    writer = rows.writeStream.format("penstock").options(**options).option("checkpointLocation", str(folder))
    return writer.start()

"""A workload in Spark's own operators, run to the end of a folder of Parquet files, as a program of its own.

    python -m bench.spark_job W4 SOURCE --work FOLDER

The output is Parquet too, in the folder ``out``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession
from pyspark.sql.functions import from_json

SCHEMA = "key string, value string, timestamp timestamp"


def w4(events: Any) -> Any:
    """One event of each id, as long as the watermark remembers it; the id is a field of the value."""
    with_id = events.withColumn("id", from_json("value", "id string")["id"])
    return with_id.withWatermark("timestamp", "10 minutes").dropDuplicatesWithinWatermark(["id"]).drop("id")


QUERIES: dict[str, Callable[[Any], Any]] = {"W4": w4}


@click.command()
@click.argument("query", type=click.Choice(sorted(QUERIES)))
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--work", type=click.Path(path_type=Path), required=True, help="The folder of output and state.")
def main(query: str, source: Path, work: Path) -> None:
    """Run QUERY over the files of SOURCE: in one batch and with state in memory, which costs Spark least."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    result = QUERIES[query](spark.readStream.schema(SCHEMA).parquet(str(source)))
    writer = result.writeStream.format("parquet").option("checkpointLocation", str(work / "checkpoint"))
    writer.trigger(availableNow=True).start(str(work / "out")).awaitTermination()


if __name__ == "__main__":
    main()

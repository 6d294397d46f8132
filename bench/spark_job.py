"""A workload in Spark's own operators, run to the end of folders of Parquet files, as a program of its own.

    python -m bench.spark_job W4 SOURCE... --work FOLDER

The output is Parquet too, in the folder ``out``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr, from_json, struct, to_json

SCHEMA = "key string, value string, timestamp timestamp"


def w4(events: Any) -> Any:
    """One event of each id, as long as the watermark remembers it; the id is a field of the value."""
    with_id = events.withColumn("id", from_json("value", "id string")["id"])
    return with_id.withWatermark("timestamp", "10 minutes").dropDuplicatesWithinWatermark(["id"]).drop("id")


def join(views: Any, clicks: Any) -> Any:
    """Views with the clicks of the same user within ten seconds before and after."""
    left, right = _side(views, "v", "id string"), _side(clicks, "c", "id string, amount int")
    near = "v_key = c_key AND v_time BETWEEN c_time - INTERVAL 10 SECONDS AND c_time + INTERVAL 10 SECONDS"
    value = to_json(struct(col("v.id").alias("view"), col("c.id").alias("click"), col("c.amount")))
    return left.join(right, expr(near)).select(col("v_key").alias("key"), value.alias("value"))


def _side(records: Any, name: str, schema: str) -> Any:
    """One side of a join, with columns named after it."""
    value = from_json("value", schema).alias(name)
    kept = records.withWatermark("timestamp", "10 seconds")
    return kept.select(col("key").alias(f"{name}_key"), col("timestamp").alias(f"{name}_time"), value)


QUERIES: dict[str, Callable[..., Any]] = {"W4": w4, "JOIN": join}


@click.command()
@click.argument("query", type=click.Choice(sorted(QUERIES)))
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--work", type=click.Path(path_type=Path), required=True, help="The folder of output and state.")
def main(query: str, sources: tuple[Path, ...], work: Path) -> None:
    """Run QUERY over the files of SOURCES: in one batch and with state in memory, which costs Spark least."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    result = QUERIES[query](*(spark.readStream.schema(SCHEMA).parquet(str(source)) for source in sources))
    writer = result.writeStream.format("parquet").option("checkpointLocation", str(work / "checkpoint"))
    writer.trigger(availableNow=True).start(str(work / "out")).awaitTermination()


if __name__ == "__main__":
    main()

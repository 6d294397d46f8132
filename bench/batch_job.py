"""One Spark job over files of Parquet or a topic, as a program of its own.

    python -m bench.batch_job batch W1 SOURCE --work FOLDER

Modes:
    batch         ``Topology.run_batch`` over a DataFrame; its results are written as Parquet, with the columns that the
                  floor writes.
    topic         the same over a topic of the file log in FOLDER, as the next commit of an application: the results go
                  into a topic, as those of the live engine do.
    floor         the DataFrame through the exchange, the sort and a ``mapInArrow`` that gives its rows back.
    count         Spark's own count in tumbling windows of a minute (what W1 does).
    sessions      Spark's own ``session_window`` count (what W3 does).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from bench.workloads import TOPOLOGIES
from penstock.log.file.log import FileLog

PARTITIONS = 2
SCHEMA = "key string, value binary, timestamp timestamp"


def floor(frame: Any) -> Any:
    """What any job costs that shuffles and sorts rows and shows them to Python."""
    moved = frame.repartition(PARTITIONS, "key").sortWithinPartitions("timestamp")
    return moved.mapInArrow(_same, frame.schema)


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def count(frame: Any) -> Any:
    return frame.groupBy("key", f.window("timestamp", "60 seconds")).count()


def sessions(frame: Any) -> Any:
    return frame.groupBy("key", f.session_window("timestamp", "30 seconds")).count()


OTHERS = {"floor": floor, "count": count, "sessions": sessions}


@click.command()
@click.argument("mode", type=click.Choice(["batch", "topic", *OTHERS]))
@click.argument("topology", type=click.Choice(sorted(TOPOLOGIES)))
@click.argument("source")
@click.option("--work", type=click.Path(path_type=Path), required=True, help="The folder of topics and of output.")
@click.option("--master", default=f"local[{PARTITIONS}]", help="Where Spark runs.")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of the session.")
@click.option("--seed", is_flag=True, help="Leave a checkpoint, from which an application would go on.")
@click.option("--last", is_flag=True, help="Put out the last update of each key only, as batches do by default.")
def main(
    mode: str, topology: str, source: str, work: Path, master: str, conf: tuple[str, ...], seed: bool, last: bool
) -> None:
    """Run MODE over SOURCE."""
    spark = session(master, dict(one.split("=", 1) for one in conf))
    if mode in OTHERS:
        result = OTHERS[mode](spark.read.schema(SCHEMA).parquet(source))
        result.write.mode("overwrite").parquet(str(work / "out"))
        return
    made = TOPOLOGIES[topology]("in" if mode == "batch" else source, "out")
    given: dict[str, Any] = {} if last else {"statestore_cache_max_bytes": 0}
    application: dict[str, Any] = {"log": FileLog(work / "log"), "state_dir": work / "state"}
    if mode == "topic":
        made.run_batch(spark, {}, application_id="bench", **application, **given)
        return
    frame = spark.read.schema(SCHEMA).parquet(source)
    if seed:
        given |= {"seed": "bench", **application}
    given |= {"key": "key", "value": "value", "timestamp": "timestamp", "partitions": PARTITIONS}
    batch = made.run_batch(spark, {"in": frame}, **given)
    results = batch.dataframe("out", ["key", "value", "timestamp"])
    results.write.mode("overwrite").parquet(str(work / "out"))


def session(master: str, conf: dict[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", str(PARTITIONS)).config("spark.driver.memory", "4g")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.config("spark.log.level", "ERROR").getOrCreate()


if __name__ == "__main__":
    main()

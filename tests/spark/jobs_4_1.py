"""Programs that ``test_spark_4_1.py`` runs with Spark 4.1: ``python jobs_4_1.py comet|iceberg FOLDER JAR``."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from pyspark.sql import SparkSession

from penstock import SessionWindows, StreamsBuilder, Topology, produce
from support.spark_classes import QUICK_JVM

COMET = {
    "spark.plugins": "org.apache.spark.CometPlugin",
    "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
    "spark.comet.exec.pyarrowUDF.enabled": "true",
    "spark.memory.offHeap.enabled": "true",
    "spark.memory.offHeap.size": "256m",
}
STEPS = ("CometNativeScan", "CometColumnarExchange", "CometSort", "CometMapInBatch")
ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}


def session(jar: str, more: dict[str, str]) -> Any:
    builder = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "OFF").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.driver.extraJavaOptions", QUICK_JVM)
    builder = builder.config("spark.jars", jar).config("spark.driver.extraClassPath", jar)
    for name, value in more.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


# --- Comet -----------------------------------------------------------------------------------------------------------


def visits() -> Topology:
    """Sessions of users, and behind a repartition the visits of each page."""
    builder = StreamsBuilder()
    seen = builder.stream("visits", key=str, value=str)
    windows = SessionWindows.of_inactivity_gap_and_grace("1 second", "1 second")
    seen.group_by_key().windowed_by(windows).count("sessions").to_stream().to("sessions")
    seen.group_by(lambda user, page: page, key=str).count("pages").to_stream().to("pages")
    return builder.build()


def comet(folder: str, jar: str) -> Any:
    """The same batch with Comet and without it: its results, and the steps of Spark's plan that Comet runs."""
    spark, chosen = session(jar, COMET), random.Random(7)
    rows = [(f"u{chosen.randrange(40)}", f"p{chosen.randrange(9)}", chosen.randrange(60_000)) for _ in range(3000)]
    schema = "user string, page string, at bigint"
    spark.createDataFrame(rows, schema).repartition(3).write.parquet(f"{folder}/visits")
    found, steps = {}, list[str]()
    for enabled in ("true", "false"):
        spark.conf.set("spark.comet.enabled", enabled)
        frames = {"visits": spark.read.parquet(f"{folder}/visits")}
        given = {"key": "user", "value": "page", "timestamp": "at", "partitions": 5}
        with visits().run_batch(spark, frames, statestore_cache_max_bytes=0, **given) as result:
            plan = result._stages[0]._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]
            order = ("partition", "task", "number")
            outputs = [result.dataframe(topic).orderBy(*order).collect() for topic in ("sessions", "pages")]
            stores = [sorted(result.store(name).collect()) for name in ("sessions", "pages")]
            found[enabled] = outputs, stores, str(result.losses)
            steps = [name for name in STEPS if name in plan] if enabled == "true" else steps
    return {"same": found["true"] == found["false"], "steps": steps, "rows": len(outputs[0])}


# --- Iceberg ---------------------------------------------------------------------------------------------------------


def orders() -> Topology:
    """Each order into one table of Iceberg, and the sum of each customer kept equal in another."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=int)
    orders.to_spark_table("lake.shop.orders", key="customer", value="amount")
    sums = orders.group_by_key().reduce(lambda one, other: one + other, "sums")
    open_ = sums.filter(lambda customer, amount: amount < 100)
    open_.to_spark_table("lake.shop.sums", format="iceberg", key="customer", value="amount")
    return builder.build()


def iceberg(folder: str, jar: str) -> Any:
    """What the tables hold after the first run and after the second."""
    spark = session(jar, ICEBERG | {"spark.sql.catalog.lake.warehouse": f"{folder}/warehouse"})
    spark.sql("CREATE TABLE lake.shop.orders (customer string, amount bigint) USING iceberg")
    places = {"log": f"{folder}/log", "state_dir": f"{folder}/state"}
    found = []
    for records in ([("a", 1, 1), ("b", 2, 2), ("a", 3, 3)], [("b", 99, 4), ("c", 5, 5), ("a", 1, 6)]):
        produce(records, "orders", key=str, value=int, log=f"{folder}/log")
        with orders().start("shop", spark=spark, slots=1, **places) as streams:
            streams.process_all_available()
        tables = [spark.table(f"lake.shop.{name}") for name in ("orders", "sums")]
        found.append([sorted(map(list, table.collect())) for table in tables])
    return found


if __name__ == "__main__":
    job, folder, jar = sys.argv[1:]
    print(json.dumps({"comet": comet, "iceberg": iceberg}[job](folder, jar)))

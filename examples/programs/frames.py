"""Files in, tables out: sales of a Parquet file and prices of a CSV file by way of Spark, turnover as what people use.

In: `prices` and `sales`, both keyed by product. Out: `turnover`, and the store of this name. Run it with
`python examples/programs/frames.py [FOLDER]`; it needs `pip install polars duckdb`.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock import Materialized, StreamsBuilder, consume, open_store


@dataclass(frozen=True)
class Price:
    price: float


@dataclass(frozen=True)
class Sale:
    pieces: int


builder = StreamsBuilder()
prices = builder.table("prices", key=str, value=Price)
sales = builder.stream("sales", key=str, value=Sale)
amounts = sales.join(prices, lambda sale, price: sale.pieces * price.price, value=float)
turnover = amounts.group_by_key().reduce(lambda one, other: one + other, materialized=Materialized.as_("turnover"))
turnover.to_stream().to("turnover")
topology = builder.build()


def fill(spark: SparkSession, files: Path, log: Path) -> None:
    """The files as topics; each row comes at the time that it has."""
    csv = spark.read.csv(str(files / "prices.csv"), header=True, schema="product string, price double, since timestamp")
    penstock.write(csv, "prices", key="product", timestamp="since", log=log)
    penstock.write(spark.read.parquet(str(files / "sales.parquet")), "sales", key="product", timestamp="at", log=log)


def as_spark(spark: SparkSession, log: Path) -> DataFrame:
    """Each change of a turnover, as a number: ``typed`` gives what the topic has in it, and not its bytes."""
    topic = spark.read.format("penstock").option("topic", "turnover").option("log", str(log))
    return topic.option("typed", "true").load()


def as_pandas(log: Path) -> pd.DataFrame:
    """Each change of a turnover."""
    return pd.concat(consume("turnover", log=log, as_="pandas"))


def as_polars(log: Path) -> pl.DataFrame:
    """The last turnover of each product."""
    return pl.concat(consume("turnover", log=log, as_="polars")).group_by("key").last().sort("key")


def in_duckdb(log: Path) -> list[Any]:
    """The same from SQL."""
    changes = pa.Table.from_batches(consume("turnover", log=log, as_="arrow"))
    with duckdb.connect() as database:
        database.register("changes", changes)
        return database.sql(
            'SELECT key, last(value ORDER BY "offset") FROM changes GROUP BY key ORDER BY key'
        ).fetchall()


def store_in_duckdb(application: Path) -> list[Any]:
    """The turnovers as the application's store has them, the largest first."""
    with open_store(application, "turnover") as store, duckdb.connect() as database:
        database.register("turnovers", store)
        return database.sql("SELECT key, value FROM turnovers ORDER BY value DESC").fetchall()


def make_files(folder: Path) -> None:
    """Something to begin with."""
    (folder / "prices.csv").write_text(
        "product,price,since\ntea,4.5,2026-01-01T00:00:00Z\nrye,2,2026-01-01T00:00:00Z\n"
    )
    at = pd.to_datetime(["2026-03-01T09:00Z", "2026-03-01T09:30Z", "2026-03-01T10:00Z"])
    sales = pd.DataFrame({"product": ["tea", "rye", "tea"], "pieces": [2, 5, 4], "at": at})
    sales.to_parquet(folder / "sales.parquet", coerce_timestamps="us")


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_files(folder)
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    log = folder / "log"
    fill(spark, folder, log)
    streams = topology.start(
        application_id="turnover", log=log, state_dir=folder / "state", spark=spark, trigger="available-now"
    )
    streams.await_termination()
    as_spark(spark, log).show()
    for shown in (as_pandas(log), as_polars(log), in_duckdb(log), store_in_duckdb(folder / "state")):
        print(shown)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".penstock/frames"))

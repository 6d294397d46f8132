"""A job that a scheduler runs, and runs again when it was killed: ``python job.py FOLDER seed|batches``.

``seed`` makes the state of the morning; ``batches`` takes morning and noon, by their names.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from penstock import StreamsBuilder, Topology

COLUMNS = ["customer", "item", "at"]
MORNING = [(f"c{n % 7}", f"i{n % 3}", n) for n in range(100)]
NOON = [(f"c{n % 5}", f"i{n % 4}", n) for n in range(100, 180)]


def shop() -> Topology:
    """Orders, counted by customer, and by item behind a repartition."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=dict)
    orders.group_by_key().count("counts").to_stream().to("totals")
    orders.group_by(lambda key, order: order["item"], key=str).count("by_item").to_stream().to("items")
    return builder.build()


def main(folder: Path, what: str) -> None:
    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    given = {"key": "customer", "timestamp": "at", "log": folder / "log", "state_dir": folder / "state"}
    if what == "seed":
        frames = {"orders": spark.createDataFrame(MORNING, COLUMNS)}
        shop().run_batch(spark, frames, **given, partitions=2, seed="shop").close()
    else:
        for name, rows in (("morning", MORNING), ("noon", NOON)):
            frames = {"orders": spark.createDataFrame(rows, COLUMNS)}
            shop().run_batch(spark, frames, **given, partitions=2, application_id="shop", batch=name)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

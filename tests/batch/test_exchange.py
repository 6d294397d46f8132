"""Rows in the Spark partition that a column says, also before Spark 4.1, which has no method for it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as f

from penstock.engine.batch.exchange import moved

pytestmark = pytest.mark.slow


class OfSpark40:
    """A DataFrame without ``repartitionById``."""

    def __init__(self, frame: Any):
        self._frame = frame

    @property
    def sparkSession(self) -> Any:  # noqa: N802
        return self._frame.sparkSession

    def repartition(self, *given: Any) -> Any:
        return self._frame.repartition(*given)


@pytest.mark.parametrize("old", [True, False])
def test_each_row_is_in_the_partition_that_its_column_says(spark: Any, old: bool):
    frame = spark.range(70).select((f.col("id") % 7).cast("int").alias("p"))
    placed = moved(OfSpark40(frame) if old else frame, 7, "p").select("p", f.spark_partition_id().alias("is_in"))
    found = placed.groupBy("p", "is_in").count().orderBy("p").collect()
    assert [tuple(row) for row in found] == [(number, number, 10) for number in range(7)]

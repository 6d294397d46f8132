"""``Topology.run_batch`` on Spark: DataFrames in, DataFrames out."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import StreamsBuilder, TimeWindows

pytestmark = pytest.mark.slow

ORDERS = [(f"c{i % 5}", f"i{i % 3}", i, 1000 * i) for i in range(100)]
COLUMNS = ["customer", "item", "amount", "at"]


def shop() -> StreamsBuilder:
    """Orders that are filtered, counted by customer, and by item and minute."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=dict)
    orders.filter(lambda key, order: order["amount"] >= 97).map_values(lambda order: order["amount"], value=int).to(
        "large"
    )
    orders.group_by_key().count("counts").to_stream().to("totals")
    minutes = TimeWindows.of_size_with_no_grace("1 minute")
    by_item = orders.group_by(lambda key, order: order["item"], key=str).windowed_by(minutes)
    by_item.count("by_item").to_stream().to("items")
    return builder


def rows(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_output_topics_and_stores_are_dataframes_with_their_own_types(spark: Any) -> None:
    orders = spark.createDataFrame(ORDERS, COLUMNS)
    with shop().build().run_batch(spark, {"orders": orders}, key="customer", timestamp="at", partitions=2) as result:
        assert rows(result.dataframe("large"), "key", "value") == [("c2", 97), ("c3", 98), ("c4", 99)]
        assert rows(result.dataframe("totals"), "key", "value") == [(f"c{n}", 20) for n in range(5)]
        last = [(key, value) for key, value in rows(result.store("counts"), "key", "value")]
        assert last == [(f"c{n}", 20) for n in range(5)]
        items = rows(result.dataframe("items"), "key.key", "value")
        assert items == [("i0", 14), ("i0", 20), ("i1", 13), ("i1", 20), ("i2", 13), ("i2", 20)]
        assert result.store("by_item").columns == ["key", "window_start", "window_end", "value", "timestamp"]
        assert result.losses == ()
        kinds = dict(result.dataframe("items").dtypes)
        assert kinds["key"] == "struct<key:string,start:timestamp,end:timestamp>" and kinds["value"] == "bigint"

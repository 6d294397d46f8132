"""``map_values_async``, ``filter_async`` and ``format=`` on each engine, over both logs, and as a batch of Spark."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock import Kafka, StreamsBuilder, Topology, consume, debezium, produce

pytestmark = pytest.mark.slow

COUNT = 200


def awaiting(source: str = "orders", to: str = "cheap") -> Topology:
    async def price_of(order: dict[str, int]) -> dict[str, int]:
        await asyncio.sleep(0.001)
        return order | {"price": order["cents"] * 2}

    async def are_cheap(keys: list[int], orders: list[dict[str, int]]) -> list[bool]:
        await asyncio.sleep(0.001)
        return [order["price"] < COUNT for order in orders]

    builder = StreamsBuilder()
    orders = builder.stream(source, key=int, format=debezium(dict))
    orders.map_values_async(price_of, timeout="1 min").filter_async(are_cheap, batch=16).to(to)
    builder.table(source, key=int, format=debezium(dict), store="orders")
    return builder.build()


CHANGES = [({"id": n}, {"op": "c", "before": None, "after": {"cents": n}}) for n in range(COUNT)]
WANTED = [(n, {"cents": n, "price": 2 * n}) for n in range(COUNT // 2)]


@pytest.mark.parametrize("log", ["folder", "Kafka"])
@pytest.mark.parametrize("engine", ["local", "spark", "micro-batch"])
def test_a_program_awaits_on_each_engine(
    engine: str, log: str, spark: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source, to, place, application = "orders", "cheap", tmp_path / "log", "awaits"
    if log == "Kafka":
        cluster = request.getfixturevalue("cluster")
        source, to, place, application = cluster.topic(source, 2), cluster.topic(to, 2), cluster.log, cluster.name
    produce(CHANGES, source, key=dict, value=dict, partitions=2, log=place)
    given: dict[str, Any] = {"spark": None if engine == "local" else spark, "state_dir": tmp_path / "state"}
    given["log"] = Kafka(cluster.servers) if log == "Kafka" else place
    with awaiting(source, to).start(application, engine=engine, slots=2, **given) as streams:
        streams.process_all_available()
        assert streams.engine == engine
        assert sorted((row[0], row[1]) for row in streams.store("orders").all()) == [
            (n, {"cents": n}) for n in range(COUNT)
        ]
    if log == "Kafka":
        cluster.wait_for_records(to, len(WANTED))
    assert sorted((record.key, record.value) for record in consume(to, key=int, value=dict, log=place)) == WANTED


def test_a_batch_of_spark_awaits(spark: Any, tmp_path: Path) -> None:
    produce(CHANGES, "orders", key=dict, value=dict, partitions=2, log=tmp_path)
    orders = spark.read.format("penstock").option("topic", "orders").option("log", str(tmp_path)).load()
    with awaiting().run_batch(spark, {"orders": orders}, key="key", value="value") as result:
        found = [(row.key, row.value) for row in result.dataframe("cheap").collect()]
    assert len(found) == len(WANTED)
    assert sorted(key for key, _ in found) == [key for key, _ in WANTED]

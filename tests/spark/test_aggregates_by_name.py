"""Aggregates by name on every engine, over a folder and Kafka: their classes are made in each process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import penstock
from penstock import Count, First, Kafka, Max, Mean, StreamsBuilder, Sum, Topology, consume, produce

pytestmark = pytest.mark.slow


class Order(msgspec.Struct):
    user: str
    amount: int


class Stats(msgspec.Struct):
    n: int
    total: int | None
    mean: float | None
    first: str | None
    most: float | None


ORDERS = [("a", Order("x", 5)), ("b", Order("y", 1)), ("a", Order("z", 2))]
EXPECTED = [
    ("a", Stats(1, 5, 5.0, "x", 2.5)),
    ("a", Stats(2, 7, 3.5, "x", 2.5)),
    ("b", Stats(1, 1, 1.0, "y", 0.5)),
]


def topology(source: str, to: str) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream(source, key=str, value=Order).group_by(lambda key, order: key, name="by-key")
    stats = orders.aggregate(
        store="stats",
        n=Count(),
        total=Sum("amount"),
        mean=Mean("amount"),
        first=First("user"),
        most=Max(lambda order: order.amount / 2),
    )
    stats.to_stream().to(to)
    return builder.build()


@pytest.mark.parametrize("where", ["folder", "Kafka"])
@pytest.mark.parametrize("engine", ["local", "spark", "micro-batch"])
def test_each_engine_gives_the_same(
    engine: str, where: str, spark: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source, to, log, state, application = "orders", "stats", tmp_path / "log", tmp_path / "state", "shop"
    if where == "Kafka":
        cluster = request.getfixturevalue("cluster")
        source, to, log, application = cluster.topic(source, 2), cluster.topic(to, 2), cluster.log, cluster.name
    produce(ORDERS, source, key=str, value=Order, partitions=2, log=log)
    places: dict[str, Any] = {"engine": engine, "state_dir": state, "statestore_cache_max_bytes": 0}
    places["log"] = Kafka(cluster.servers) if where == "Kafka" else log
    running = topology(source, to).start(application, spark=None if engine == "local" else spark, **places)
    with running as streams:
        streams.process_all_available()
        kept = streams.store("stats").get("a")
        assert (kept.n, kept.total, kept.mean) == (2, 7, 3.5)
        with penstock.open_store(str(state), "stats") as rows:  # as another process does
            assert {key: row["mean.sum"] for key, row, _ in rows.all()} == {"a": 7, "b": 1}
    if where == "Kafka":
        cluster.wait_for_records(to, len(EXPECTED))
    found = [(record.key, record.value) for record in consume(to, key=str, value=Stats, log=log)]
    assert sorted(found, key=lambda row: (row[0], row[1].n)) == EXPECTED

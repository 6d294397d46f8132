"""In which order a batch takes the rows of a DataFrame, whatever Spark does to them."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Suppressed, TimeWindows, Topology
from penstock.arrays import partitions as partitions_of
from penstock.engine.batch import exchange, frames
from penstock.engine.batch.arguments import Columns, sources_of
from penstock.serdes import STR, of
from penstock.testing import TopologyTestDriver
from support.batches import live, log_of
from support.topologies import topology_of

pytestmark = pytest.mark.slow

EVERY = {"statestore_cache_max_bytes": 0}
KIND = "key string, value bigint, at bigint, place bigint"


def windows(then: Callable[[Any], Any] = lambda value: value) -> Topology:
    """Counts in windows, of which late records are left out; and what is final of them, by letter."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int).map_values(then, value=int)
    minutes = TimeWindows.of_size_and_grace(20, 5)
    counts = numbers.group_by_key().windowed_by(minutes).count("counts")
    counts.to_stream().to("every")
    final = counts.suppress(Suppressed.until_window_closes())
    final.to_stream(lambda key, count: key.key[0], key=str).to("final")
    return builder.build()


def disordered(count: int = 300) -> list[tuple[Any, ...]]:
    chosen = random.Random(5)
    return [(f"{chosen.choice('abc')}{n % 4}", n, max(n + chosen.randint(-40, 10), 0), n) for n in range(count)]


def everything(result: Any) -> dict[str, list[Any]]:
    """All output topics and stores, in order of their tasks."""
    found: dict[str, list[Any]] = {}
    for topic in result.topics:
        frame = result.dataframe(topic)
        found[topic] = frame.orderBy("partition", "task", "number").collect()
    for name in result.stores:
        found[name] = sorted(result.store(name).collect())
    found["losses"] = list(result.losses)
    return found


def test_rows_are_taken_by_their_times_and_nothing_is_late_whatever_files_they_lie_in(
    spark: Any, tmp_path: Path
) -> None:
    rows, found = disordered(), []
    for number, partitions in enumerate((1, 3, 16)):
        random.Random(number).shuffle(rows)
        folder = str(tmp_path / str(number))
        spark.createDataFrame(rows, KIND).repartition(partitions).write.parquet(folder)
        frames = {"in": spark.read.parquet(folder).repartition(partitions)}
        given = {"key": "key", "value": "value", "timestamp": "at", "partitions": 3}
        with windows().run_batch(spark, frames, **given, **EVERY) as result:
            found.append(everything(result))
    assert found[0] == found[1] == found[2]
    assert found[0]["losses"] == []
    assert len(found[0]["every"]) == len(rows)


def test_rows_are_taken_as_they_arrived_where_a_column_says_so_and_late_is_late(spark: Any) -> None:
    rows = disordered()
    driver = TopologyTestDriver(windows(), **EVERY)
    for key, value, at, _ in rows:
        driver.pipe_input("in", key, value, at)
    frames = {"in": spark.createDataFrame(random.Random(1).sample(rows, len(rows)), KIND)}
    given = {"key": "key", "value": "value", "timestamp": "at", "order": "place"}
    with windows().run_batch(spark, frames, **given, partitions=1, **EVERY) as result:
        found = everything(result)
    for topic in ("every", "final"):
        expected = [record.value for record in driver.read_output(topic)]
        assert [row.value for row in found[topic]] == expected
    (loss,) = found["losses"]
    assert (loss.metric, loss.records) == ("late-record-drop-total", driver.dropped_records_total())
    assert loss.records > 20


def test_rows_that_bring_their_partition_and_offset_stay_where_they_arrived(spark: Any) -> None:
    """As rows of Spark's Kafka source do; here they lie where Kafka's partitioner puts their keys anyway."""
    rows = disordered()
    placed = partitions_of(STR.encode_all([row[0] for row in rows]), 3, 0).tolist()
    several = [(*row, partition) for row, partition in zip(rows, placed, strict=True)]
    frames = {"in": spark.createDataFrame(random.Random(2).sample(several, len(rows)), f"{KIND}, part int")}
    given = {"key": "key", "value": "value", "timestamp": "at"}
    found = []
    for order in ({"order": "place", "partitions": 3}, {"order": {"in": ("part", "place")}}):
        with windows().run_batch(spark, frames, **given, **order, **EVERY) as result:
            found.append(everything(result))
    assert found[0] == found[1]
    assert set(placed) == {0, 1, 2}
    assert found[0]["losses"]


@pytest.mark.parametrize(
    ("kind", "keys", "written", "in_python"),
    [
        ("string", ["", "a", "schön", "a long key with words", None], str, False),
        ("binary", [b"", b"\xff\xfe", b"abc", b"12345678", None], bytes, False),
        ("bigint", [0, 1, -1, 2**62, None], int, False),
        ("tinyint", [0, 1, -1, 127, None], int, False),
        ("double", [0.5, -1.0, 1e300, 7.0, None], float, True),
    ],
)
def test_a_key_goes_to_the_task_that_kafkas_partitioner_gives_it(
    kind: str, keys: list[Any], written: type, in_python: bool, spark: Any
) -> None:
    """In the JVM where Kafka's hash can be had there; where not, keys go to Python."""
    builder = StreamsBuilder()
    builder.stream("in", key=written, value=int).to("out")
    rows = [(key, n, n) for n, key in enumerate(keys * 3)]
    frame = spark.createDataFrame(rows, f"key {kind}, value bigint, at bigint")
    given = {"key": "key", "value": "value", "timestamp": "at", "partitions": 7}
    with builder.build().run_batch(spark, {"in": frame}, **given) as result:
        found = result.dataframe("out", ["key", "task"]).collect()
    serde = of(written)
    placed = partitions_of(serde.encode_all(keys[:-1]), 7, 0).tolist()
    assert len(found) == len(rows)
    with_keys = [(serde.encode(row["key"]), row["task"]) for row in found if row["key"] is not None]
    assert set(with_keys) == {(serde.encode(key), f"0_{place}") for key, place in zip(keys, placed, strict=False)}
    columns = Columns("key", "value", "at")
    (source,) = sources_of(builder.build(), {"in": frame}, columns).values()
    plan = frame.select(frames.partition_of(source, 7))._jdf.queryExecution().executedPlan().toString()
    assert ("Python" in plan) == in_python, plan


NAMES = ["merge", "global_table_join", "table_join_by_foreign_key", "cogroup_of_a_stream_by_key_and_by_value"]
"""Several topics; global tables; changes with old values; causes that meet, around a cycle."""


@pytest.mark.parametrize("name", NAMES)
def test_several_topics_give_what_they_give_live(name: str, spark: Any) -> None:
    """The rows go to the partitions that the records have in the log, and in their order."""
    topology, chosen = topology_of(name), random.Random(3)
    topics = [topic for topic in topology.source_topics if topic not in topology.sink_topics]
    rows = [
        (chosen.choice(topics), chosen.choice("abcde"), chosen.choice([0, 1, 2, 3, None]), chosen.randint(0, 90))
        for _ in range(80)
    ]
    expected = live(topology, log_of(topology, rows, 3), **EVERY)
    frames = {
        topic: spark.createDataFrame([(*row[1:], n) for n, row in enumerate(rows) if row[0] == topic], KIND)
        for topic in topics
    }
    given = {"key": "key", "value": "value", "timestamp": "at", "order": "place", "partitions": 3}
    with topology.run_batch(spark, frames, **given, **EVERY) as result:
        found = everything(result)
    assert found["losses"] == list(expected.losses)
    for topic, records in expected.outputs.items():
        wanted = sorted(repr((r["partition"], r["key"], r["value"], r["timestamp"])) for r in records)
        keys = [row.key.asDict() if hasattr(row.key, "asDict") else row.key for row in found[topic]]
        times = [round(row.timestamp.timestamp() * 1000) for row in found[topic]]
        pairs = zip(found[topic], keys, times, strict=True)
        assert sorted(repr((row.partition, key, row.value, time)) for row, key, time in pairs) == wanted


def test_a_task_that_spark_runs_twice_gives_the_same(spark: Any, tmp_path: Path) -> None:
    killed = tmp_path / "killed"

    def dies_once(value: int) -> int:
        if value == 250 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    frames = {"in": spark.createDataFrame(disordered(), KIND)}
    given = {"key": "key", "value": "value", "timestamp": "at", "order": "place", "partitions": 2}
    found = []
    for topology in (windows(), windows(dies_once)):
        with topology.run_batch(spark, frames, **given, **EVERY) as result:
            found.append(everything(result))
    assert killed.exists()
    assert found[0] == found[1]


@pytest.mark.parametrize("tasks", [2, 8, 150])
def test_an_exchange_by_hash_brings_rows_to_the_same_partitions_as_one_by_number(spark: Any, tasks: int) -> None:
    """As sessions with Comet need it."""
    from pyspark.sql import functions as f

    rows = spark.range(2 * tasks).select((f.col("id") % tasks).cast("int").alias("partition"))
    moved = rows.repartition(tasks, f.element_at(f.lit(exchange.numbers(tasks)), f.col("partition") + 1))
    found = moved.select("partition", f.spark_partition_id()).distinct().collect()
    assert sorted(map(tuple, found)) == [(number, number) for number in range(tasks)]

"""Results of a program in tables of Spark and of databases, each once, and as DataFrames with types of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, TimeWindows, faults
from penstock.engine.children.jdbc import DatabaseSink
from penstock.engine.spark.streams import Streams
from penstock.errors import ConfigError
from penstock.log.produce import produce

pytestmark = pytest.mark.slow


@dataclass
class Sum:
    orders: int
    amount: float


@contextmanager
def running(builder: StreamsBuilder, folder: Path, spark: Any) -> Iterator[Streams]:
    places = {"log": folder / "log", "state_dir": folder / "state"}
    with builder.build().start("shop", spark=spark, slots=1, statestore_cache_max_bytes=0, **places) as streams:
        streams.process_all_available()
        yield streams


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(one) for one in frame.collect())


def put(folder: Path, *records: tuple[str, Any, int]) -> None:
    produce(records, "in", key=str, value=int, log=folder / "log")


def sums(builder: StreamsBuilder) -> Any:
    def add(key: str, amount: int, so_far: Sum) -> Sum:
        return Sum(so_far.orders + 1, so_far.amount + amount)

    return builder.stream("in", key=str, value=int).group_by_key().aggregate(lambda: Sum(0, 0.0), add, value=Sum)


def test_structs_and_windows_become_columns_of_a_table(spark: Any, tmp_path: Path):
    put(tmp_path, ("a", 5, 1_000), ("a", 7, 2_000), ("b", 6, 61_000))
    builder = StreamsBuilder()
    given = {"format": "parquet", "key": "customer"}
    sums(builder).to_stream().to_spark_table(path=tmp_path / "sums", name="sums", timestamp="at", **given)
    stream = builder.stream("in", key=str, value=int)
    windows = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace("1 minute")).count("minutes")
    windows.to_stream().to_spark_table(path=tmp_path / "minutes", name="minutes", value="orders", **given)
    with running(builder, tmp_path, spark):
        pass
    found = spark.read.parquet(str(tmp_path / "sums"))
    assert found.dtypes == [("customer", "string"), ("orders", "bigint"), ("amount", "double"), ("at", "timestamp")]
    assert rows(found.selectExpr("customer", "orders", "amount", "unix_millis(at)")) == [
        ("a", 1, 5.0, 1_000), ("a", 2, 12.0, 2_000), ("b", 1, 6.0, 61_000),
    ]  # fmt: skip
    minutes = spark.read.parquet(str(tmp_path / "minutes"))
    assert rows(minutes.selectExpr("customer", "unix_millis(window_start)", "unix_millis(window_end)", "orders")) == [
        ("a", 0, 60_000, 1), ("a", 0, 60_000, 2), ("b", 60_000, 120_000, 1),
    ]  # fmt: skip


def test_a_table_of_a_database_follows_updates_and_deletions_through_restarts(spark: Any, tmp_path: Path):
    options = {"url": f"jdbc:derby:memory:{tmp_path.name};create=true"}

    def builder() -> StreamsBuilder:
        made = StreamsBuilder()
        counts = made.stream("in", key=str, value=int).group_by_key().count("counts")
        some = counts.filter(lambda key, count: count != 2)
        some.to_spark_table("counts", format="jdbc", key="customer", value="orders", options=options)
        counts.to_stream().to_spark_table("history", format="jdbc", value="orders", options=options)
        return made

    def table(name: str) -> list[tuple[Any, ...]]:
        return rows(spark.read.format("jdbc").options(**options, dbtable=name).load())

    put(tmp_path, ("a", 1, 1), ("b", 1, 2), ("b", 1, 3))
    with running(builder(), tmp_path, spark):
        assert table("counts") == [("a", 1)]
    put(tmp_path, ("b", 1, 4), ("c", 1, 5))
    with running(builder(), tmp_path, spark):
        assert table("counts") == [("a", 1), ("b", 3), ("c", 1)]
    assert table("history") == [("a", 1), ("b", 1), ("b", 2), ("b", 3), ("c", 1)]


def test_a_batch_that_is_repeated_counts_once_in_a_database(spark: Any, tmp_path: Path):
    builder = StreamsBuilder()
    options = {"url": f"jdbc:derby:memory:{tmp_path.name};create=true"}
    builder.stream("in", key=str, value=int).to_spark_table("numbers", format="jdbc", value="n", options=options)
    [(topic, sink)] = builder.build().table_sinks.items()
    assert sink.outside is not None
    query = DatabaseSink("shop", sink.outside, topic, sink.types, str(tmp_path), str(tmp_path / "progress"))
    query.check(spark)
    for number, values in ((0, [1]), (1, [2]), (1, [2]), (0, [1]), (2, [3])):
        query._put(spark.createDataFrame([("a", n) for n in values], query._columns.schema), "q-1", number)
    found = spark.read.format("jdbc").options(**options, dbtable="numbers").load()
    assert rows(found) == [("a", 1), ("a", 2), ("a", 3)]


def test_what_a_table_cannot_do_is_refused_before_anything_is_begun(spark: Any, tmp_path: Path):
    put(tmp_path, ("a", 1, 1))
    spark.createDataFrame([], "key string, value bigint").write.saveAsTable("plain")
    cases = {
        "plain": "table plain: it is of parquet, whose rows cannot be changed, so there is no upsert into it",
        "nowhere": 'table nowhere: it does not exist. Make it first, or say what to make: format="delta"',
    }
    for table, message in cases.items():
        builder = StreamsBuilder()
        builder.stream("in", key=str, value=int).group_by_key().count("counts").to_spark_table(table)
        with pytest.raises(ConfigError) as error, running(builder, tmp_path, spark):
            pass
        assert message in str(error.value)
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to_spark_table("plain", value="n")
    with (
        pytest.raises(ConfigError, match="the table has no column 'n'; it has key, value"),
        running(builder, tmp_path, spark),
    ):
        pass
    builder = StreamsBuilder()
    sums(builder).to_stream().to_spark_table("sums", key="orders")
    with (
        pytest.raises(ConfigError, match="two columns of table sums are called 'orders'"),
        running(builder, tmp_path, spark),
    ):
        pass


def test_results_are_a_streaming_dataframe_with_types_of_their_own(spark: Any, tmp_path: Path):
    put(tmp_path, ("a", 5, 1_000), ("a", 7, 2_000))
    builder = StreamsBuilder()
    frame = sums(builder).to_stream().to_dataframe(spark, "sums", log=tmp_path / "log")
    assert frame.isStreaming
    assert frame.dtypes[:2] == [("key", "string"), ("value", "struct<orders:bigint,amount:double>")]
    with running(builder, tmp_path, spark):
        query = frame.select("key", "value.*", "offset").writeStream.format("memory").queryName("sums").start()
        query.processAllAvailable()
        query.stop()
    assert rows(spark.table("sums")) == [("a", 1, 5.0, 0), ("a", 2, 12.0, 1)]


DELTA = """
import json, sys
from support.delta import with_delta
from pyspark.sql import SparkSession
from penstock import StreamsBuilder, produce
folder, jars = sys.argv[1:]
builder = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse")
spark = with_delta(builder.config("spark.sql.shuffle.partitions", "2"), jars).getOrCreate()
table = f"delta.`{folder}/table`"
spark.sql(f"CREATE TABLE {table} (k STRING, n INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
spark.sql(f"INSERT INTO {table} VALUES ('a', 1), ('b', 2), ('c', 3)")
spark.sql(f"UPDATE {table} SET n = 10 WHERE k = 'a'")
spark.sql(f"DELETE FROM {table} WHERE k = 'b'")
def start():
    builder = StreamsBuilder()
    feed = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    stock = builder.table(feed.load(f"{folder}/table"), name="stock", key="k", value="n", store="stock", partitions=2)
    stock.to_spark_table(path=f"{folder}/copy", format="delta", name="copy", key="k", value="n")
    stock.to_spark_table("copied", format="delta", key="k", value="n")
    places = {"log": f"{folder}/log", "state_dir": f"{folder}/state"}
    with builder.build().start("shop", spark=spark, slots=1, **places) as streams:
        streams.process_all_available()
    found = [spark.table("copied"), spark.read.format("delta").load(f"{folder}/copy")]
    named, at_path = (sorted(map(list, one.collect())) for one in found)
    assert named == at_path
    return at_path
first = start()
spark.sql(f"MERGE INTO {table} t USING (SELECT 'c' AS k UNION SELECT 'd') s ON t.k = s.k "
          "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 4)")
print(json.dumps([first, start()]))
"""


def test_a_change_feed_of_delta_goes_through_a_table_into_a_copy_in_delta(tmp_path: Path):
    import json
    import os
    import subprocess
    import sys

    from support.delta import jars

    tests = str(Path(__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    command = [sys.executable, "-c", DELTA, str(tmp_path), jars()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[["a", 10], ["c", 3]], [["a", 10], ["d", 4]]]


def test_a_batch_that_fails_behind_any_point_is_repeated_and_counts_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    left = {"before-rows", "after-rows", "before-table", "after-table"}

    def fail(point: str) -> None:
        if point in left:
            left.remove(point)
            raise OSError(f"the network is gone at {point}")

    monkeypatch.setattr(faults, "listener", fail)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "1.json").write_text('{"k": "a"}\n{"k": "b"}\n{"k": "a"}')
    options = {"url": f"jdbc:derby:memory:{tmp_path.name};create=true"}
    builder = StreamsBuilder()
    frame = spark.readStream.schema("k string").json(str(tmp_path / "files"))
    counts = builder.stream(frame, name="rows", key="k", partitions=1).group_by_key().count("counts").to_stream()
    counts.to_spark_table("history", format="jdbc", value="orders", options=options)
    with running(builder, tmp_path, spark):
        found = spark.read.format("jdbc").options(**options, dbtable="history").load()
        assert rows(found) == [("a", 1), ("a", 2), ("b", 1)]
    assert left == set()

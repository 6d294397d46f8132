"""``Topology.run_batch`` on Spark: DataFrames in, DataFrames out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from engine.test_headers_in_stores import keeping
from penstock import Record, StreamsBuilder, TimeWindows, Topology, open_store
from penstock.errors import ConfigError, PenstockError, ProcessingError
from penstock.log.produce import produce
from support.world import World

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
        assert kinds["key"] == "struct<key:string,start:timestamp,end:timestamp>"
        assert kinds["value"] == "bigint"


@pytest.mark.parametrize("given", [None, "1048576"])
def test_a_batch_leaves_the_settings_of_the_session_as_they_were(given: str | None, spark: Any) -> None:
    name, orders = "spark.sql.execution.arrow.maxBytesPerBatch", spark.createDataFrame(ORDERS, COLUMNS)
    if given is not None:
        spark.conf.set(name, given)
    try:
        shop().build().run_batch(spark, {"orders": orders}, key="customer", timestamp="at", partitions=2).close()
        assert spark.conf.get(name, None) == given
    finally:
        spark.conf.unset(name)


def counted() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=dict).group_by_key().count("counts").to_stream().to("out")
    return builder.build()


TIMES = {
    "timestamp": "timestamp '2026-01-02 03:04:05'",
    "without-zone": "timestamp_ntz '2026-01-02 03:04:05'",
    "text": "'2026-01-02T03:04:05Z'",
    "milliseconds": "1767323045000L",
    "seconds": "1767323045",
    "date": "date '2026-01-02'",
}


def test_a_dataframe_of_results_has_the_columns_that_are_asked_for(spark: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to("out")
    given = {"key": "k", "value": "v", "timestamp": "t", "partitions": 1}
    with builder.build().run_batch(
        spark, {"in": spark.createDataFrame([("a", 1, 7), ("b", 2, 5)], ["k", "v", "t"])}, **given
    ) as result:
        assert result.dataframe("out", ["value", "key"]).collect() == [(2, "b"), (1, "a")]
        assert result.dataframe("out", columns=["number", "task"]).collect() == [(0, "0_0"), (1, "0_0")]
        assert result.dataframe("out").columns == [
            "key", "value", "timestamp", "partition", "headers", "task", "number",
        ]  # fmt: skip
        for wrong, said in (
            (["vallue"], "columns: there is no column 'vallue' (did you mean 'value'?); the columns are key, value, "),
            ([], "columns takes some of key, value, timestamp, partition, headers, task, number, each once; got []"),
            (
                ["key", "key"],
                "columns takes some of key, value, timestamp, partition, headers, task, number, each once",
            ),
            (3, "columns: there is no column 3; the columns are key"),
        ):
            with pytest.raises(ConfigError, match=re.escape(said)):
                result.dataframe("out", wrong)


def test_times_are_timestamps_dates_text_and_numbers_in_utc(spark: Any) -> None:
    builder = StreamsBuilder()
    builder.stream(list(TIMES), key=str, value=dict).to("out")
    frames = {topic: spark.sql(f"select '{topic}' as key, {time} as at") for topic, time in TIMES.items()}
    given = {"key": "key", "timestamp": "at", "timestamp_unit": {"seconds": "s"}, "partitions": 2}
    with builder.build().run_batch(spark, frames, **given) as result:
        found = rows(result.dataframe("out").selectExpr("key", "unix_millis(timestamp) as at"), "key", "at")
    assert found == sorted((topic, 1767312000000 if topic == "date" else 1767323045000) for topic in TIMES)


def test_values_are_whole_rows_of_any_columns_and_equal_ones_count_each(spark: Any) -> None:
    nested = "map('x', 1) as pairs, array(1, 2) as list, struct(3 as n) as `a b.c`"
    frame = spark.sql(f"select 'a' as key, {nested}, 7L as at")
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=dict).map_values(lambda row: repr(row), value=str).to("out")
    with builder.build().run_batch(spark, {"in": frame.union(frame)}, key="key", timestamp="at") as result:
        found = [row.value for row in result.dataframe("out").collect()]
    assert found == 2 * ["{'key': 'a', 'pairs': {'x': 1}, 'list': [1, 2], 'a b.c': {'n': 3}, 'at': 7}"]


def test_what_a_failed_record_does_is_said_or_counted_as_the_settings_want(spark: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).map_values(lambda value: 10 // value, value=int).to("out")
    topology = builder.build()
    frames = {"in": spark.createDataFrame([("a", 0), ("b", 5)], "key string, value bigint")}
    given = {"key": "key", "value": "value", "partitions": 1}
    with pytest.raises(ProcessingError, match=r"division or modulo by zero|integer division"):
        topology.run_batch(spark, frames, **given)
    with topology.run_batch(spark, frames, **given, on_error="dead_letter:failed") as result:
        assert [row.value for row in result.dataframe("out").collect()] == [2]
        assert [bytes(row.key) for row in result.dataframe("failed").collect()] == [b"a"]
        assert [(loss.metric, loss.records) for loss in result.losses] == [("dead-letter-records-total", 1)]


def test_topics_of_the_log_are_read_from_it_beside_dataframes_and_alone(spark: Any, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    prices = [("tea", 3, 0), ("milk", 1, 0)]
    penstock.produce(prices, "prices", key=str, value=int, log=log, partitions=2)
    builder = StreamsBuilder()
    table = builder.table("prices", key=str, value=int, store="prices")
    builder.stream("sales", key=str, value=int).join(table, lambda sold, price: sold * price, value=int).to("worth")
    sales = spark.createDataFrame([("tea", 2, 10), ("milk", 5, 11)], "item string, pieces bigint, at bigint")
    given = {"key": "item", "value": "pieces", "timestamp": "at"}
    with builder.build().run_batch(spark, {"sales": sales}, **given, log=log) as result:
        assert rows(result.dataframe("worth"), "key", "value") == [("milk", 5), ("tea", 6)]
    alone = StreamsBuilder()
    alone.table("prices", key=str, value=int, store="prices").to_stream().to("out")
    with alone.build().run_batch(spark, log=log) as result:
        assert rows(result.dataframe("out"), "key", "value") == [("milk", 1), ("tea", 3)]
        assert rows(result.store("prices"), "key", "value") == [("milk", 1), ("tea", 3)]


@pytest.mark.kip("44-04")
def test_stores_with_headers_have_the_rows_of_a_live_program(spark: Any, tmp_path: Path) -> None:
    records = [Record(f"k{n % 9}", n, n, (("n", b"%d" % n),) if n % 3 else ()) for n in range(60)]
    world = World(tmp_path, keeping())
    produce(records, "in", str, int, world.log, partitions=3)
    application = world.start()
    application.run_until()
    application.close()
    with keeping().run_batch(spark, log=tmp_path / "log") as result:
        for name in ("rows", "windows", "sessions"):
            with open_store(tmp_path / "checkpoint", name) as view:
                expected = pa.table(view).to_pylist()
            found = pa.table(result.store(name).toArrow()).to_pylist()
            assert "headers" in found[0]
            assert sorted(map(str, found)) == sorted(map(str, expected))


def test_what_cannot_work_is_refused_before_anything_runs(spark: Any) -> None:
    frame = spark.sql("select 'a' as customer, 1L as amount, 2L as at")

    def refusal(*frames: Any, topology: Topology | None = None, **given: Any) -> str:
        with pytest.raises(PenstockError) as error:
            (topology or counted()).run_batch(spark, *frames, **given)
        return str(error.value)

    assert "reads topic 'in', for which there is no DataFrame, and no log was given" in refusal()
    assert "topic 'inn', which the topology does not read (did you mean 'in'?)" in refusal({"inn": frame})
    assert "key names column 'custmer', which the DataFrame does not have" in refusal({"in": frame}, key="custmer")
    assert "key names topic 'orders', for which there is no DataFrame" in refusal({"in": frame}, key={"orders": "x"})
    assert "order names column 'offset'" in refusal({"in": frame}, order="offset")
    assert "order is the column that says" in refusal({"in": frame}, order=("a", "b", "c"))
    kinds = frame.selectExpr("'10' as text", "1.5D as part", "1L as whole")
    assert "order: column 'text' is of type string; take whole numbers or times" in refusal({"in": kinds}, order="text")
    said = "order: column 'part' is of type double; a partition is a whole number"
    assert said in refusal({"in": kinds}, order=("part", "whole"))
    assert "must hold timestamps or whole milliseconds" in refusal({"in": frame.selectExpr("true t")}, timestamp="t")
    assert "holds values of type int, but the source" in refusal({"in": frame}, value="amount")
    assert "takes a DataFrame of Spark; got [1]" in refusal({"in": [1]})
    assert "a streaming DataFrame has no end" in refusal({"in": spark.readStream.format("rate").load()})
    assert "there is no store 'count' (did you mean 'counts'?)" in refusal({"in": frame}, stores=["count"])
    assert "partitions is a number from 1 on; got 0" in refusal({"in": frame}, partitions=0)
    variant = spark.sql("select parse_json('1') as v, 1L as at")
    assert "which a topic cannot keep" in refusal({"in": variant})
    looping = StreamsBuilder()
    looping.stream("in", key=str, value=dict).merge(looping.stream("again", key=str, value=dict)).to("again")
    assert "around a cycle of topics: again" in refusal({"in": frame}, topology=looping.build())


def test_results_that_were_not_kept_or_written_are_refused(spark: Any) -> None:
    frame = spark.sql("select 'a' as key, 1L as at")
    with counted().run_batch(spark, {"in": frame}, key="key", timestamp="at", stores=[]) as result:
        with pytest.raises(ConfigError, match="its rows were not kept: name it in stores="):
            result.store("counts")
        with pytest.raises(ConfigError, match=r"no topic 'outt' was written .did you mean 'out'"):
            result.dataframe("outt")


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ("'soon'", "holds 'soon', which is no time in ISO 8601"),
        ("cast(null as timestamp)", "holds no time in some row"),
        ("-1L", "holds -1; a timestamp is not before 1970"),
    ],
)
def test_a_row_without_a_time_ends_the_batch_and_says_so(time: str, said: str, spark: Any) -> None:
    frame = spark.sql(f"select 'a' as key, {time} as at")
    with pytest.raises(ConfigError, match=re.escape(said)):
        counted().run_batch(spark, {"in": frame}, key="key", timestamp="at", partitions=1)


@pytest.mark.parametrize(
    ("partition", "offset", "said"),
    [
        ("null", "0", "column 'p' holds nothing in some row (null). Fill it (coalesce), or leave such rows out"),
        ("0", "null", "column 'o' holds nothing in some row (null). Fill it (coalesce), or leave such rows out"),
        ("-1", "0", "column 'p' holds -1, and the partitions are 0 to 1; partitions= says how many there are"),
        ("2", "0", "column 'p' holds 2, and the partitions are 0 to 1; partitions= says how many there are"),
    ],
)
def test_a_row_of_no_partition_or_without_an_offset_ends_the_batch(
    partition: str, offset: str, said: str, spark: Any
) -> None:
    row = f"'a', 1L, int({partition}), bigint({offset})"
    frame = spark.sql(f"select * from values ('b', 1L, 0, 1L), ({row}) as t(key, at, p, o)")
    with pytest.raises(ConfigError) as error:
        counted().run_batch(spark, {"in": frame}, key="key", timestamp="at", order=("p", "o"), partitions=2)
    assert str(error.value) == f"run_batch: topic 'in': order: {said}"

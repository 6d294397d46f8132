"""Streaming DataFrames as sources of a program: their rows come in once, and as one program with it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Topology, consume, schema_of
from penstock.engine.spark.streams import Streams
from penstock.errors import ConfigError, QueryError, TopologyError
from penstock.log.file.log import FileLog
from penstock.log.produce import produce

pytestmark = pytest.mark.slow

COLUMNS = "k string, n int, at timestamp"


def put(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    """A file of rows, which appears at once."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("\n".join(json.dumps(row) for row in rows))
    hidden.rename(folder / f"{name}.json")


def files(spark: Any, folder: Path, columns: str = COLUMNS, **options: Any) -> Any:
    folder.mkdir(exist_ok=True)
    return spark.readStream.schema(columns).options(**options).json(str(folder))


def row(key: str | None, n: int, second: int) -> dict[str, Any]:
    return {"k": key, "n": n, "at": f"2026-01-01T00:00:{second:02d}Z"}


def start(topology: Topology, folder: Path, spark: Any, **given: Any) -> Streams:
    places = {"log": folder / "log", "state_dir": folder / "state"}
    return topology.start("shop", spark=spark, slots=1, **places, **given)


def records(folder: Path, topic: str, **types: Any) -> list[tuple[Any, ...]]:
    return [record[:2] for record in consume(topic, log=folder / "log", **types)]


def counting(spark: Any, folder: Path) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream(files(spark, folder / "in"), name="orders", key="k", timestamp="at", partitions=1)
    orders.group_by_key().count("counts").to_stream().to("out")
    return builder.build()


def test_rows_of_a_dataframe_are_records_of_a_program_and_go_on_where_they_were(spark: Any, tmp_path: Path):
    put(tmp_path / "in", "1", row("a", 1, 1), row("b", 2, 2), row("a", 3, 3))
    with start(counting(spark, tmp_path), tmp_path, spark, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
        [child] = streams.last_progress.children
        assert (child.name, child.topic, child.state, child.rows) == ("orders", "shop-orders-source", "running", 3)
    assert records(tmp_path, "out", key=str, value=int) == [("a", 1), ("b", 1), ("a", 2)]
    put(tmp_path / "in", "2", row("b", 4, 4))
    with start(counting(spark, tmp_path), tmp_path, spark, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
    assert records(tmp_path, "out", key=str, value=int)[3:] == [("b", 2)]
    found = [record[:3] for record in consume("shop-orders-source", log=tmp_path / "log")]
    first = {"k": "a", "n": 1, "at": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)}
    assert (len(found), found[0]) == (4, ("a", first, 1_767_225_601_000))


def test_rows_of_a_micro_batch_are_taken_by_their_times_or_as_order_says(spark: Any, tmp_path: Path):
    rows = [row("a", 3, 3), row("b", 1, 1), row(None, 2, 2), row("a", 4, 0)]
    for number, one in enumerate(rows):
        put(tmp_path / "in", str(number), one)
    builder = StreamsBuilder()
    for name, given in {"times": {}, "said": {"order": "n"}}.items():
        frame = files(spark, tmp_path / "in")
        builder.stream(frame, name=name, key="k", value="n", timestamp="at", partitions=1, **given).to(f"{name}-out")
    with start(builder.build(), tmp_path, spark) as streams:
        streams.process_all_available()
    assert [value for _, value in records(tmp_path, "times-out")] == [4, 1, 2, 3]
    assert [value for _, value in records(tmp_path, "said-out")] == [1, 2, 3, 4]


def test_a_change_feed_becomes_updates_and_deletions(spark: Any, tmp_path: Path):
    kinds = [
        ("insert", 1, "a", 1), ("insert", 1, "b", 2), ("insert", 1, "c", 3),
        ("update_preimage", 2, "a", 1), ("update_postimage", 2, "a", 10),
        ("delete", 3, "b", 2), ("insert", 4, "c", 30), ("delete", 4, "c", 3),
    ]  # fmt: skip
    for number, (kind, version, key, n) in enumerate(reversed(kinds)):
        put(tmp_path / "in", str(number), {"k": key, "n": n, "_change_type": kind, "_commit_version": version})
    feed = files(spark, tmp_path / "in", "k string, n int, _change_type string, _commit_version bigint")
    builder = StreamsBuilder()
    builder.table(feed, name="stock", key="k", store="stock", partitions=1).to_stream().to("out")
    with start(builder.build(), tmp_path, spark, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
        assert [(k, v) for k, v, _ in streams.store("stock").all()] == [
            ("a", {"k": "a", "n": 10}),
            ("c", {"k": "c", "n": 30}),
        ]
    assert records(tmp_path, "out", key=str) == [
        ("a", {"k": "a", "n": 1}), ("b", {"k": "b", "n": 2}), ("c", {"k": "c", "n": 3}),
        ("a", {"k": "a", "n": 10}), ("b", None), ("c", None), ("c", {"k": "c", "n": 30}),
    ]  # fmt: skip


def test_a_program_that_ends_with_its_input_takes_all_rows_that_are_there(spark: Any, tmp_path: Path):
    for number in range(3):
        put(tmp_path / "in", str(number), row("a", number, number))
    builder = StreamsBuilder()
    frame = files(spark, tmp_path / "in", maxFilesPerTrigger=1)
    counts = builder.stream(frame, name="orders", key="k", timestamp="at", partitions=1).group_by_key().count("counts")
    place = tmp_path / "counts"
    counts.to_stream().to_spark_table(path=place, format="parquet", name="counts", key="k", value="n")
    streams = start(builder.build(), tmp_path, spark, trigger="available-now", statestore_cache_max_bytes=0)
    assert streams.await_termination(300)
    assert [tuple(one) for one in spark.read.parquet(str(place)).orderBy("n").collect()] == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
    ]


def test_a_query_that_fails_ends_the_program_and_says_why(spark: Any, tmp_path: Path):
    put(tmp_path / "in", "1", row("a", 1, 1))
    columns = "k string, n int, _change_type string"
    builder = StreamsBuilder()
    builder.stream(files(spark, tmp_path / "in", columns), name="orders", key="k", partitions=1).to("out")
    put(tmp_path / "in", "2", {"k": "a", "n": 1, "_change_type": "upsert"})
    streams = start(builder.build(), tmp_path, spark)
    with pytest.raises(QueryError, match="DataFrame 'orders': _change_type is one of insert, update"):
        streams.await_termination(120)
    assert isinstance(streams.exception(), QueryError)
    assert streams.state == "ERROR"
    streams.stop()
    from click.testing import CliRunner

    from penstock.cli.main import main

    told = CliRunner().invoke(main, ["status", str(tmp_path / "state"), "--log", str(tmp_path / "log")])
    assert told.exit_code == 3
    assert "DataFrame orders -> shop-orders-source: failed" in told.output


def test_a_query_that_somebody_stops_is_a_failure(spark: Any, tmp_path: Path):
    put(tmp_path / "in", "1", row("a", 1, 1))
    streams = start(counting(spark, tmp_path), tmp_path, spark)
    streams.process_all_available()
    [query] = [one for one in spark.streams.active if one.name == "shop-orders-source"]
    query.stop()
    with pytest.raises(QueryError, match="somebody has stopped the query"):
        streams.await_termination(60)
    streams.stop()


def test_a_topic_or_a_progress_without_the_other_is_refused(spark: Any, tmp_path: Path):
    put(tmp_path / "in", "1", row("a", 1, 1))
    with start(counting(spark, tmp_path), tmp_path, spark) as streams:
        streams.process_all_available()
    progress = tmp_path / "state" / "checkpoint" / "queries" / "orders-source"
    progress.rename(tmp_path / "aside")
    with pytest.raises(ConfigError, match=r"has records, but the progress of its query, .*, is gone"):
        start(counting(spark, tmp_path), tmp_path, spark)
    (tmp_path / "aside").rename(progress)
    FileLog(tmp_path / "log").delete_topic("shop-orders-source")
    with pytest.raises(ConfigError, match="topic 'shop-orders-source' is gone, but its query has read rows into it"):
        start(counting(spark, tmp_path), tmp_path, spark)


def test_all_cores_for_slots_are_refused_since_the_queries_need_one(spark: Any, tmp_path: Path):
    with pytest.raises(ConfigError, match="4 slots take all 4 cores of Spark, and the queries of 'orders' need one"):
        counting(spark, tmp_path).start(
            "shop", spark=spark, slots=4, log=tmp_path / "log", state_dir=tmp_path / "state"
        )


def test_the_topic_has_as_many_partitions_as_those_it_is_joined_with(spark: Any, tmp_path: Path):
    produce([("a", "tea", 1)], "names", key=str, value=str, log=tmp_path / "log", partitions=3)
    put(tmp_path / "in", "1", row("a", 1, 1))
    builder = StreamsBuilder()
    orders = builder.stream(files(spark, tmp_path / "in"), name="orders", key="k", value="n", timestamp="at")
    names = builder.table("names", key=str, value=str)
    orders.join(names, lambda n, name: f"{n} {name}", value=str).to("out")
    with start(builder.build(), tmp_path, spark) as streams:
        streams.process_all_available()
    assert FileLog(tmp_path / "log").topic("shop-orders-source").partitions == 3
    assert records(tmp_path, "out", key=str, value=str) == [("a", "1 tea")]


def test_the_same_topology_runs_as_a_batch_over_a_dataframe_with_an_end(spark: Any, tmp_path: Path):
    put(tmp_path / "in", "1", row("a", 1, 1), row("b", 2, 2), row("a", 3, 3))
    rows = spark.read.schema(COLUMNS).json(str(tmp_path / "in"))
    given = {"statestore_cache_max_bytes": 0}
    topology = counting(spark, tmp_path)
    with topology.run_batch(spark, {"orders": rows}, partitions=1, **given) as result:
        found = result.dataframe("out").orderBy("number").collect()
    assert [(one["key"], one["value"]) for one in found] == [("a", 1), ("b", 1), ("a", 2)]
    places = {"log": tmp_path / "log", "state_dir": tmp_path / "state"}
    topology.run_batch(spark, {"orders": rows}, application_id="shop", batch="day 1", partitions=1, **places, **given)
    assert records(tmp_path, "out", key=str, value=int) == [("a", 1), ("b", 1), ("a", 2)]


def test_a_key_of_several_columns_and_headers_come_in_live_and_in_a_batch(spark: Any, tmp_path: Path):
    def sale(shop: str, n: int, second: int, *headers: tuple[str, str]) -> dict[str, Any]:
        pairs = [{"key": name, "value": base64.b64encode(text.encode()).decode()} for name, text in headers]
        return {"shop": shop, "day": "2026-01-01", "n": n, "at": row(None, 0, second)["at"], "h": pairs}

    columns = "shop string, day date, n int, at timestamp, h array<struct<key: string, value: binary>>"
    put(tmp_path / "in", "1", sale("x", 1, 1, ("who", "ann"), ("who", "bob")), sale("y", 2, 2), sale("x", 3, 3))
    builder = StreamsBuilder()
    named = {"name": "sales", "key": ["shop", "day"], "timestamp": "at", "headers": "h", "partitions": 2}
    sales = builder.stream(files(spark, tmp_path / "in", columns), **named)
    sales.to("out")
    totals = sales.map_values(lambda v: v["n"], value=int).group_by_key(value=int).reduce(lambda a, b: a + b, "totals")
    totals.to_stream().select_key(lambda key, n: f"{key['shop']} {key['day']:%d.%m.%Y}", key=str).to("totals")
    topology = builder.build()
    expected = [("x", 1, [("who", b"ann"), ("who", b"bob")]), ("x", 3, []), ("y", 2, [])]

    def told(key: Any, value: Any, headers: Any) -> tuple[Any, ...]:
        assert (key["day"], set(value)) == (date(2026, 1, 1), {"shop", "day", "n", "at"})
        return key["shop"], value["n"], [tuple(pair) for pair in headers or ()]

    with start(topology, tmp_path, spark, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
    kinds = schema_of("shop-sales-source", log=tmp_path / "log")
    live = [told(one.key, one.value, one.headers) for one in consume("out", kinds.key, kinds.value, tmp_path / "log")]
    assert sorted(live, key=str) == expected
    sums = [("x 01.01.2026", 1), ("x 01.01.2026", 4), ("y 01.01.2026", 2)]
    assert sorted(records(tmp_path, "totals", key=str, value=int)) == sums

    rows = spark.read.schema(columns).json(str(tmp_path / "in"))
    with topology.run_batch(spark, {"sales": rows}, statestore_cache_max_bytes=0) as result:
        found = [one.asDict(recursive=True) for one in result.dataframe("out").collect()]
        batch = [told(one["key"], one["value"], [pair.values() for pair in one["headers"] or ()]) for one in found]
        assert sorted(batch, key=str) == expected
        assert sorted((one["key"], one["value"]) for one in result.dataframe("totals").collect()) == sums


def test_a_batch_takes_a_key_of_several_columns_and_headers_that_are_named_where_it_runs(spark: Any):
    builder = StreamsBuilder()
    builder.stream("sales", key=dict, value=int).group_by_key().count("counts").to_stream().to("out")
    shown = spark.sql("select 'x' shop, 1 floor, 7 n, timestamp '2026-01-01' at, array(struct('who', x'61')) h")
    rows = shown.toDF("shop", "floor", "n", "at", "h")
    given = {"key": ["shop", "floor"], "value": "n", "timestamp": "at", "partitions": 3}
    with builder.build().run_batch(spark, {"sales": rows}, **given) as result:
        [one] = result.dataframe("out").collect()
    assert (json.loads(one["key"]), one["value"]) == ({"shop": "x", "floor": 1}, 1)
    for wrong, message in (
        ({"key": []}, 'key is the name of a column, or several: \\["shop", "day"\\]; got \\[\\]'),
        ({"key": ["shop", "shop"]}, "key is the name of a column, or several"),
        (
            {"key": ["shop", "flor"]},
            "key names column 'flor', which the DataFrame does not have \\(did you mean 'floor'",
        ),
        ({"headers": "n"}, "the column 'n' with the headers must be an array<struct<key: string, value: binary>>"),
        ({"headers": "x"}, "headers names column 'x', which the DataFrame does not have"),
    ):
        with pytest.raises(ConfigError, match=message):
            builder.build().run_batch(spark, {"sales": rows}, **(given | wrong))


REFUSED: dict[str, tuple[Callable[[StreamsBuilder, Any, Any], Any], str]] = {
    "no name": (lambda b, s, f: b.stream(f, key="k"), 'a DataFrame needs a name, such as name="orders"'),
    "batch": (lambda b, s, f: b.stream(s.range(3), name="n"), "this DataFrame is not a stream. Read it with spark.re"),
    "column": (lambda b, s, f: b.stream(f, name="n", key="kk"), "key= is the name of a column of the DataFrame; got"),
    "type": (lambda b, s, f: b.stream(f, name="n", key=str), "key= is the name of a column of the DataFrame; got"),
    "keys": (lambda b, s, f: b.stream(f, name="n", key=["k", "k"]), "key= is the name of a column, or several: key="),
    "a map in a key": (lambda b, s, f: b.stream(f, name="n", key=["k", "m"]), "column 'm' is of type map"),
    "headers": (lambda b, s, f: b.stream(f, name="n", headers="n"), "the column 'n' with the headers must be an arr"),
    "headers of a topic": (lambda b, s, f: b.stream("t", headers="n"), "headers= is for a streaming DataFrame"),
    "table": (lambda b, s, f: b.table(f, name="n"), "a table has keys; name their column: key="),
    "reset": (lambda b, s, f: b.stream(f, name="n", offset_reset="latest"), "offset_reset= is for topics"),
    "order": (lambda b, s, f: b.stream(f, name="n", order="x"), "order is the column that says in which order rows"),
    "number": (lambda b, s, f: b.stream(f, name="n", partitions=0), "partitions is a number from 1 on; got 0"),
    "topic": (lambda b, s, f: b.stream("t", order="n"), "order= is for a streaming DataFrame; got order='n'"),
    "time": (lambda b, s, f: b.stream(f, name="n", timestamp="m"), "the column 'm' with the times must hold|timestamp"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_where_it_is_said(spark: Any, tmp_path: Path, case: str):
    frame = files(spark, tmp_path / "in", "k string, n int, m map<string, int>")
    made, message = REFUSED[case]
    with pytest.raises((TopologyError, ConfigError), match=message):
        made(StreamsBuilder(), spark, frame)


def test_rows_go_through_topics_of_kafka_into_a_table_and_go_on_where_they_were(
    spark: Any, cluster: Any, tmp_path: Path
):
    def topology() -> Topology:
        builder = StreamsBuilder()
        rows = builder.stream(files(spark, tmp_path / "in"), name="orders", key="k", timestamp="at", partitions=2)
        given = {"format": "parquet", "name": "counts", "key": "k", "value": "n"}
        rows.group_by_key().count("counts").to_stream().to_spark_table(path=tmp_path / "counts", **given)
        return builder.build()

    for number, expected in enumerate(([("a", 1), ("b", 1)], [("a", 1), ("a", 2), ("b", 1)])):
        put(tmp_path / "in", str(number), *([row("a", 1, 1), row("b", 2, 2)] if number == 0 else [row("a", 3, 3)]))
        given = {"log": cluster.log.url, "state_dir": tmp_path / "state", "slots": 1, "statestore_cache_max_bytes": 0}
        with topology().start(cluster.name, spark=spark, **given) as streams:
            streams.process_all_available()
        found = spark.read.parquet(str(tmp_path / "counts")).collect()
        assert sorted(tuple(one) for one in found) == expected


def test_a_handler_that_says_replace_has_a_query_begun_again(spark: Any, tmp_path: Path):
    put(tmp_path / "in", "1", row("a", 1, 1))
    told: list[str] = []

    def replace(error: Exception) -> str:
        told.append(type(error).__name__)
        return "replace"

    given = {"uncaught_exception_handler": replace, "statestore_cache_max_bytes": 0}
    with start(counting(spark, tmp_path), tmp_path, spark, **given) as streams:
        streams.process_all_available()
        [query] = [one for one in spark.streams.active if one.name == "shop-orders-source"]
        query.stop()
        for _ in range(600):
            if told and any(one.name == "shop-orders-source" for one in spark.streams.active):
                break
            time.sleep(0.1)
        put(tmp_path / "in", "2", row("a", 2, 2))
        streams.process_all_available()
    assert told == ["QueryError"]
    assert records(tmp_path, "out", key=str, value=int) == [("a", 1), ("a", 2)]

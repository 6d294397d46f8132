"""DataFrames into topics and out of them: any source or sink of Spark connects."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Windowed
from penstock.errors import ConfigError, PenstockError
from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.serdes import STR, TimeWindowedSerde

pytestmark = pytest.mark.slow

ROWS = [("a", 1), ("b", 2), ("c", None)]


def read(spark: Any, folder: Path, topic: str) -> Any:
    return spark.read.format("penstock").option("topic", topic).option("log", str(folder))


def test_a_data_frame_becomes_a_topic_of_json(spark: Any, tmp_path: Path):
    penstock.write(spark.createDataFrame(ROWS, "k string, n int"), "t", key="k", log=tmp_path, partitions=3)
    records = {record.key: record.value for record in consume("t", key=str, value=dict, log=tmp_path)}
    assert records == {"a": {"k": "a", "n": 1}, "b": {"k": "b", "n": 2}, "c": {"k": "c", "n": None}}


def test_a_topic_is_read_with_the_columns_of_sparks_kafka_source(spark: Any, tmp_path: Path):
    produce([("a", 1, 1_000), ("b", None, 2_500)], "t", value=int, log=tmp_path)
    frame = read(spark, tmp_path, "t").load()
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp"]
    found = frame.selectExpr("string(key)", "hex(value)", "topic", "partition", "offset", "double(timestamp)")
    assert [tuple(row) for row in found.orderBy("offset").collect()] == [
        ("a", "0000000000000001", "t", 0, 0, 1.0),
        ("b", None, "t", 0, 1, 2.5),
    ]


def test_numbers_are_times_in_the_unit_that_is_said(spark: Any, tmp_path: Path):
    rows = spark.createDataFrame([("a", 1_767_268_800), ("b", 1_767_268_801)], "k string, at long")
    penstock.write(rows, "t", key="k", value="at", timestamp="at", log=tmp_path, timestamp_unit="s")
    found = {record.key: (record.value, record.timestamp) for record in consume("t", key=str, log=tmp_path)}
    assert found == {"a": (1_767_268_800, 1_767_268_800_000), "b": (1_767_268_801, 1_767_268_801_000)}


def test_a_typed_topic_has_columns_of_what_is_in_it(spark: Any, tmp_path: Path):
    produce([("a", 1.5, 1_000), ("b", None, 2_500)], "floats", value=float, log=tmp_path)
    frame = read(spark, tmp_path, "floats").option("typed", "true").load()
    assert [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema][:2] == [
        "key string",
        "value double",
    ]
    assert [tuple(row) for row in frame.selectExpr("key", "value", "double(timestamp)").orderBy("key").collect()] == [
        ("a", 1.5, 1.0),
        ("b", None, 2.5),
    ]
    produce([(7, {"n": 1}, 1_000)], "objects", key=int, value=dict, log=tmp_path)
    objects = read(spark, tmp_path, "objects").option("typed", "true").load()
    [row] = objects.selectExpr("key", "value", "get_json_object(value, '$.n')").collect()
    assert tuple(row) == (7, '{"n":1}', "1")
    windows = [(Windowed("a", 1_000, 2_000), 3, 1_500)]
    produce(windows, "windows", key=TimeWindowedSerde(STR, 1_000), value=int, log=tmp_path)
    of_windows = read(spark, tmp_path, "windows").option("typed", "true").load()
    [row] = of_windows.selectExpr("key.key", "double(key.start)", "double(key.end)", "value").collect()
    assert tuple(row) == ("a", 1.0, 2.0, 3)


def test_a_stream_of_a_typed_topic_has_them_too(spark: Any, tmp_path: Path):
    produce([("a", 1, 1_000)], "t", value=int, log=tmp_path)
    source = spark.readStream.format("penstock").option("topic", "t").option("log", str(tmp_path))
    stream = source.option("typed", "true").load().selectExpr("key", "value + 1 AS value", "timestamp")
    query = penstock.write(stream, "u", "key", "value", "timestamp", log=tmp_path, checkpoint=tmp_path / "spark")
    query.processAllAvailable()
    query.stop()
    assert [record[:3] for record in consume("u", log=tmp_path)] == [("a", 2, 1_000)]


def test_typed_is_true_or_false(spark: Any, tmp_path: Path):
    with pytest.raises(Exception, match="the option typed is true or false, got 'int'"):
        read(spark, tmp_path, "t").option("typed", "int").load()


def test_a_stream_of_a_topic_goes_into_another_one_once(spark: Any, tmp_path: Path):
    produce([("a", "x", 1), ("b", "y", 2)], "t", value=str, log=tmp_path)

    def run() -> None:
        stream = spark.readStream.format("penstock").option("topic", "t").option("log", str(tmp_path)).load()
        query = penstock.write(
            stream, "u", key="key", value="value", timestamp="timestamp", log=tmp_path, checkpoint=tmp_path / "spark"
        )
        query.processAllAvailable()
        query.stop()

    run()
    produce([("c", "z", 3)], "t", value=str, log=tmp_path)
    run()
    found = [(record.key, record.value, record.timestamp) for record in consume("u", key=str, value=str, log=tmp_path)]
    assert found == [("a", "x", 1), ("b", "y", 2), ("c", "z", 3)]


def test_a_topic_that_does_not_exist_is_named(spark: Any, tmp_path: Path):
    with pytest.raises(Exception, match="nowhere") as error:
        read(spark, tmp_path, "nowhere").load().collect()
    assert "TopicNotFoundError" in str(error.value) or isinstance(error.value, PenstockError)


FIVE = 1_357_016_400_000
"""2013-01-01, 05:00 UTC, in milliseconds."""


def columns(spark: Any) -> Any:
    rows = [("a", 1, "2013-01-01T06:00:00+01:00", datetime(2013, 1, 1, 5), date(2013, 1, 1), {"x": 1}, b"z", 1.5)]
    return spark.createDataFrame(
        rows, "k string, n int, at string, seen timestamp_ntz, day date, m map<string, int>, b binary, `a.b` double"
    )


@pytest.mark.parametrize(
    ("chosen", "types", "record"),
    [
        ({"key": "n", "value": "k", "timestamp": "at"}, ("int", "str"), (1, "a", FIVE)),
        ({"key": "k", "value": "n", "timestamp": "seen"}, ("str", "int"), ("a", 1, FIVE)),
        ({"key": "b", "value": "a.b", "timestamp": "day"}, ("bytes", "float"), (b"z", 1.5, FIVE - 5 * 3_600_000)),
        ({"value": "m", "timestamp": "n"}, ("bytes", "json"), (None, {"x": 1}, 1)),
    ],
)
def test_the_types_of_a_topic_are_those_of_the_columns(spark: Any, tmp_path: Path, chosen, types, record):
    penstock.write(columns(spark), "t", log=tmp_path, **chosen)
    info = FileLog(tmp_path).topic("t")
    assert ((info.key, info.value), [one[:3] for one in consume("t", log=tmp_path)]) == (types, [record])


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"key": "airport"}, "write: there is no column 'airport'; the columns are k, n, at, seen, day, m, a.b"),
        (
            {"timestamp": "m"},
            "write: the column 'm' with the times must hold timestamps or whole milliseconds; it holds map<",
        ),
        (
            {"timestamp": "k"},
            "write: the column 'k' with the times must hold timestamps or whole milliseconds; it holds 'a', which is "
            "no time in ISO 8601",
        ),
    ],
)
def test_a_write_that_fails_says_why_in_a_line_and_leaves_no_topic_behind(spark: Any, tmp_path: Path, chosen, message):
    with pytest.raises(ConfigError) as error:
        penstock.write(columns(spark).drop("b"), "t", log=tmp_path, **chosen)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert FileLog(tmp_path).topics() == []


def test_a_write_that_fails_late_leaves_no_topic_behind(spark: Any, tmp_path: Path):
    """One task has made the topic when another one fails."""
    frame = spark.range(0, 40_000, numPartitions=2).selectExpr("id", "if(id = 39999, 'never', '2013-01-01') as at")
    with pytest.raises(ConfigError, match="it holds 'never', which is no time in ISO 8601"):
        penstock.write(frame, "t", value="id", timestamp="at", log=tmp_path)
    assert FileLog(tmp_path).topics() == []
    assert not list(tmp_path.rglob("*.arrow"))


def test_other_types_than_the_topics_are_refused_as_produce_columns_refuses_them(spark: Any, tmp_path: Path):
    produce([("a", 1)], "t", value=int, log=tmp_path)
    with pytest.raises(ConfigError, match="topic 't' holds values of type int, not str; convert the values or write "):
        penstock.write(columns(spark), "t", key="k", value="at", log=tmp_path)

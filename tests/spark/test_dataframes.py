"""DataFrames into topics and out of them: any source or sink of Spark connects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.log.consume import consume
from penstock.log.produce import produce

pytestmark = pytest.mark.slow

ROWS = [("a", 1), ("b", 2), ("c", None)]


def read(spark: Any, folder: Path, topic: str) -> Any:
    return spark.read.format("penstock").option("topic", topic).option("log", str(folder))


def test_a_data_frame_becomes_a_topic_of_json(spark: Any, tmp_path: Path):
    penstock.write(spark.createDataFrame(ROWS, "k string, n int"), "t", key="k", log=tmp_path, partitions=3)
    records = {record.key: record.value for record in consume("t", key=str, value=dict, log=tmp_path)}
    assert records == {"a": {"k": "a", "n": 1}, "b": {"k": "b", "n": 2}, "c": {"k": "c"}}


def test_a_topic_is_read_with_the_columns_of_sparks_kafka_source(spark: Any, tmp_path: Path):
    produce([("a", 1, 1_000), ("b", None, 2_500)], "t", value=int, log=tmp_path)
    frame = read(spark, tmp_path, "t").load()
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp"]
    found = frame.selectExpr("string(key)", "hex(value)", "topic", "partition", "offset", "double(timestamp)")
    assert [tuple(row) for row in found.orderBy("offset").collect()] == [
        ("a", "0000000000000001", "t", 0, 0, 1.0),
        ("b", None, "t", 0, 1, 2.5),
    ]


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

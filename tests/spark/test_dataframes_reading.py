"""Parts of topics as DataFrames: where reading begins and ends, how much is read at once, what filters leave out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import consume, produce
from penstock.engine.spark.dataframes import PenstockSource
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog

pytestmark = pytest.mark.slow

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
MINUTE = 60_000


@pytest.fixture
def pushdown(spark: Any) -> Iterator[Any]:
    """The session, with filters handed to sources written in Python."""
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.set(PUSHDOWN, before)


def read(spark: Any, folder: Path, **options: Any) -> Any:
    return spark.read.format("penstock").options(topic="t", log=str(folder), typed="true", **options).load()


def stream(spark: Any, folder: Path, **options: Any) -> Any:
    return spark.readStream.format("penstock").options(topic="t", log=str(folder), typed="true", **options).load()


def values(frame: Any) -> list[int]:
    return sorted(row["value"] for row in frame.collect())


def scanned(frame: Any) -> int:
    """How many rows the source gave Spark when a DataFrame was last collected."""
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    return int(leaf.metrics().apply("numOutputRows").value())


def write(folder: Path, *numbers: int, time: int = 1000) -> None:
    produce([("k", number, time + number) for number in numbers], "t", value=int, log=folder)


def drain(frame: Any, folder: Path, checkpoint: str = "ck") -> list[int]:
    """Run a query to the present end of its topic; how many rows its batches had."""
    writer = frame.selectExpr("key", "value").writeStream.format("penstock").options(topic="u", log=str(folder))
    query = writer.option("checkpointLocation", str(folder / checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def copied(folder: Path) -> list[Any]:
    return [record.value for record in consume("u", log=folder)]


@pytest.fixture
def old_and_new(tmp_path: Path) -> Path:
    """A thousand records of yesterday, a few of the last hour, and a late one between them."""
    now = int(time.time() * 1000)
    yesterday = now - 24 * 60 * MINUTE
    produce([("k", number, yesterday + number) for number in range(1000)], "t", value=int, log=tmp_path)
    rows = [(2000, now - 59 * MINUTE), (2001, yesterday), (2002, now - MINUTE)]
    produce([("k", number, at) for number, at in rows], "t", value=int, log=tmp_path)
    return tmp_path


LAST_HOUR = "timestamp >= current_timestamp() - interval 1 hour"


def test_the_last_hour_is_all_that_is_read_for_the_last_hour(pushdown: Any, old_and_new: Path):
    frame = read(pushdown, old_and_new).where(LAST_HOUR)
    assert values(frame) == [2000, 2002]
    assert scanned(frame) == 3  # the late one lies between them


def test_without_pushdown_the_last_hour_is_the_same_and_all_is_read(spark: Any, old_and_new: Path):
    frame = read(spark, old_and_new).where(LAST_HOUR)
    assert values(frame) == [2000, 2002]
    assert scanned(frame) == 1003


def test_filters_on_offsets_and_partitions_are_all_that_is_read_and_spark_need_not_look_again(
    pushdown: Any, old_and_new: Path, capsys: pytest.CaptureFixture[str]
):
    frame = read(pushdown, old_and_new).where("partition = 0 and offset >= 998 and offset < 1001")
    assert values(frame) == [998, 999, 2000]
    assert scanned(frame) == 3
    frame.explain("formatted")
    told = capsys.readouterr().out
    pushed = "IsNotNull(partition), IsNotNull(offset), EqualTo(partition,0), GreaterThanOrEqual(offset,998), LessThan("
    assert f"PushedFilters: [{pushed}offset,1001)]" in told
    assert "Condition" not in told


@pytest.mark.parametrize("condition", ["partition = 5", "timestamp > '2999-01-01'", "offset < 0"])
def test_a_filter_that_lets_nothing_through_reads_nothing(pushdown: Any, old_and_new: Path, condition: str):
    frame = read(pushdown, old_and_new).where(condition)
    assert values(frame) == []
    assert scanned(frame) == 0


def test_a_task_without_a_partition_reads_nothing_as_spark_4_1_asks_for_it(tmp_path: Path):
    produce([("k", 1)], "t", key=str, value=int, log=tmp_path)
    reader = PenstockSource({"topic": "t", "log": str(tmp_path)}).reader(None)
    assert list(reader.read(None)) == []


def test_other_filters_are_sparks(pushdown: Any, old_and_new: Path):
    frame = read(pushdown, old_and_new).where("value > 2000 or offset = 3")
    assert values(frame) == [3, 2001, 2002]
    assert values(read(pushdown, old_and_new).where("value > 2000 and key = 'k'")) == [2001, 2002]


def test_options_bound_a_batch_without_pushdown(spark: Any, old_and_new: Path):
    frame = read(spark, old_and_new, startingOffsets="by_duration:1 hour", endingOffsets='{"t":{"0":1002}}')
    assert values(frame) == [2000, 2001]
    assert scanned(frame) == 2
    assert values(read(spark, old_and_new, startingTimestamp=int(time.time() * 1000) - 10 * MINUTE)) == [2002]


def test_a_batch_has_as_many_tasks_as_are_wanted(spark: Any, old_and_new: Path):
    frame = read(spark, old_and_new, minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert len(values(frame)) == 1003


def test_headers_are_those_of_sparks_kafka_source(spark: Any, tmp_path: Path):
    produce([("a", 1, 1, [("h", b"x"), ("n", None)]), ("b", 2, 2, [])], "t", value=int, log=tmp_path)
    frame = read(spark, tmp_path, includeHeaders=True)
    assert frame.columns[-1] == "headers"
    assert frame.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    found = frame.selectExpr("value", "headers[0].key", "string(headers[0].value)", "headers[1].value").orderBy("value")
    assert [tuple(row) for row in found.collect()] == [(1, "h", "x", None), (2, None, None, None)]


def test_where_a_stream_begins_is_asked_when_it_is_started_for_the_first_time_only(spark: Any, tmp_path: Path):
    write(tmp_path, 1, 2, 3)
    drain(stream(spark, tmp_path, startingOffsets='{"t":{"0":2}}'), tmp_path)
    write(tmp_path, 4, 5)
    drain(stream(spark, tmp_path, startingOffsets="latest"), tmp_path)
    assert copied(tmp_path) == [3, 4, 5]
    drain(stream(spark, tmp_path, startingOffsets="latest"), tmp_path, "another")
    write(tmp_path, 6)
    drain(stream(spark, tmp_path, startingOffsets="earliest"), tmp_path, "another")
    assert copied(tmp_path) == [3, 4, 5, 6]


def test_a_stream_begins_at_a_time(spark: Any, tmp_path: Path):
    write(tmp_path, 1, 2, 3)
    drain(stream(spark, tmp_path, startingTimestamp="1970-01-01T00:00:01.002Z"), tmp_path)
    assert copied(tmp_path) == [2, 3]


def test_a_micro_batch_is_no_larger_than_it_may_be(spark: Any, tmp_path: Path):
    write(tmp_path, *range(10))
    assert drain(stream(spark, tmp_path, maxOffsetsPerTrigger=4), tmp_path) == [4, 4, 2]
    write(tmp_path, *range(10, 15))
    assert drain(stream(spark, tmp_path, maxOffsetsPerTrigger=4, minPartitions=3), tmp_path) == [4, 1]
    assert sorted(copied(tmp_path)) == list(range(15))


def test_a_query_that_goes_on_running_reads_in_such_batches_too(spark: Any, tmp_path: Path):
    write(tmp_path, *range(10))
    writer = stream(spark, tmp_path, maxOffsetsPerTrigger=3).selectExpr("key", "value").writeStream
    writer = writer.format("penstock").options(topic="u", log=str(tmp_path))
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
    query.processAllAvailable()
    rows = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    query.stop()
    assert (rows, copied(tmp_path)) == ([3, 3, 3, 1], list(range(10)))


def test_what_a_stream_cannot_have_is_told_when_it_starts(spark: Any, tmp_path: Path):
    write(tmp_path, 1)
    with pytest.raises(Exception, match=r"the option endingOffsets is for spark\.read: a stream has no end"):
        drain(stream(spark, tmp_path, endingOffsets="latest"), tmp_path)


def test_an_unknown_option_is_refused_at_load(spark: Any, tmp_path: Path):
    with pytest.raises(Exception, match=r"did you mean 'startingOffsets'\?"):
        read(spark, tmp_path, startingOffset="earliest")


def test_the_examples_of_the_docs_run(pushdown: Any, tmp_path: Path):
    log, now = FileLog(tmp_path), int(time.time() * 1000)
    log.create_topic(TopicInfo("orders", 2, "str", "int"))
    day = 1_767_312_000_000  # 2026-01-02
    times = [*(day + number * 6 * 60 * MINUTE for number in range(10)), now - 90 * MINUTE, now - MINUTE, now]
    produce([(f"k{n}", n, at, [("h", b"x")]) for n, at in enumerate(times)], "orders", log=tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "dataframes.md").read_text().replace("/data/topics", str(tmp_path))
    found: dict[str, Any] = {"spark": pushdown}
    reading = text.partition("## Reading topics")[2]
    for block in re.findall(r"```python\n(.*?)```", reading, re.DOTALL):
        exec(block, found)
    offsets = {record.value: (record.partition, record.offset) for record in consume("orders", log=tmp_path)}
    assert values(found["rest"]) == sorted(n for n, (p, offset) in offsets.items() if p == 1 or offset >= 3)
    assert values(found["last_hour"]) == values(found["recent"]) == [11, 12]
    assert scanned(found["recent"]) == 2
    assert values(found["one_day"]) == [0, 1, 2, 3]
    assert {header.key for row in found["in_parallel"].collect() for header in row["headers"]} == {"h"}
    assert found["in_parallel"].rdd.getNumPartitions() == len(times)  # one of each record
    assert values(found["part"]) == sorted(n for n, (p, offset) in offsets.items() if p == 0 and offset >= 3)
    assert drain(found["new_ones"], tmp_path) == []

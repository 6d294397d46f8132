"""DataFrames into topics of a real Kafka broker and out of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Kafka, consume
from penstock.engine.spark.dataframes import PenstockSource
from penstock.engine.spark.log_option import place_of
from penstock.errors import ConfigError, LogError, SerdeError
from support.kafka import Cluster

pytestmark = pytest.mark.slow


def frame_of(spark: Any, cluster: Cluster, topic: str) -> Any:
    return spark.read.format("penstock").option("topic", topic).option("log", f"kafka://{cluster.servers}").load()


def test_a_data_frame_goes_into_kafka_and_comes_out_of_it(spark: Any, cluster: Cluster, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = spark.createDataFrame([("a", 1), ("b", None)], "k string, n int")
    topic = f"{cluster.name}-t"
    penstock.write(rows, topic, key="k", log=f"kafka://{cluster.servers}")
    penstock.write(rows, topic, key="k", log=Kafka(cluster.servers))
    assert [row[:2] for row in cluster.rows(topic)] == [
        (b"a", b'{"k":"a","n":1}'),
        (b"b", b'{"k":"b","n":null}'),
    ] * 2
    found = frame_of(spark, cluster, topic).selectExpr("string(key)", "string(value)", "topic", "offset").collect()
    assert [(row[0], row[1]) for row in found] == [("a", '{"k":"a","n":1}'), ("b", '{"k":"b","n":null}')] * 2
    assert [row["offset"] for row in found] == [0, 1, 3, 4]  # behind each transaction stands its mark
    [columns] = consume(topic, log=cluster.log, as_="arrow")
    assert columns.column("offset").to_pylist() == [0, 1, 3, 4]
    assert list(tmp_path.iterdir()) == []


def test_a_data_frame_goes_into_the_kafka_of_the_setting(
    spark: Any, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_LOG", f"kafka://{cluster.servers}")
    topic = f"{cluster.name}-set"
    penstock.write(spark.createDataFrame([("a", 1)], "k string, n int"), topic, key="k")
    assert [row[:2] for row in cluster.rows(topic)] == [(b"a", b'{"k":"a","n":1}')]
    assert list(tmp_path.iterdir()) == []


def test_records_of_many_tasks_are_in_the_partitions_of_their_keys_all_at_once(spark: Any, cluster: Cluster):
    topic = cluster.topic("many", 3)
    frame = spark.range(0, 30_000, numPartitions=4).selectExpr("string(id) as k", "id as v")
    penstock.write(frame, topic, key="k", value="v", log=cluster.log)
    found = frame_of(spark, cluster, topic)
    assert found.selectExpr("count(*)", "count(distinct key)", "count(distinct partition)").collect() == [
        (30_000, 30_000, 3)
    ]


def test_a_write_that_fails_leaves_no_record_behind(spark: Any, cluster: Cluster):
    topic = cluster.topic("none")
    frame = spark.range(0, 20_000, numPartitions=2).selectExpr("if(id = 19999, cast(X'ff' as string), 'x') as n")
    with pytest.raises(SerdeError, match="a value that JSON would change"):
        penstock.write(frame, topic, log=cluster.log)
    assert cluster.rows(topic) == []


def test_a_stream_goes_from_topic_to_topic_and_a_batch_that_spark_repeats_comes_once(
    spark: Any, cluster: Cluster, tmp_path: Path
):
    source, out, checkpoint = cluster.topic("in"), cluster.topic("out"), tmp_path / "ck"

    def run(*values: str) -> list[Any]:
        for value in values:
            penstock.produce([("a", value, 7)], source, key=str, value=str, log=cluster.log)
        cluster.wait_for(lambda: cluster.log.end_offsets(source)[0] > 0)
        stream = spark.readStream.format("penstock").option("topic", source).option("log", cluster.log.url).load()
        query = penstock.write(stream, out, "key", "value", "timestamp", log=cluster.log, checkpoint=checkpoint)
        query.processAllAvailable()
        query.stop()
        return [(value, time) for _, value, time in cluster.rows(out)]

    assert run("x") == [(b"x", 7)]
    for file in (checkpoint / "commits").glob("*0*"):  # as after kill -9 behind the transaction
        file.unlink()
    assert run("y") == [(b"x", 7), (b"y", 7)]


def test_the_setting_says_where_the_topics_are(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    topic = cluster.topic("t")
    monkeypatch.setenv("PENSTOCK_LOG", f"kafka://{cluster.servers}")
    penstock.produce([("a", "x")], topic, key=str, value=str, log=cluster.log)
    cluster.wait_for(lambda: cluster.log.end_offsets(topic) == [1] or cluster.log.end_offsets(topic)[0] > 0)
    source = PenstockSource({"topic": topic})
    reader: Any = source.reader(source.schema())
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert [batch["value"].to_pylist() for batch in batches] == [[b"x"]]
    with pytest.raises(ConfigError, match="do not record their types, so the option typed must be false"):
        PenstockSource({"topic": topic, "typed": "true"}).schema()


def test_a_secret_that_is_written_out_does_not_get_into_the_options(spark: Any, cluster: Cluster):
    rows = spark.createDataFrame([("a", 1)], "k string, n int")
    secret = Kafka(cluster.servers, {"sasl.password": "hush"})
    with pytest.raises(
        ConfigError, match=r"sasl\.password.*'env:NAME' or 'file:PATH'.*PENSTOCK_KAFKA_SASL_PASSWORD"
    ) as e:
        penstock.write(rows, "t", log=secret, partitions=None)
    assert "hush" not in str(e.value)
    with pytest.raises(ConfigError) as error:
        place_of({"log": f"kafka://{cluster.servers}?sasl.password=hush"})
    assert "hush" not in str(error.value)


def test_kafka_out_of_reach_is_an_error_and_no_folder(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LogError):
        penstock.write(spark.range(1), "t", log=Kafka("127.0.0.1:1", timeout="1 s"))
    assert list(tmp_path.iterdir()) == []


def test_the_last_hour_of_a_topic_of_kafka_is_all_that_is_read_for_it(spark: Any, cluster: Cluster, tmp_path: Path):
    topic, now = cluster.topic("hour", 2), int(time.time() * 1000)
    old = [(f"k{number}", number, now - 7_200_000 + number) for number in range(200)]
    new = [(f"k{number}", number, now - 60_000, [("h", b"x")]) for number in range(200, 210)]
    penstock.produce([*old, *new], topic, value=int, log=cluster.log)
    cluster.wait_for_records(topic, 210)
    reader = spark.read.format("penstock").options(topic=topic, log=cluster.log.url, includeHeaders=True)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = reader.load().where("timestamp >= current_timestamp() - interval 1 hour")
        found = {(bytes(row["key"]), row["headers"][0].key, bytes(row["headers"][0].value)) for row in frame.collect()}
        leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
        read = leaf.metrics().apply("numOutputRows").value()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert found == {(f"k{number}".encode(), "h", b"x") for number in range(200, 210)}
    assert read == 10
    reader = spark.read.format("penstock").options(topic=topic, log=cluster.log.url, minPartitions=8)
    assert reader.option("endingTimestamp", now - 3_600_000).load().count() == 200
    reader = spark.read.format("penstock").options(topic=topic, log=cluster.log.url, minPartitions=8)
    frame = reader.option("startingTimestamp", now - 3_600_000).load()
    assert (frame.count(), frame.rdd.getNumPartitions()) == (10, 8)


def test_a_stream_of_kafka_begins_at_an_offset_goes_on_in_parts_and_its_raw_sink_writes_each_batch_once(
    spark: Any, cluster: Cluster, tmp_path: Path
):
    source, out, checkpoint = cluster.topic("in"), cluster.topic("out"), tmp_path / "ck"

    def run(start: str) -> list[Any]:
        reader = spark.readStream.format("penstock").options(topic=source, log=cluster.log.url, startingOffsets=start)
        frame = reader.option("maxOffsetsPerTrigger", 2).load().select("key", "value")
        writer = frame.writeStream.format("penstock").options(topic=out, log=cluster.log.url)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return [value for _, value, _ in cluster.rows(out)]

    rows = [("a", f"v{number}") for number in range(6)]
    penstock.produce(rows, source, key=str, value=str, log=cluster.log)
    cluster.wait_for_records(source, 6)
    begin = f'{{"{source}": {{"0": 1}}}}'
    assert run(begin) == [b"v1", b"v2", b"v3", b"v4", b"v5"]
    last = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
    for file in (checkpoint / "commits").glob(f"*{last}*"):  # as after kill -9 behind the transaction
        file.unlink()
    penstock.produce([("a", "v6")], source, key=str, value=str, log=cluster.log)
    cluster.wait_for_records(source, 7)
    assert run("latest") == [b"v1", b"v2", b"v3", b"v4", b"v5", b"v6"]

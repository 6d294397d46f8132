"""The command line over a real Kafka broker: the same commands, and the same words, as over the file log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, produce
from penstock.cli.options import log_of
from penstock.engine.local import LocalApplication
from penstock.query.application import open_stores
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.testing.broker import free_ports
from support.kafka import Cluster


@pytest.fixture(autouse=True)
def topics_are_in_kafka(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LOG", f"kafka://{kafka}")


def test_topics_are_made_written_read_described_and_removed(cluster: Cluster, penstock: Any):
    name = f"{cluster.name}-words"
    url = f"kafka://{cluster.servers}"
    made = penstock("topics", "create", name, "--partitions", "2", "--retention", "7 days")
    assert (made.code, made.err) == (0, [f"Made topic {name} with 2 partitions in {url}."])
    wrote = penstock("topics", "produce", name, "--key-separator", ":", "--value", "int", stdin="a:1\nb:2\nc:3\n")
    assert (wrote.code, wrote.err) == (0, [f"Wrote 3 records to topic {name} in {url}."])
    cluster.wait_for(lambda: len(cluster.rows(name)) == 3)

    read = penstock("topics", "cat", name, "--key", "str", "--value", "int")
    assert (read.code, sorted(read.out)) == (0, ["a\t1", "b\t2", "c\t3"])
    last = penstock("topics", "tail", name, "--value", "int", "--no-keys", "--log", url)
    assert sorted(last.out) == ["1", "2", "3"]
    described = penstock("topics", "describe", name)
    assert described.out[1] == "  Records are kept for 604,800 s."
    assert any(line.startswith(name) for line in penstock("topics", "ls").out)

    assert penstock("topics", "rm", name, "--yes").code == 0
    gone = penstock("topics", "cat", name)
    assert (gone.code, gone.out) == (1, [])
    assert f"topic '{name}' does not exist in {url}" in gone.err[0]


def test_the_lag_is_what_kafka_has_and_the_application_has_not_committed(
    cluster: Cluster, penstock: Any, tmp_path: Path
):
    topic, out = cluster.topic("in"), cluster.topic("out")
    penstock("topics", "produce", topic, "--value", "int", stdin="1\n2\n")
    cluster.wait_for(lambda: cluster.log.end_offsets(topic) == [3])
    builder = StreamsBuilder()
    builder.stream(topic, value=int).to(out)
    checkpoint = tmp_path / "checkpoint"
    settings = Settings.load(environment={}, folder=tmp_path)
    application = LocalApplication(builder.build(), cluster.name, settings, cluster.opened(), LocalStorage(checkpoint))
    application.run_until()
    penstock("topics", "produce", topic, "--value", "int", stdin="3\n")
    cluster.wait_for(lambda: cluster.log.end_offsets(topic) == [5])

    told = penstock("lag", str(checkpoint), "--json")
    assert told.out == [f'{{"topic":"{topic}","partition":0,"at":3,"end":5,"lag":2}}']
    assert penstock("lag", str(checkpoint)).out[-1] == "2 records to go as of commit 1."


WINDOWED = """
from penstock import StreamsBuilder, TimeWindows

builder = StreamsBuilder()
counts = builder.stream("{topic}", value=str).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace("10 ms"))
counts.count("counts").to_stream().map(lambda key, count: (key.key, count), key=str, value=int).to("{topic}-out")
"""


@pytest.fixture
def windowed(cluster: Cluster, tmp_path: Path) -> Path:
    """A program over a topic with four records."""
    topic = cluster.topic("in", partitions=2)
    produce([("a", "x", 1), ("b", "y", 2), ("a", "z", 3), ("a", "late", 1)], topic, value=str, log=cluster.log)
    cluster.wait_for_records(topic, 4)
    program = tmp_path / "windows_over_kafka.py"
    program.write_text(WINDOWED.format(topic=topic))
    return program


def test_doctor_looks_at_the_cluster_instead_of_a_folder(cluster: Cluster, penstock: Any):
    url = f"kafka://{cluster.servers}"
    for arguments in ((), ("--log", url)):
        found = [json.loads(line) for line in penstock("doctor", "--json", *arguments).out]
        [check] = [row for row in found if row["name"] == "Kafka"]
        assert (check["ok"], check["found"].startswith(f"{url}, ")) == (True, True)
        assert "the log's folder" not in {row["name"] for row in found}


def test_doctor_says_of_a_cluster_that_does_not_answer(penstock: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.cli.doctor._CLUSTER_PATIENCE", "100 ms")
    [nowhere] = free_ports(1)
    ran = penstock("doctor", "--json", "--log", f"kafka://127.0.0.1:{nowhere}")
    [check] = [row for row in map(json.loads, ran.out) if row["name"] == "Kafka"]
    assert (ran.code, check["ok"], check["found"]) == (1, False, f"kafka://127.0.0.1:{nowhere} cannot be used")


def test_why_reads_the_records_of_the_cluster(windowed: Path, penstock: Any):
    said = penstock("why", f"{windowed}:builder", "KSTREAM-AGGREGATE-0000000001", "a")
    when = "stream time is 1970-01-01T00:00:00.003Z"
    assert (said.code, said.out[0], len(said.out)) == (
        0,
        f"KSTREAM-AGGREGATE-0000000001, key 'a': 3 records; {when}",
        4,
    )


@pytest.mark.slow
def test_chaos_copies_the_records_of_the_cluster_and_writes_nothing_there(
    cluster: Cluster, windowed: Path, penstock: Any
):
    before = cluster.log.topics()
    said = penstock("chaos", f"{windowed}:builder", "--local", "--kills", "1", "--seed", "1")
    assert said.code == 0, said
    assert [name for name in cluster.log.topics() if name.startswith(cluster.name) and name not in before] == []


def test_the_page_looks_at_the_cluster_that_the_application_was_started_with(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    topic, out = cluster.topic("in"), cluster.topic("out")
    builder = StreamsBuilder()
    builder.stream(topic, value=int).group_by_key().count("counts").to_stream().to(out)
    checkpoint = tmp_path / "checkpoint"
    settings = Settings.load(environment={}, folder=tmp_path)
    log, storage = cluster.opened(), LocalStorage(checkpoint)
    LocalApplication(builder.build(), cluster.name, settings, log, storage).run_until()
    monkeypatch.delenv("PENSTOCK_LOG")
    stores = open_stores(str(checkpoint))
    assert log_of(stores, None).url == f"kafka://{cluster.servers}"
    stores.close()

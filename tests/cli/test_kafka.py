"""The command line over a real Kafka broker: the same commands, and the same words, as over the file log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder
from penstock.engine.local import LocalApplication
from penstock.settings import Settings
from penstock.storage import LocalStorage
from support.kafka import Cluster


@pytest.fixture
def cluster(kafka: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    found = Cluster(kafka)
    monkeypatch.setenv("PENSTOCK_LOG", f"kafka://{kafka}")
    yield found
    found.close()


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

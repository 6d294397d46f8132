"""A source over Kafka: its offset is part of the transaction with the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import SourceError, StreamsBuilder
from penstock.engine.sources.progress import Noted, SourceNotes
from penstock.engine.sources.sources import Sources
from penstock.sources import Source, SourceBatch, SourceContext, SourceReader
from penstock.storage.base import LocalStorage
from support.kafka import Cluster
from support.logs import rows

pytestmark = pytest.mark.slow


class Numbers(Source):
    """Gives the numbers below a count, three at a time."""

    poll_ms = 10

    def __init__(self, count: int):
        self.count = count

    def open(self, context: SourceContext) -> SourceReader:
        count = self.count

        class Reader(SourceReader):
            def read(self, offset: Any, most: int) -> SourceBatch | None:
                begin = offset or 0
                end = min(begin + 3, count)
                return None if begin == end else SourceBatch([("k", n) for n in range(begin, end)], end)

        return Reader()


def brought_in(cluster: Cluster, name: str, folder: Path, count: int) -> str:
    """Bring in the numbers below a count; the topic."""
    builder = StreamsBuilder()
    builder.source(Numbers(count), "rows", key=str, value=int, partitions=1, retry_for="20 s").to("out")
    sources = Sources(builder.build().owned_by(name), name, cluster.log)
    sources.prepare()
    sources.begin(None, LocalStorage(folder / "checkpoint"), False)
    try:
        sources.process_sources()
    finally:
        sources.stop()
    return f"{name}-rows-source"


def numbers(cluster: Cluster, topic: str, count: int) -> list[int]:
    cluster.wait_for_records(topic, count)
    return [int.from_bytes(row[2], "big") for row in rows(cluster.log, topic)]


def test_records_come_in_once_and_a_later_start_continues_behind_them(cluster: Cluster, tmp_path: Path):
    name = f"{cluster.name}-shop"
    topic = brought_in(cluster, name, tmp_path, 5)
    brought_in(cluster, name, tmp_path, 8)
    assert numbers(cluster, topic, 8) == list(range(8))


def test_what_kafka_forgot_is_in_the_checkpoint_unless_a_crash_left_it_open(cluster: Cluster, tmp_path: Path):
    name = f"{cluster.name}-forgets"
    topic = brought_in(cluster, name, tmp_path, 5)
    forget(cluster, topic)
    brought_in(cluster, name, tmp_path, 8)
    assert numbers(cluster, topic, 8) == list(range(8))
    forget(cluster, topic)
    notes = SourceNotes(LocalStorage(tmp_path / "checkpoint"), "rows")
    assert notes.noted is not None
    notes.note(Noted(notes.noted.topic, notes.noted.sequence + 1, notes.noted.note, is_planned=True), at_once=True)
    with pytest.raises(SourceError, match="Kafka no longer knows what the source has brought into topic"):
        brought_in(cluster, name, tmp_path, 9)


def forget(cluster: Cluster, topic: str) -> None:
    """Have Kafka forget the offsets of the group of a source, as it does after a week."""
    from confluent_kafka.admin import AdminClient

    group = f"penstock-{topic}"
    admin = AdminClient({"bootstrap.servers": cluster.servers})
    [done] = admin.delete_consumer_groups([group]).values()
    done.result()

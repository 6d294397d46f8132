"""W9 over Kafka: restart after kill -9 with much state, until a reader of committed records has the first result."""

from __future__ import annotations

import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from bench import data
from bench.cluster import Cluster
from bench.measure import RunError
from bench.on_kafka import PenstockOnKafka, beside
from bench.plan import Plan
from bench.report import Section, at_most, median, spread
from bench.restart import AGAIN
from bench.running import PATIENCE, check, running

ENTRIES = 1_000_000
LIMIT = 8.0
"""Seconds; Kafka Streams takes 47, most of them until its dead member has left the group."""


def measure(plan: Plan) -> Section:
    """How long the first output takes."""
    engine, entries = PenstockOnKafka(beside(plan).cluster), plan.size(ENTRIES)
    seconds = []
    for _ in range(plan.runs):
        seconds.append(_restart(engine, entries))
        plan.say(f"restart over Kafka with {entries:,} entries: {seconds[-1]:.2f} s")
    section = Section(
        "KAFKA-W9: restart after kill -9, Kafka to Kafka, exactly once",
        "Seconds from the start of the process until a read_committed reader has its first new output. All processes "
        f"were killed with as many entries in the state as records read; then {AGAIN:,} of these records came again, "
        "spread over all, and each had to count on, once.",
    )
    row = at_most(f"{entries:,} entries", median(seconds), LIMIT, "s")
    section.rows.append(replace(row, spread=spread(seconds)))
    return section


def _restart(engine: PenstockOnKafka, entries: int) -> float:
    cluster, topic, columns = engine.cluster, f"in-restart-{uuid.uuid4().hex[:8]}", data.distinct(entries)
    cluster.fill(topic, columns)
    sink = cluster.sink()
    folder = cluster.work / f"penstock-{sink}"
    command = engine.job("W9", [topic], sink, folder, "--live")
    try:
        with _Reader.of(cluster, sink) as reader:
            with running(command) as process:
                reader.wait_for(entries, process)
            rows = np.linspace(0, entries - 1, AGAIN).astype(int)
            key, value, timestamp = (column.take(rows) for column in columns)
            cluster.produce(topic, (key, value, timestamp))
            began = time.monotonic()
            with running(command) as process:
                reader.wait_for(entries + 1, process)
                first = time.monotonic() - began
                reader.wait_for(entries + AGAIN, process)
    finally:
        for name in (topic, sink):
            cluster.remove(name)
        shutil.rmtree(folder, ignore_errors=True)
    if (reader.records, reader.seconds) != (entries + AGAIN, AGAIN):
        raise RunError(
            f"after a restart with {entries:,} entries {reader.seconds:,} of {reader.records:,} results counted on, "
            f"but expected are {AGAIN:,} of {entries + AGAIN:,}"
        )
    return first


class _Reader:
    """Reads committed results, and counts them.

    Attributes:
        records: all of them.
        seconds: those of a key that came a second time.
    """

    def __init__(self, consumer: Consumer):
        self._consumer = consumer
        self.records = self.seconds = 0

    @classmethod
    @contextmanager
    def of(cls, cluster: Cluster, sink: str) -> Iterator[_Reader]:
        options = {"group.id": sink, "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "enable.auto.commit": False, **options})
        consumer.assign([TopicPartition(sink, partition, 0) for partition in range(data.PARTITIONS)])
        try:
            yield cls(consumer)
        finally:
            consumer.close()

    def wait_for(self, records: int, process: subprocess.Popen[str]) -> None:
        """Until so many have come; raises ``RunError`` when the job ends by itself or takes too long."""
        until = time.monotonic() + PATIENCE
        while self.records < records:
            for message in self._consumer.consume(5_000, 0.05):
                if message.error() is None:
                    self.records += 1
                    self.seconds += message.value().endswith(b'"n":2}')
            check(process)
            if time.monotonic() > until:
                raise RunError(f"{records - self.records:,} results did not come in {PATIENCE:g} s")

"""W8 over Kafka: how long it takes from ``produce`` until a reader has the count that came of it."""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass, field, replace

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from bench import data
from bench.cluster import Cluster
from bench.latency import KEYS, MINUTE, PATIENCE, RATE, SECONDS, VALUE, WARM_UP, Latency
from bench.measure import RunError, Sampler
from bench.on_kafka import PenstockOnKafka, beside
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.running import check, running


def measure(plan: Plan) -> Section:
    """The latency of Penstock and of Kafka Streams over one broker."""
    peer, seconds = beside(plan), plan.size(SECONDS)
    own = PenstockOnKafka(peer.cluster)
    found: dict[str, list[Latency]] = {own.name: [], peer.name: []}
    for _ in range(plan.runs):
        found[own.name].append(_run(own, seconds))
        found[peer.name].append(Latency(*peer.latency(RATE, WARM_UP, seconds)))
        last = (f"{name} {runs[-1].p50:.0f} and {runs[-1].p99:.0f} ms" for name, runs in found.items())
        plan.say(f"latency over Kafka, p50 and p99: {', '.join(last)}")
    section = Section(
        "KAFKA-W8: latency, Kafka to Kafka, exactly once",
        f"Milliseconds from just before produce() until a read_committed reader has the count that came of it: W1 "
        f"(every update), {RATE:,} records a second for {seconds} s, after {WARM_UP} s of warm-up. Kafka Streams: "
        "commits every 100 ms.",
    )
    for name, runs in found.items():
        for what in ("p50", "p99"):
            values, others = ([getattr(run, what) for run in some] for some in (runs, found[peer.name]))
            row = Row(f"{name}, {what}", f"{median(values):.0f} ms")
            if name == own.name:
                row = at_most(row.what, median(values), median(others), "ms")
            section.rows.append(replace(row, spread=spread(values, 0)))
        busy = [run.cpu * 60 for run in runs]
        section.rows.append(Row(f"{name}, a minute of it", f"{median(busy):.1f} CPU s", spread(busy, 1)))
    return section


def _run(engine: PenstockOnKafka, seconds: int) -> Latency:
    cluster, name = engine.cluster, f"in-latency-{uuid.uuid4().hex[:8]}"
    cluster.make(name)
    sink = cluster.sink()
    folder = cluster.work / f"penstock-{sink}"
    stream = Stream(cluster, name, sink)
    try:
        with running(engine.job("W1", [name], sink, folder, "--live")) as process:
            stream.send()
            stream.wait_for_all(process)
            stream.flow(process, WARM_UP)
            sampler = Sampler(process.pid)
            sampler.sample()
            began, before = time.monotonic(), sampler.cpu
            stream.counts = True
            stream.flow(process, seconds)
            sampler.sample()
            cpu = (sampler.cpu - before) / (time.monotonic() - began)
            stream.wait_for_all(process)
    finally:
        stream.close()
        for topic in (name, sink):
            cluster.remove(topic)
        shutil.rmtree(folder, ignore_errors=True)
    p50, p99 = np.percentile(stream.waits, [50, 99]) * 1_000
    return Latency(float(p50), float(p99), cpu)


@dataclass
class Stream:
    """Records that are sent one by one, and a thread that reads the counts.

    Attributes:
        waits: for each count how many seconds after its record was sent it was read.
        counts: whether what is sent now belongs to them.
    """

    cluster: Cluster
    topic: str
    sink: str
    waits: list[float] = field(default_factory=list)
    counts: bool = False

    def __post_init__(self) -> None:
        servers = {"bootstrap.servers": self.cluster.bootstrap}
        self._producer = Producer({**servers, "partitioner": "murmur2_random", "linger.ms": 0})
        reader = {"group.id": self.sink, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**servers, **reader, "fetch.wait.max.ms": 20, "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(self.sink, partition, 0) for partition in range(data.PARTITIONS)])
        self._random = random.Random(7)
        self._sums: dict[tuple[bytes, int], int] = {}
        self._since: dict[tuple[bytes, bytes], tuple[float, bool]] = {}
        self._is_on = True
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self) -> None:
        key = b"user-%06d" % int(KEYS * self._random.random() ** 2)
        now = time.time_ns() // 1_000_000
        start = now - now % MINUTE
        count = self._sums[key, start] = self._sums.get((key, start), 0) + 1
        self._since[key, b'{"w":%d,"n":%d}' % (start, count)] = time.perf_counter(), self.counts
        self._producer.produce(self.topic, VALUE, key, timestamp=now)
        self._producer.poll(0)

    def flow(self, process: subprocess.Popen[str], seconds: float) -> None:
        """Send records at an even rate; one that is late is made up for."""
        began = time.monotonic()
        for number in range(int(seconds * RATE)):
            while (early := began + number / RATE - time.monotonic()) > 0:
                time.sleep(early)
            self.send()
        check(process)

    def wait_for_all(self, process: subprocess.Popen[str]) -> None:
        """Until each record's count was read."""
        until = time.monotonic() + PATIENCE + 60
        while self._since:
            check(process)
            if time.monotonic() > until:
                raise RunError(f"{len(self._since):,} counts did not come")
            time.sleep(0.01)

    def _read(self) -> None:
        while self._is_on:
            for message in self._consumer.consume(500, 0.02):
                if message.error() is None:
                    since, counts = self._since.pop((message.key(), message.value()), (0.0, False))
                    if counts:
                        self.waits.append(time.perf_counter() - since)

    def close(self) -> None:
        self._is_on = False
        self._thread.join()
        self._consumer.close()
        self._producer.purge()

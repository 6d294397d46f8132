"""W8: how long it takes from an append until a reader has the count that came of it."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from bench import data
from bench.kafka import KafkaStreams
from bench.measure import RunError, Sampler
from bench.plan import Plan
from bench.report import Row, Section, median, spread
from bench.running import check, running, wait_for
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog

RATE, APPEND = 1_000, 10
MORE = 100
_MORE = f"Penstock, {RATE * MORE // APPEND:,} records a second"
LIMITS_MS = {("Penstock", "p50"): 20, ("Penstock", "p99"): 80, (_MORE, "p50"): 40}
WARM_UP, SECONDS = 15, 60
KEYS = 50_000
MINUTE = 60_000
PATIENCE = 30.0
VALUE = b'{"id":"e0000000000","amount":50,"cur":"EUR","src":"web-00"}'
_LOOK_SECONDS = 0.001


@dataclass(frozen=True)
class Latency:
    """What came of one run, in milliseconds, and how busy the program was meanwhile: CPU seconds a second."""

    p50: float
    p99: float
    cpu: float


def measure(plan: Plan) -> Section:
    """The latency of Penstock over a file log, and of Kafka Streams where its harness is."""
    seconds = plan.size(SECONDS)
    found: dict[str, list[Latency]] = {}
    for _ in range(plan.runs):
        found.setdefault(plan.penstock.name, []).append(_run(plan, seconds, APPEND))
        found.setdefault(_MORE, []).append(_run(plan, seconds, MORE))
        for peer in plan.peers:
            if isinstance(peer, KafkaStreams):
                found.setdefault(peer.name, []).append(Latency(*peer.latency(RATE, WARM_UP, seconds)))
        plan.say(f"latency: {', '.join(f'{name} p99 {runs[-1].p99:.0f} ms' for name, runs in found.items())}")
    section = Section(
        "W8: latency",
        f"Milliseconds from just before an append until a reader has the count that came of it: W1 (every update), "
        f"{RATE:,} records a second for {seconds} s, after {WARM_UP} s of warm-up. Penstock: appends of {APPEND} "
        f"records to a file log, synced to disk, and once more {MORE // APPEND} times as many. Kafka Streams: commits "
        "every 100 ms.",
    )
    for name, runs in found.items():
        for what in ("p50", "p99"):
            values = [getattr(run, what) for run in runs]
            row = Row(f"{name}, {what}", f"{median(values):.0f} ms", spread(values, 0))
            if (limit := LIMITS_MS.get((name, what))) is not None:
                row = replace(row, limit=f"at most {limit}", reached=median(values) <= limit)
            section.rows.append(row)
        busy = [run.cpu * 60 for run in runs]
        section.rows.append(Row(f"{name}, a minute of it", f"{median(busy):.1f} CPU s", spread(busy, 1)))
    return section


def _run(plan: Plan, seconds: int, together: int) -> Latency:
    """What comes of appends of so many records, a hundred times a second."""
    log = plan.penstock.log
    plan.penstock.clear("in", "out")
    log.create_topic(TopicInfo("in", data.PARTITIONS, "str", "json"))
    stream = Stream(log, together)
    try:
        with running(plan.penstock.job("W1", ["in"], ["--live"])) as process:
            stream.append()
            wait_for(process, log, "out", together)
            _flow(process, stream, WARM_UP)
            stream.waits.clear()
            sampler = Sampler(process.pid)
            sampler.sample()
            began, before = time.monotonic(), sampler.cpu
            _flow(process, stream, seconds)
            sampler.sample()
            cpu = (sampler.cpu - before) / (time.monotonic() - began)
            stream.read_all(process)
    finally:
        plan.penstock.clear("in", "out")
    p50, p99 = np.percentile(stream.waits, [50, 99]) * 1_000
    return Latency(float(p50), float(p99), cpu)


def _flow(process: subprocess.Popen[str], stream: Stream, seconds: float) -> None:
    """Append records at an even rate, and read what comes of them; an append that is late is made up for."""
    began = time.monotonic()
    for number in range(int(seconds * RATE / APPEND)):
        while time.monotonic() < began + number * APPEND / RATE:
            stream.read()
            time.sleep(_LOOK_SECONDS)
        stream.append()
        stream.read()
    check(process)


@dataclass
class Stream:
    """Records that are appended, and the counts that are read.

    Attributes:
        together: how many are appended at once.
        waits: for each count that was read how many seconds after its record was appended that was.
    """

    log: FileLog
    together: int = APPEND
    waits: list[float] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(7))
    _counts: dict[tuple[bytes, int], int] = field(default_factory=dict)
    _since: dict[tuple[bytes, bytes], float] = field(default_factory=dict)
    _read: list[int] = field(default_factory=lambda: [0] * data.PARTITIONS)

    def append(self) -> None:
        keys = [b"user-%06d" % int(KEYS * self._random.random() ** 2) for _ in range(self.together)]
        now = time.time_ns() // 1_000_000
        start = now - now % MINUTE
        values, times = pa.array([VALUE] * self.together, pa.binary()), np.full(self.together, now, np.int64)
        began = time.perf_counter()
        for key in keys:
            count = self._counts[key, start] = self._counts.get((key, start), 0) + 1
            self._since[key, b'{"w":%d,"n":%d}' % (start, count)] = began
        data.produce(self.log, "in", (pa.array(keys, pa.binary()), values, times))

    def read(self) -> None:
        """Read what is new, if anything is."""
        for key, value in self._new():
            if (since := self._since.pop((key, value), None)) is not None:
                self.waits.append(time.perf_counter() - since)

    def read_all(self, process: subprocess.Popen[str]) -> None:
        """Wait for the last counts."""
        until = time.monotonic() + PATIENCE
        while self._since:
            self.read()
            check(process)
            if time.monotonic() > until:
                raise RunError(f"{len(self._since):,} counts did not come in {PATIENCE:g} s")
            time.sleep(_LOOK_SECONDS)

    def _new(self) -> Iterator[tuple[bytes, bytes]]:
        if not self.log.exists("out"):
            return
        for partition, end in enumerate(self.log.end_offsets("out")):
            for records in self.log.read("out", partition, self._read[partition], end):
                yield from zip(records.key.to_pylist(), records.value.to_pylist(), strict=True)
            self._read[partition] = end

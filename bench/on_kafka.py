"""Kafka to Kafka, exactly once: Penstock on the topics of the broker on which Kafka Streams runs beside it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import data
from bench.cluster import Cluster
from bench.digest import Digest, digest
from bench.engines import Run
from bench.kafka import KafkaStreams
from bench.marginal import Measured, cost_rows, ratio
from bench.measure import Cost, RunError, run
from bench.plan import Plan
from bench.report import Section, at_least
from bench.workloads import WORKLOADS, Inputs, Workload

_COST, _RATE = 2.5, 1.5
"""How many times less CPU than Kafka Streams it has to take, and how many times the records a second."""
_NAMES = ("W0", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W10")
_FEW, _MANY = 1, 3
"""Both engines run over the same: so many times what a workload says its smaller run reads."""


def measured() -> list[Workload]:
    """The workloads that are measured over Kafka."""
    found = {workload.name: workload for workload in reversed(WORKLOADS) if not workload.cache and not workload.alone}
    return [found[name] for name in _NAMES]


class PenstockOnKafka:
    """Penstock on Spark over a Kafka cluster, ``bench.job`` in a process of its own."""

    name = "Penstock"
    scale = 1

    def __init__(self, cluster: Cluster):
        self.cluster = cluster

    def runs(self, workload: Workload) -> bool:
        return True

    def expected(self, workload: Workload) -> str:
        return workload.name

    def at_least(self, workload: Workload) -> float:
        return 0.0

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        with self.written(workload, inputs) as (sink, cost, broker_cpu):
            output = (self.cluster.read(sink, partition) for partition in range(data.PARTITIONS))
            return Run(cost, digest(workload.result, output), broker_cpu)

    @contextmanager
    def written(self, workload: Workload, inputs: Inputs) -> Iterator[tuple[str, Cost, float]]:
        """The output topic of a run, which goes when the context ends; what it cost, and what its broker took."""
        cluster = self.cluster
        sources, sink = cluster.sources(inputs), cluster.sink()
        folder = cluster.work / f"penstock-{sink}"
        try:
            before = cluster.cpu
            cost = run(self.job(workload.name, sources, sink, folder))
            yield sink, cost, cluster.cpu - before
        finally:
            cluster.remove(sink)
            shutil.rmtree(folder, ignore_errors=True)

    def job(self, name: str, sources: list[str], sink: str, folder: Path, *options: str) -> list[str]:
        """The command that runs a topology from its source topics to ``sink``, with its state in a folder."""
        where = ["--work", str(folder), "--servers", self.cluster.bootstrap, "--sink", sink]
        return [sys.executable, "-m", "bench.job", name, *sources, *where, *options]


def beside(plan: Plan) -> KafkaStreams:
    """Kafka Streams, whose broker is used."""
    for peer in plan.peers:
        if isinstance(peer, KafkaStreams):
            return peer
    raise RunError("what runs over Kafka needs its broker: set PENSTOCK_BENCH_PEERS to the folder of a peers' harness")


def measure(plan: Plan, workload: Workload) -> Section:
    """The marginal cost and the throughput of a workload, of both."""
    peer = beside(plan)
    own = PenstockOnKafka(peer.cluster)
    few, many = ({name: plan.size(count * times) for name, count in workload.few.items()} for times in (_FEW, _MANY))
    both = [Measured(engine.name, engine, workload, few, few, many) for engine in (own, peer)]
    for _ in range(plan.runs):
        for one in both:
            one.take_turn(plan)
    _check_alike(both, workload)
    section = Section(
        f"KAFKA-{workload.title}, Kafka to Kafka, exactly once",
        f"What {sum(many.values()):,} records take more than {sum(few.values()):,}, for a million; the broker is on "
        "the same machine. Records a second are those of the same difference.",
    )
    costs = [cost_rows(section, one) for one in both]
    rates = [one.rate(section) for one in both]
    section.rows.append(ratio("CPU: Kafka Streams / Penstock", costs[1], costs[0], at_least, _COST))
    section.rows.append(ratio("records a second: Penstock / Kafka Streams", rates[0], rates[1], at_least, _RATE))
    return section


def _check_alike(both: list[Measured], workload: Workload) -> None:
    """Raise ``RunError`` when they did not write the same."""
    for size in both[0].runs:
        found = {_comparable(run.digest, workload) for one in both for run in one.runs[size]}
        if len(found) > 1:
            raise RunError(f"{workload.title} of {size}: the outputs differ: {found}")


def _comparable(found: Digest, workload: Workload) -> Digest:
    return found if workload.is_exact else found._replace(records=0)

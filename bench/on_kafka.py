"""Kafka to Kafka, exactly once: Penstock on the topics of the broker on which Kafka Streams runs beside it."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.cluster_engine import ClusterEngine
from bench.digest import Digest
from bench.kafka import KafkaStreams
from bench.marginal import Measured, cost_rows, ratio
from bench.measure import RunError
from bench.plan import Plan
from bench.report import Section, at_least
from bench.workloads import WORKLOADS, Workload

_COST, _RATE = 2.5, 1.5
"""How many times less CPU than Kafka Streams it has to take, and how many times the records a second."""
_NAMES = ("W0", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W10")
_FEW, _MANY = 1, 3
"""Both engines run over the same: so many times what a workload says its smaller run reads."""


def measured() -> list[Workload]:
    """The workloads that are measured over Kafka."""
    found = {workload.name: workload for workload in reversed(WORKLOADS) if not workload.cache and not workload.alone}
    return [found[name] for name in _NAMES]


class PenstockOnKafka(ClusterEngine):
    """Penstock on Spark over a Kafka cluster, ``bench.job`` in a process of its own."""

    name = "Penstock"

    def command(self, workload: Workload, sources: list[str], sink: str, folder: Path, records: int) -> list[str]:
        return self.job(workload.name, sources, sink, folder)

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

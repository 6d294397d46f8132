"""Kafka Streams beside it: the peer of an outside harness, over a broker of its own, measured in the same way."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.cluster import Cluster
from bench.cluster_engine import ClusterEngine
from bench.measure import Cost, RunError, run
from bench.workloads import Workload

PEER = "peers/kstreams/run"
OWN_PEER = Path(__file__).with_name("peers") / "Peer.java"


@contextmanager
def beside(harness: str | None) -> Iterator[list[KafkaStreams]]:
    """Kafka Streams ready to run, if there is a harness; its broker runs meanwhile, and afterwards if it did before."""
    if harness is None:
        yield []
        return
    peer = KafkaStreams(Path(harness))
    was_started = peer.cluster.start_broker()
    try:
        peer.prepare()
        yield [peer]
    finally:
        if was_started:
            peer.cluster.stop_broker()


class KafkaStreams(ClusterEngine):
    """Kafka Streams with exactly-once, as the harness runs it.

    Args:
        harness: its folder, with ``broker.sh``, ``gen.py`` and ``peers/kstreams/run``.

    Raises:
        RunError: something that the harness needs is missing; the message says what.
    """

    name = "Kafka Streams"

    def __init__(self, harness: Path):
        if not (harness / PEER).is_file():
            raise RunError(f"{harness} holds no {PEER}: give the folder of a peers' harness")
        super().__init__(Cluster(harness))

    def at_least(self, workload: Workload) -> float:
        return workload.at_least

    def command(self, workload: Workload, sources: list[str], sink: str, folder: Path, records: int) -> list[str]:
        command = [*self._program(workload), "--workload", workload.name, "--bootstrap", self.cluster.bootstrap]
        command += ["--in-topic", ",".join(sources), "--out-topic", sink, "--records", str(records)]
        command += ["--work", str(folder), "--opt", "guarantee=eos", *([] if workload.cache else ["--opt", "cache=0"])]
        return command

    def check(self, workload: Workload, cost: Cost) -> None:
        if not cost.said.get("ok"):
            raise RunError(f"Kafka Streams did not finish {workload.title}: {cost.said}")

    def latency(self, rate: int, warm_up: int, seconds: int) -> tuple[float, float, float]:
        """The median and the 99th percentile of its latency in milliseconds, and the CPU seconds a second it takes."""
        python = os.environ.get("BENCH_PY", sys.executable)
        command = [python, str(self.cluster.harness / "latency.py"), "--peer", "kstreams", "--rate", str(rate)]
        command += ["--warm", str(warm_up), "--seconds", str(seconds), "--bootstrap", self.cluster.bootstrap]
        options = ("guarantee=eos", "commit-ms=100", "cache=0")
        said = run([*command, *(word for option in options for word in ("--opt", option))]).said
        return said["p50_ms"], said["p99_ms"], said["cpu_share"]

    def prepare(self) -> None:
        """Connect to the broker and compile the peer."""
        self.cluster.connect()
        self.cluster.command([str(self.cluster.harness / PEER), "--build"])

    def _program(self, workload: Workload) -> list[str]:
        """What runs a workload: the harness's peer, or a program of our own with the libraries of the peer."""
        if not workload.own_peer:
            return [str(self.cluster.harness / PEER)]
        libraries = Path(os.environ["BENCH_CP_FILE"]).read_text().strip()
        return ["java", "-Xmx1g", "-cp", libraries, str(OWN_PEER)]

"""What the engines have in common that run from topics of a cluster to a topic of it."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import data
from bench.cluster import Cluster
from bench.digest import digest
from bench.engines import Engine, Run
from bench.measure import Cost, run
from bench.workloads import Inputs, Workload


class ClusterEngine(Engine, ABC):
    """An engine in a process of its own, over the topics of a cluster.

    Args:
        cluster: what has the topics; its broker runs.
    """

    name: str
    scale = 1

    def __init__(self, cluster: Cluster):
        self.cluster = cluster

    @abstractmethod
    def command(self, workload: Workload, sources: list[str], sink: str, folder: Path, records: int) -> list[str]:
        """What runs a workload over so many records, with its state in a folder."""

    def check(self, workload: Workload, cost: Cost) -> None:
        """Raise ``RunError`` for a process that ended well, and says that it did not do everything."""

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        with self.written(workload, inputs) as (sink, cost, broker_cpu):
            output = (self.cluster.read(sink, partition) for partition in range(data.PARTITIONS))
            return Run(cost, digest(workload.result, output), broker_cpu)

    @contextmanager
    def written(self, workload: Workload, inputs: Inputs) -> Iterator[tuple[str, Cost, float]]:
        """The output topic of a run, which goes when the context ends; what it cost, and what its broker took."""
        cluster = self.cluster
        sources, sink = cluster.sources(inputs), cluster.sink()
        folder = cluster.work / f"run-{sink}"
        folder.mkdir(parents=True)
        try:
            before = cluster.cpu
            cost = run(self.command(workload, sources, sink, folder, sum(inputs.values())))
            self.check(workload, cost)
            yield sink, cost, cluster.cpu - before
        finally:
            cluster.remove(sink)
            shutil.rmtree(folder, ignore_errors=True)

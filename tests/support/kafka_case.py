"""An application over topics of a real Kafka broker, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import StreamsBuilder, Topology, produce
from penstock.engine.local import LocalApplication
from penstock.log.consume import consume
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.kafka import Cluster


class Crash(BaseException):
    """The process is gone."""


class Case:
    """A counting application over topics of its own.

    Args:
        folder: where its checkpoint and its databases are.
    """

    def __init__(self, cluster: Cluster, folder: Path):
        self.cluster = cluster
        self.folder = folder
        self.input, self.output = cluster.topic("in", 2), cluster.topic("out", 2)

    def topology(self) -> Topology:
        """With a repartition topic and a store, and of each record a result."""
        builder = StreamsBuilder()
        stream = builder.stream(self.input, value=int)
        counts = stream.group_by(lambda key, value: value, key=int).count("counts")
        counts.to_stream().map_values(str, value=str).to(self.output)
        return builder.build()

    def fill(self, count: int, first: int = 0) -> None:
        rows = [(f"k{n}", n % 5, n + 1) for n in range(first, first + count)]
        produce(rows, self.input, key=str, value=int, log=self.cluster.log)
        self.cluster.log.end_offsets(self.input)

    def start(
        self, checkpoint: str = "checkpoint", options: dict[str, str] | None = None, **settings: Any
    ) -> LocalApplication:
        own = Settings.load(environment={}, folder=self.folder, statestore_cache_max_bytes=0, **settings)
        self.log = self.cluster.opened(options=options)
        return LocalApplication(
            self.topology(), self.cluster.name, own, self.log, LocalStorage(self.folder / checkpoint)
        )

    def results(self) -> list[tuple[int, str]]:
        """Of each key its results, in their order."""
        assert sum(self.log.end_offsets(self.output)) > 0
        found = [(int.from_bytes(one.key, "big", signed=True), one.value) for one in consume(self.output, log=self.log)]
        return sorted(found, key=lambda row: row[0])


def expected(count: int) -> list[tuple[int, bytes]]:
    """What comes out of so many records."""
    return [(key, b"%d" % number) for key in range(5) for number in range(1, len(range(key, count, 5)) + 1)]


def crash() -> None:
    raise Crash

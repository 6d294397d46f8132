"""An application over a broker that refuses some of its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, produce
from penstock.engine.local import LocalApplication
from penstock.engine.shared.manifest import Manifests
from penstock.errors import LogError
from penstock.figures.losses import losses_of
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.values.times import wall_clock_ms
from support.kafka import Cluster

ROWS = [(b"a", b"1"), (None, b"2"), (b"c", b"3"), (b"d", b"x" * 2_000), (b"e", b"5"), (None, b"6")]
TIGHTER = {"cleanup.policy": "compact", "max.message.bytes": "1000"}
"""With this three of them are refused."""


class App:
    """What its input has goes into its output, as it is.

    Args:
        folder: where its checkpoint is.
    """

    def __init__(self, cluster: Cluster, folder: Path):
        self.cluster, self.folder = cluster, folder
        self.input, self.output, self.letters = (cluster.topic(name) for name in ("in", "out", "letters"))
        self.now = wall_clock_ms()
        self.storage = LocalStorage(folder / "checkpoint")
        builder = StreamsBuilder()
        builder.stream(self.input, key=bytes, value=bytes).to(self.output)
        self.topology = builder.build()

    def send(self, *rows: tuple[bytes | None, bytes, int]) -> None:
        produce(rows, self.input, key=bytes, value=bytes, log=self.cluster.log)
        self.cluster.log.end_offsets(self.input)

    def run(self, **settings: Any) -> None:
        own = Settings.load(environment={}, folder=self.folder, **settings)
        log = self.cluster.opened()
        application = LocalApplication(self.topology, self.cluster.name, own, log, self.storage)
        try:
            application.run_until()
        finally:
            application.close()
            log.end_offsets(self.output)

    def keys(self, topic: str) -> list[bytes | None]:
        return [row[0] for row in self.cluster.rows(topic, key=bytes, value=bytes)]

    def losses(self) -> list[tuple[str, str, int]]:
        newest = Manifests(self.storage).newest()
        assert newest is not None
        return [(loss.metric, loss.reason, loss.records) for loss in losses_of(newest.metrics).values()]

    def get_stuck(self, at: Any) -> None:
        """Have the topic made narrower when a commit is certain."""
        self.send(*((key, value, self.now) for key, value in ROWS))
        at("before-transaction", lambda: self.cluster.configure(self.output, TIGHTER))
        with pytest.raises(LogError, match=r"`penstock publish \S+/checkpoint` tells which of its records are refused"):
            self.run()
        with pytest.raises(LogError, match="penstock publish"):
            self.run(on_error="skip")

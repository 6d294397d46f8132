"""One application's folders, and programs started on them one after the other, in this process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from penstock import StreamsBuilder, Topology
from penstock.engine.commit.opening import open_application
from penstock.engine.local import LocalApplication
from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.query.committed import committed_store
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

SETTINGS = {"statestore_cache_max_bytes": 0, "flush_commits": 2, "flush_rows": 1000, "snapshot_commits": 4}


def counts(store: str = "counts") -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count(store).to_stream().to("out")
    return builder.build()


class World:
    """One application's folders, and programs started on them one after the other."""

    def __init__(self, folder: Path, topology: Topology | None = None, **settings: Any):
        self.folder = folder
        self.topology = topology or counts()
        self.log = FileLog(folder / "log")
        self.storage = LocalStorage(folder / "checkpoint")
        self.settings = Settings.load(environment={}, folder=folder, **{**SETTINGS, **settings})

    def start(self, topology: Topology | None = None, machine: str = "tasks", **more: Any) -> LocalApplication:
        """Start a program; ``machine`` is where it keeps its databases."""
        more = {"storage": self.storage, "application_id": "app", **more}
        return LocalApplication(
            topology or self.topology, settings=self.settings, log=self.log, folder=self.folder / machine, **more
        )

    def produce(self, *keys: str) -> None:
        produce([(key, "x", 0) for key in keys], "in", value=str, log=self.log)

    def run(self, *keys: str, crash: bool = False) -> None:
        """Produce, process in one commit, and end; or leave the state on disk as a crash would."""
        self.produce(*keys)
        application = self.start()
        application.run_until()
        if crash:
            for task in application.host.tasks():
                task.state.abandon()
        else:
            application.close()

    def output(self, topic: str = "out") -> list[tuple[Any, Any]]:
        return [(record.key, record.value) for record in consume(topic, log=self.log)]

    def counts(self, store: str = "counts") -> list[tuple[Any, ...]]:
        opened = open_application(self.topology, "app", self.settings, self.log, self.storage)
        with committed_store(opened, store) as found:
            return sorted(row[:2] for row in found.all())

    def lose_local_state(self) -> None:
        shutil.rmtree(self.folder / "tasks")

    def file(self, pattern: str, number: int) -> Path:
        return sorted(self.storage.root.glob(pattern))[number]

"""A program over slots that are processes, its records, and what has to come out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from penstock.arrays import partitions
from penstock.engine.commit.coordinator import Coordinator
from penstock.engine.commit.loop import CommitLoop
from penstock.engine.commit.opening import open_application
from penstock.engine.operate.restores import Restores
from penstock.engine.slots.sessions import SlotSessions
from penstock.engine.slots.slot import Program
from penstock.engine.task.live import LiveTasks
from penstock.log.produce import produce
from penstock.query.application import ApplicationStores
from penstock.query.commits import OwnCommits
from support.forked_slots import ForkedHost
from support.world import World

KEYS = [f"key-{n % 7}" for n in range(40)]


class Application:
    """A program over slots, whose loop runs until it is closed."""

    def __init__(
        self, world: World, host: ForkedHost, timeout: float = 20.0, log: str | None = None, storage: str | None = None
    ):
        self.host = host
        opened = open_application(world.topology, "app", world.settings, world.log, world.storage)
        layout = opened.layout
        places = log or world.log.url, storage or world.storage.url, world.folder / "tasks"
        host.prepare(Program(world.topology, layout, world.settings, *places))
        self.slots = SlotSessions(host, "app", Restores("app"), timeout, world.settings.at_least_once)
        self.slots.begin()
        self.coordinator = Coordinator(opened, self.slots)
        self.coordinator.take_over()
        self.stores = ApplicationStores(OwnCommits(self.coordinator), live=LiveTasks(layout, self.slots.ask))
        self.loop = CommitLoop(self.coordinator, 0.0, False, lambda *_: None, self.slots.check)
        self.slots.on_lost = self.loop.wake
        self.loop.start()

    def process(self) -> None:
        self.loop.process_all_available()
        if self.loop.error is not None:
            raise self.loop.error

    def slot(self, number: int) -> int:
        """The process that is a slot now."""
        return self.host.jobs[-1].pids()[number]

    def close(self) -> None:
        self.loop.stop()
        self.slots.close()


def put(world: World, keys: list[str] = KEYS) -> None:
    produce([(key, "x", 0) for key in keys], "in", value=str, log=world.log)


def expected(times: int) -> Counter[Any]:
    """All counts of so many rounds of the keys, each exactly once."""
    total = Counter(KEYS)
    return Counter((key, n + 1) for key, count in total.items() for n in range(count * times))


def partition_of(key: str) -> int:
    """The partition of a key among two."""
    return int(partitions(pa.array([key.encode()], pa.binary()), 2, 0)[0])

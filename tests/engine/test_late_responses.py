"""Responses of a foreign-key join that come in another order than the changes that they answer.

The two customers lie in different partitions, and the responses of Cy's are read before those of Ed's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Topology
from penstock.engine.local import LocalApplication
from penstock.log.base import TopicInfo
from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.query.committed import committed_store
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

CY, ED = "cy", "ed"
ALL_AT_ONCE = {"statestore_cache_max_bytes": 0}
IN_SMALL_COMMITS = {**ALL_AT_ONCE, "chunk_records": 1, "commit_max_bytes": 100}


def joined() -> Topology:
    builder = StreamsBuilder()
    orders, customers = builder.table("orders", value=str), builder.table("customers", value=str)
    table = orders.join(
        customers, lambda order, city: f"{order} {city}", value=str, foreign_key=lambda order: order[:2], store="joined"
    )
    table.to_stream().to("out")
    return builder.build()


class World:
    def __init__(self, folder: Path, settings: dict[str, Any]):
        self.log, self.storage, self.folder = FileLog(folder / "log"), LocalStorage(folder / "checkpoint"), folder
        self.settings = Settings.load(environment={}, folder=folder, **settings)
        self.log.create_topic(TopicInfo("orders", 1, "str", "str"))
        self.log.create_topic(TopicInfo("customers", 2, "str", "str"))
        produce([(CY, "Oslo", 0), (ED, "Rome", 0)], "customers", value=str, log=self.log)
        assert [len(list(consume("customers", log=self.log, partition=p))) for p in (0, 1)] == [1, 1]
        assert [record.key for record in consume("customers", log=self.log, partition=0)] == [CY]
        self.application = self.start()
        self.application.run_until()

    def start(self) -> LocalApplication:
        return LocalApplication(joined(), "app", self.settings, self.log, self.storage, self.folder / "tasks")

    def restart(self) -> None:
        """As after a crash."""
        for task in self.application.host.tasks():
            task.state.abandon()
        self.application = self.start()

    def order(self, *orders: tuple[str, str | None]) -> None:
        produce([(key, value, 1) for key, value in orders], "orders", value=str, log=self.log)

    def output(self) -> list[tuple[Any, Any]]:
        return [(record.key, record.value) for record in consume("out", log=self.log)]

    def rows(self, store: str) -> list[tuple[Any, ...]]:
        with committed_store(self.application.coordinator, store) as found:
            return sorted(row[:2] for row in found.all())

    def remembered(self) -> int:
        """Of how many rows the number of a response is kept."""
        stores = [store for task in self.application.host.tasks() for store in task.state.stores.values()]
        return sum(len(list(store.rows())) for store in stores if store.name.endswith("numbers"))

    def late(self) -> int:
        metrics = self.application.coordinator.manifest.metrics
        return sum(count for name, count in metrics.items() if "late-response" in name)


@pytest.mark.parametrize("last", ["cy: milk", None])
def test_the_response_to_an_earlier_change_that_comes_last_is_dropped(tmp_path: Path, last: str | None):
    world = World(tmp_path, ALL_AT_ONCE)
    world.order(("o", "ed: tea"), ("o", "cy: tea"), ("o", last), ("o", "cy: rum"))
    world.application.run_until()
    assert world.output()[-1] == ("o", "cy: rum Oslo")
    assert world.rows("joined") == [("o", "cy: rum Oslo")]
    assert world.late() == 1
    assert world.remembered() == 0


@pytest.mark.parametrize("crashes", [False, True])
def test_what_comes_some_commits_later_is_dropped_too_and_then_nothing_is_remembered(tmp_path: Path, crashes: bool):
    world = World(tmp_path, IN_SMALL_COMMITS)
    world.order(*((f"{i}", "ed: tea") for i in range(8)), ("o", "ed: tea"), ("o", "cy: tea"))
    step, remembered = world.application.coordinator.step, []
    while step(world.application.coordinator.end_offsets()):
        remembered.append(world.remembered())
        if crashes:
            world.restart()
            step = world.application.coordinator.step
    assert len(remembered) > 2
    assert remembered[-2] > 0
    assert world.late() == 1
    assert world.rows("joined") == [*((f"{i}", "ed: tea Rome") for i in range(8)), ("o", "cy: tea Oslo")]
    world.order(("o", "cy: rum"))
    world.application.run_until()
    assert world.output()[-1] == ("o", "cy: rum Oslo")
    assert world.remembered() == 0

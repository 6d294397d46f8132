"""A program that keeps rows of every kind of store, for tests of state that somebody else has written or moved.

State of releases is kept in ``tests/engine/releases``, so it goes on as it is here: add to it, and change nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import (
    Deduplicated,
    EmitStrategy,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    consume,
)
from penstock.engine.local import LocalApplication
from penstock.engine.rescaling.rescale import Rescale
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.query.application import open_stores
from penstock.query.rows import rows_of
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

SETTINGS = {"statestore_cache_max_bytes": 0, "flush_commits": 1, "snapshot_commits": 3}

KEYS = [f"k{n}" for n in range(12)]
THIRDS = [[(KEYS[(7 * i) % 12], (5 * i) % 9, 100 * third + 2 * i) for i in range(24)] for third in range(3)]
"""Records in the order of their times."""
LATER = [(f"z{n}", 1, 5_000 + n) for n in range(60)]
"""Some for every partition, behind all windows."""


def every_kind_of_store() -> Topology:
    builder = StreamsBuilder()
    stream, other = builder.stream("in", key=str, value=int), builder.stream("other", key=str, value=int)
    grouped = stream.group_by_key()
    counts = grouped.count("counts")
    counts.to_stream().to("counts")
    stream.group_by(lambda key, value: f"v{value}", key=str).count("by-value").to_stream().to("by-value")
    windows = TimeWindows.of_size_and_grace(50, 10)
    grouped.windowed_by(windows).count("windows").suppress(Suppressed.until_window_closes()).to_stream().to("final")
    on_close = grouped.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    on_close.count("closing").to_stream().to("closed")
    grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(30, 20)).count("sessions").to_stream().to("sessions")
    sliding = grouped.windowed_by(SlidingWindows.of_time_difference_and_grace(20, 20))
    sliding.count("sliding").to_stream().to("sliding")
    counts.suppress(Suppressed.until_time_limit(40)).to_stream().to("slowly")
    stream.deduplicate_by_key(70, Deduplicated.with_("keys", str, int)).to("first-of-key")
    stream.deduplicate_by_key_value(lambda key, value: f"{value % 2}", 70, Deduplicated.with_("ids", str, int)).to(
        "first-of-id"
    )
    pairs = JoinWindows.of_time_difference_and_grace(5, 10)
    stream.left_join(other, lambda a, b: f"{a} {b}", pairs, value=str).to("pairs")
    versions = Materialized.as_versioned("versions", history_retention=400, segment_interval=50)
    rows = stream.to_table(materialized=versions)
    other.left_join(rows, lambda value, row: f"{value} {row}", grace=10, value=str).to("as-of")
    named = counts.map_values(lambda n: n, value=int)
    owners = other.to_table(store="owners")
    joined = named.join(
        owners, lambda n, owner: f"{n} {owner}", value=str, foreign_key=lambda n: f"k{n}", store="owned"
    )
    joined.to_stream().to("joined")
    return builder.build()


class Program:
    """A topology over topics in a folder, with some partitions."""

    def __init__(self, folder: Path, topology: Topology, partitions: int):
        self.folder, self.topology, self.partitions = folder, topology, partitions
        self.log, self.storage = FileLog(folder / "log"), LocalStorage(folder / "checkpoint")
        self.settings = Settings.load(environment={}, folder=folder, **SETTINGS)
        self.sources = [topic for topic in topology.source_topics if topic not in topology.sink_topics]
        for topic in self.sources:
            if not self.log.exists(topic):
                self.log.create_topic(TopicInfo(topic, partitions, "str", "int"))

    def produce(self, *records: tuple[str, Any, int]) -> None:
        for number, topic in enumerate(self.sources):
            produce([(key, value, time + number) for key, value, time in records], topic, str, int, self.log)

    def process(self, *records: tuple[str, Any, int]) -> None:
        self.produce(*records)
        application = self.start()
        application.run_until()
        application.close()

    def start(self) -> LocalApplication:
        return LocalApplication(self.topology, "app", self.settings, self.log, self.storage, self.folder / "tasks")

    def make_topics_anew(self, partitions: int) -> None:
        for topic in self.sources:
            self.log.delete_topic(topic)
            self.log.create_topic(TopicInfo(topic, partitions, "str", "int"))

    def rescale(self, partitions: int) -> Rescale:
        planned = Rescale(self.topology, self.storage, self.log, partitions)
        planned.execute()
        return planned

    def tables(self) -> dict[str, dict[str, tuple[str, int]]]:
        """The last value of each key in each topic that it writes, but for those that were to let time pass."""
        return {
            topic: {
                repr(r.key): (repr(r.value), r.timestamp)
                for r in consume(topic, log=self.log)
                if not str(getattr(r.key, "key", r.key)).startswith("z")
            }
            for topic in self.topology.sink_topics
        }

    def rows(self, store: str) -> list[str]:
        stores = open_stores(self.folder)
        try:
            return sorted(map(repr, rows_of(stores.view(store))))
        finally:
            stores.close()

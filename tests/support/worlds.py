"""Applications in this process, on the engine's own reader: live, record by record, and over a backlog."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import strategies as st

from penstock import Topology
from penstock.arrays import partitions
from penstock.engine.local import LocalApplication
from penstock.figures.metrics import DROPPED, readable, total
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.plan import nodes
from penstock.serdes import INT, STR
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.folders import MEMORY

Row = tuple[str, Any, Any, int]
"""Topic, key, value, timestamp."""


class World:
    """An application over topics of so many partitions."""

    def __init__(self, topology: Topology, count: int = 1, **settings: Any):
        self.topology = topology
        self.log = MemoryLog()
        for topic in topology.source_topics:
            self.log.create_topic(TopicInfo(topic, count))
        self._folder = TemporaryDirectory(dir=MEMORY)
        self._settings = Settings.load(environment={}, **{"statestore_cache_max_bytes": 0} | settings)
        self.application = self._start()
        self._appends = 0

    def _start(self) -> LocalApplication:
        storage = LocalStorage(Path(self._folder.name))
        return LocalApplication(self.topology, "app", self._settings, self.log, storage)

    def append(self, rows: Sequence[Row]) -> None:
        for topic in dict.fromkeys(row[0] for row in rows):
            mine = [row for row in rows if row[0] == topic]
            self._appends += 1
            with self.log.writer(topic, f"in-{self._appends}") as writer:
                count = self.log.topic(topic).partitions
                placed = partitions(STR.encode_all([row[1] for row in mine]), count, 0)
                for partition in range(count):
                    here = [row for row, at in zip(mine, placed, strict=True) if at == partition]
                    columns = [STR.encode_all([row[1] for row in here]), INT.encode_all([row[2] for row in here])]
                    writer.write(partition, *columns, np.array([row[3] for row in here], np.int64))
            self.log.append(topic, writer.segments())

    def run(self) -> None:
        self.application.run_until()

    def crash(self) -> None:
        """Begin anew from what is committed."""
        for task in self.application.host.tasks():
            task.abandon()
        self.application = self._start()

    def outputs(self) -> dict[str, list[tuple[Any, ...]]]:
        """All records of all topics, partition by partition."""
        return {topic: list(self._records(topic)) for topic in self.topology.sink_topics if self.log.exists(topic)}

    def _records(self, topic: str) -> Any:
        sinks = [node for node in self.topology.nodes if isinstance(node, nodes.Sink) and node.topic == topic]
        for partition, end in enumerate(self.log.end_offsets(topic)):
            for records in self.log.read(topic, partition, 0, end):
                keys, values = sinks[0].key.decode_all(records.key), sinks[0].value.decode_all(records.value)
                yield from zip(keys, values, records.timestamp.tolist(), strict=True)

    def waits(self) -> bool:
        return bool(self.application.coordinator.manifest.waiting)

    def dropped(self) -> int:
        return int(total(readable(self.application.coordinator.manifest.metrics), DROPPED))


def live(topology: Topology, rows: Sequence[Row], count: int = 1) -> World:
    """Each record is processed, with all that comes of it, before the next one is there."""
    world = World(topology, count)
    for row in rows:
        world.append([row])
        world.run()
    return world


def backlog(topology: Topology, rows: Sequence[Row], count: int = 1, **settings: Any) -> World:
    """All records are there at once."""
    world = World(topology, count, **settings)
    world.append(rows)
    world.run()
    return world


def in_any_order(outputs: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[str]]:
    """What several tasks write into one topic is not in the order of time (docs/decisions/0025)."""
    return {topic: sorted(map(repr, rows)) for topic, rows in outputs.items()}


CUTS = st.fixed_dictionaries(
    {
        "chunk_records": st.sampled_from([1000, 7, 2, 1]),
        "chunk_bytes": st.sampled_from([1 << 25, 60]),
        "commit_max_bytes": st.sampled_from([1 << 28, 300, 40, 1]),
        "input_buffer_max_bytes": st.sampled_from([1 << 29, 100, 1]),
        "statestore_uncommitted_max_records": st.sampled_from([-1, 5]),
    }
)


KEYS, VALUES = st.sampled_from(["a", "b", "c", "d", None]), st.sampled_from([0, 1, 2, 3, None])


def topics_of(topology: Topology) -> list[str]:
    return [topic for topic in topology.source_topics if topic not in topology.sink_topics]


@st.composite
def in_disorder(draw: st.DrawFn, topology: Topology) -> list[Row]:
    """Records of one topic, many of them at one time, and others late."""
    topic = st.just(topics_of(topology)[0])
    return draw(st.lists(st.tuples(topic, KEYS, VALUES, st.integers(0, 6).map(lambda time: time * 5)), max_size=25))


@st.composite
def in_order(draw: st.DrawFn, topology: Topology) -> list[Row]:
    """Records of all topics, each later than the one before."""
    topic, gap = st.sampled_from(topics_of(topology)), st.integers(1, 12) | st.just(1000)
    drawn = draw(st.lists(st.tuples(topic, KEYS, VALUES, gap), max_size=25))
    return [(*row[:3], int(time)) for row, time in zip(drawn, np.cumsum([row[3] for row in drawn]), strict=True)]

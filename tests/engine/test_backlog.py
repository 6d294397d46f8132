"""A backlog gives what live reading gives: partitions advance evenly in time, and nothing comes late behind them.

Records of source topics of several partitions, in the order of time, meet behind repartition topics. Whatever a commit
takes of each partition, the tables end as with one partition, and no more is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Topology
from penstock.arrays import partitions
from penstock.engine.local import LocalApplication
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.metrics import DROPPED, readable
from penstock.plan import nodes
from penstock.serdes import INT, STR
from penstock.settings import Settings
from penstock.storage import LocalStorage
from support.folders import MEMORY
from support.topologies import EXAMPLES, topology_of

Row = tuple[str, Any, Any, int]
"""Topic, key, value, timestamp."""

ONE_COMMIT: dict[str, int] = {}
CUTS = st.fixed_dictionaries(
    {
        "chunk_records": st.sampled_from([1000, 7, 1]),
        "commit_max_bytes": st.sampled_from([1 << 28, 300, 40, 1]),
        "input_buffer_max_bytes": st.sampled_from([1 << 29, 100, 1]),
        "statestore_uncommitted_max_records": st.sampled_from([-1, 5]),
    }
)


class World:
    """An application over topics of so many partitions, that has its whole input as a backlog."""

    def __init__(self, topology: Topology, count: int, appends: Sequence[Sequence[Row]], **settings: int):
        self.topology = topology
        self.log = MemoryLog()
        for topic in topology.source_topics:
            self.log.create_topic(TopicInfo(topic, count))
        for number, rows in enumerate(appends):
            self._append(rows, number)
        loaded = Settings.load(environment={}, **{"statestore_cache_max_bytes": 0, "on_error": "skip"} | settings)
        with TemporaryDirectory(dir=MEMORY) as folder:
            self.application = LocalApplication(topology, "app", loaded, self.log, LocalStorage(Path(folder)))
            self.application.run_until()

    def _append(self, rows: Sequence[Row], number: int) -> None:
        for topic in {row[0] for row in rows}:
            mine = [row for row in rows if row[0] == topic]
            with self.log.writer(topic, f"in-{number}") as writer:
                count = self.log.topic(topic).partitions
                keys = STR.encode_all([row[1] for row in mine])
                placed = partitions(keys, count, np.arange(number, number + len(mine)) % count)
                for partition in range(count):
                    here = [row for row, at in zip(mine, placed, strict=True) if at == partition]
                    columns = [STR.encode_all([row[1] for row in here]), INT.encode_all([row[2] for row in here])]
                    writer.write(partition, *columns, np.array([row[3] for row in here], np.int64))
            self.log.append(topic, writer.segments())

    def table(self, topic: str) -> dict[Any, Any]:
        """The last value of each key of an output topic."""
        found: dict[Any, Any] = {}
        for key, value in self.records(topic):
            found[key] = value
        return {key: value for key, value in found.items() if value is not None}

    def records(self, topic: str) -> Iterator[tuple[Any, Any]]:
        key, value = next(
            (node.key, node.value)
            for node in self.topology.nodes
            if isinstance(node, nodes.Sink) and node.topic == topic
        )
        for partition, end in enumerate(self.log.end_offsets(topic)):
            for records in self.log.read(topic, partition, 0, end):
                yield from zip(key.decode_all(records.key), value.decode_all(records.value), strict=True)

    def dropped(self) -> dict[str, int]:
        """How many records were dropped, by reason."""
        figures = readable(self.application.coordinator.manifest.metrics)
        found: dict[str, int] = {}
        for metric, count in figures.items():
            if metric.name == DROPPED and count:
                found[metric.reason] = found.get(metric.reason, 0) + int(count)
        return found


def results(world: World) -> dict[str, dict[Any, Any]]:
    """What every output topic ends as; which of several tasks put a key into it last is nobody's concern."""
    return {topic: world.table(topic) for topic in world.topology.sink_topics if topic != "dropped"}


# --- any topology ----------------------------------------------------------------------------------------------------


OWN_TIME = ("rate_limit", "table_join_by_foreign_key_of_windows", "table_join_by_foreign_key_of_sessions")
"""What a rate limit lets go of, and which rows of windows have expired when the other side changes, depends on how far
the stream time of one task has come; with several partitions there are several."""


def meets(name: str) -> bool:
    """Whether records of several partitions meet in it, and what comes of it does not depend on how many there are."""
    topology = topology_of(name)
    has_global_table = any(isinstance(node, nodes.GlobalTable) for node in topology.nodes)
    return bool(topology.internal_topics) and not has_global_table and not name.startswith(OWN_TIME)


WITH_REPARTITION = [name for name in EXAMPLES if meets(name)]


@st.composite
def backlogs(draw: st.DrawFn, topology: Topology) -> list[list[Row]]:
    """Appends in the order of time, and records much later that close all windows of all keys."""
    topics = [topic for topic in topology.source_topics if topic not in topology.sink_topics]
    key, value = st.sampled_from(["a", "b", "c", None]), st.sampled_from([1, 2, 3, 0, None])
    gap = st.integers(1, 30) | st.sampled_from([31, 100, 1000])
    drawn = draw(st.lists(st.lists(st.tuples(st.sampled_from(topics), key, value, gap), max_size=12), max_size=5))
    time, appends = 0, []
    for rows in drawn:
        appends.append([])
        for topic, key_, value_, gap_ in rows:
            time += gap_
            appends[-1].append((topic, key_, value_, time))
    for late in (100_000, 200_000):
        ends = [(topic, key_, value_) for topic in topics for key_ in ("a", "b", "c") for value_ in (1, 2, 3)]
        appends.append([(*row, time + late + number) for number, row in enumerate(ends)])
    return appends


@pytest.mark.parametrize("name", WITH_REPARTITION)
@settings(max_examples=max(5, settings.default.max_examples // 8))
@given(data=st.data())
def test_the_tables_end_as_with_one_partition_and_nothing_is_late(name: str, data: st.DataObject) -> None:
    topology = topology_of(name)
    appends = data.draw(backlogs(topology))
    one = World(topology, 1, appends)
    count = data.draw(st.sampled_from([2, 4, 7]), "partitions")
    several = World(topology, count, appends, **data.draw(CUTS, "cuts"))
    assert results(several) == results(one)
    assert several.dropped() == one.dropped()

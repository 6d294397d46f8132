"""Which partition of a test driver each record belongs to, and which tasks take it up."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from penstock.arrays import partitions
from penstock.batch import Batch
from penstock.columns import Column
from penstock.engine.shared.layout import Layout, TaskId, layout_of
from penstock.errors import ConfigError
from penstock.messages import show
from penstock.plan.physical import Part, SubTopology
from penstock.plan.topology import Topology
from penstock.state.task_state import TaskState


class _Topics:
    """A log whose topics have so many partitions, those that are not named as many as most of the others."""

    def __init__(self, counts: Mapping[str, int], count: int):
        self._counts = counts
        self._count = count

    def topic(self, name: str) -> Any:
        return SimpleNamespace(partitions=self._counts.get(name, self._count))

    def exists(self, name: str) -> bool:
        return True


class Partitions:
    """The partitions of a driver's topics, laid out as those of an application.

    Args:
        count: how many the topics have that the topology reads and writes, or how many each of them has; those that it
            repartitions through have as many as its tasks, or as it says.

    Raises:
        ConfigError: that is no number of partitions.
        TopologyError: topics that are joined would have different numbers.
    """

    def __init__(self, topology: Topology, count: int | Mapping[str, int]):
        counts = count if isinstance(count, Mapping) else {}
        for one in counts.values() if counts else [count]:
            if type(one) is not int or one < 1:
                raise ConfigError(f"TopologyTestDriver(partitions=...) takes an int of 1 or more; got {show(one)}")
        self.count = max(counts.values()) if isinstance(count, Mapping) else count
        self._layout: Layout = layout_of(topology, cast("Any", _Topics(counts, self.count)))

    def tasks_of(self, sub: SubTopology) -> int:
        """How many tasks a sub-topology has; one that reads by a pattern may have no topics yet."""
        return self._layout.tasks[sub.id] or self.count

    def of_topic(self, topic: str) -> int:
        """How many partitions a topic has."""
        return self._layout.partitions.get(topic, self.count)

    def of_key(self, topic: str, key: Column, without_key: int) -> int:
        """The partition of one key by Kafka's partitioner; another number decides where it is null."""
        return int(partitions(key.routing(), self.of_topic(topic), without_key)[0])

    def of_result(self, topic: str, record: Batch, task: int) -> int:
        """The partition that one record goes to: as its sink chose, else by its key, else that of its task."""
        if record.to_partition is not None and record.to_partition[0] >= 0:
            return int(record.to_partition[0])
        return self.of_key(topic, record.key, task)

    def given(self, topic: str, partition: int) -> int:
        """A partition that a test says; raises ``ConfigError`` if the topic has none of this number."""
        count = self.of_topic(topic)
        if type(partition) is not int or not 0 <= partition < count:
            raise ConfigError(
                f"pipe_input into {topic!r}: its partitions are 0 to {count - 1}, got {show(partition)}; "
                "TopologyTestDriver(topology, partitions=...) says how many there are"
            )
        return partition


def partition_of(state: TaskState) -> int:
    """The partition of a task."""
    return TaskId.parse(state.task).partition


class Readers:
    """Who takes up the records of a source: a task for each partition; of a global table every one takes up all.

    Args:
        first: the number of the first of the sub-topology's tasks.
        tasks: how many it has.
    """

    def __init__(self, sub: SubTopology, part: Part, first: int, tasks: int):
        self.part = part
        self._tasks = range(first, first + tasks)
        self._is_global = part in sub.global_parts

    def of(self, partition: int) -> range:
        """The numbers of the tasks that take up what comes in a partition."""
        return self._tasks if self._is_global else self._tasks[partition : partition + 1]

"""The partitions of a test driver's records, and the tasks that read them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from penstock.arrays import partitions
from penstock.columns.batch import Batch
from penstock.columns.column import Column
from penstock.engine.shared.layout import Layout, TaskId, layout_of
from penstock.errors import ConfigError
from penstock.messages import partitions_to, show
from penstock.plan.physical import Part, SubTopology
from penstock.plan.topology import Topology
from penstock.state.task_state import TaskState


class _Topics:
    """A log whose topics have given partition counts; topics without one have the default."""

    def __init__(self, counts: Mapping[str, int], count: int):
        self._counts = counts
        self._count = count

    def topic(self, name: str) -> Any:
        return SimpleNamespace(partitions=self._counts.get(name, self._count))

    def exists(self, name: str) -> bool:
        return True


class Partitions:
    """The partitions of a driver's topics, laid out like those of an application.

    Args:
        count: the partition count of all topics that the topology reads and writes, or of each of them. Repartition
            topics have as many as its tasks, or as the topology says.

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
        """Return how many tasks a sub-topology has; one that reads by a pattern may have no topics yet."""
        return self._layout.tasks[sub.id] or self.count

    def of_topic(self, topic: str) -> int:
        """Return the partition count of a topic."""
        return self._layout.partitions.get(topic, self.count)

    def of_key(self, topic: str, key: Column, without_key: int) -> int:
        """Return the partition of one key by Kafka's partitioner; ``without_key`` decides for a null key."""
        return int(partitions(key.routing(), self.of_topic(topic), without_key)[0])

    def of_result(self, topic: str, record: Batch, task: int) -> int:
        """Return the partition of one record: as its sink chose, else by its key, else that of its task."""
        if record.to_partition is not None and record.to_partition[0] >= 0:
            return int(record.to_partition[0])
        return self.of_key(topic, record.key, task)

    def given(self, topic: str, partition: int) -> int:
        """Return a partition given by a test; raises ``ConfigError`` if the topic does not have it."""
        count = self.of_topic(topic)
        if type(partition) is not int or not 0 <= partition < count:
            raise ConfigError(
                f"pipe_input into {topic!r}: {partitions_to(count)}; got {show(partition)}; "
                "TopologyTestDriver(topology, partitions=...) says how many there are"
            )
        return partition


def partition_of(state: TaskState) -> int:
    """Return the partition of a task."""
    return TaskId.parse(state.task).partition


class Readers:
    """The tasks that read a source: one for each partition; of a global table each reads everything.

    Args:
        first: the number of the first of the sub-topology's tasks.
        tasks: how many it has.
    """

    def __init__(self, sub: SubTopology, part: Part, first: int, tasks: int):
        self.part = part
        self._tasks = range(first, first + tasks)
        self._is_global = part in sub.global_parts

    def of(self, partition: int) -> range:
        """Return the numbers of the tasks that read a partition."""
        return self._tasks if self._is_global else self._tasks[partition : partition + 1]

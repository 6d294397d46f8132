"""The layout of a topology: partitions of topics, tasks of sub-topologies, and the order of stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.engine.shared.cycles import Cycle, cycles_of
from penstock.engine.shared.meetings import NO_MEETINGS, Meetings, meetings_of
from penstock.log.base import Log
from penstock.plan import nodes
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology


@dataclass(frozen=True, order=True)
class TaskId:
    """One sub-topology on one partition; written ``<sub-topology>_<partition>`` as in Kafka Streams."""

    sub: int
    partition: int

    def __str__(self) -> str:
        return f"{self.sub}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        sub, partition = text.split("_")
        return cls(int(sub), int(partition))


def global_place(topic: str, partition: int) -> str:
    """Return the name under which tasks keep their offset in one partition of a global table's topic."""
    return f"{topic}/{partition}"


class TaskPlaces(NamedTuple):
    """The inputs of one task. Cached, because every commit looks at each of thousands of tasks."""

    id: TaskId
    name: str
    inputs: tuple[str, ...]
    """The topics that it reads its own partition of."""
    places: tuple[tuple[str, str, int], ...]
    """Its inputs in the log: the name that its offset has, the topic, the partition."""


@dataclass(frozen=True)
class Layout:
    """A topology laid out over partitions, tasks and stages.

    Attributes:
        partitions: the partition counts of all topics the topology reads or writes.
        tasks: the number of tasks of each sub-topology.
        stages: the sub-topologies in the order in which they run in a commit. Those of one stage are independent of
            each other, or form a cycle.
        cycles: sub-topologies that send to each other.
        meetings: sub-topologies that receive results of one record through several topics.
    """

    partitions: dict[str, int]
    tasks: dict[int, int]
    stages: tuple[tuple[SubTopology, ...], ...]
    application_id: str = ""
    cycles: tuple[Cycle, ...] = ()
    meetings: Meetings = NO_MEETINGS
    _known: dict[int, tuple[TaskPlaces, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": {}}  # building it again is faster than sending it

    def tasks_of(self, sub: SubTopology) -> tuple[TaskPlaces, ...]:
        """Return the tasks of a sub-topology, with the inputs of each."""
        found = self._known.get(sub.id)
        if found is None:
            found = self._known[sub.id] = tuple(self._origins_of(sub, task) for task in self.task_ids(sub))
        return found

    def cycle_of(self, sub: int) -> Cycle | None:
        """Return the cycle that a sub-topology is part of, if any."""
        return next((cycle for cycle in self.cycles if any(one.id == sub for one in cycle.subs)), None)

    def task_ids(self, sub: SubTopology) -> list[TaskId]:
        return [TaskId(sub.id, partition) for partition in range(self.tasks[sub.id])]

    def all_of(self, topic: str) -> range:
        """Return all partitions of a topic."""
        return range(self.partitions[topic])

    def _origins_of(self, sub: SubTopology, task: TaskId) -> TaskPlaces:
        inputs = tuple(topic for topic in sub.source_topics if task.partition < self.partitions[topic])
        own = tuple((topic, topic, task.partition) for topic in inputs)
        every = tuple((global_place(topic, p), topic, p) for topic in sub.global_topics for p in self.all_of(topic))
        return TaskPlaces(task, str(task), inputs, own + every)


def layout_of(topology: Topology, log: Log, application_id: str = "") -> Layout:
    """Return the layout of a topology over the topics of a log.

    Raises:
        TopicNotFoundError: a source topic does not exist.
        TopologyError: topics that are joined have different numbers of partitions.
    """
    partitions = {topic: log.topic(topic).partitions for topic in topology.source_topics}
    internal = topology.repartitions
    writers = {t: [s for s in topology.sub_topologies if t in s.sink_topics] for t in internal}
    waiting = [sub for sub in topology.sub_topologies if not sub.is_global]
    tasks: dict[int, int] = {}
    cycles = cycles_of(tuple(waiting), topology.internal_topics, topology.facts)
    meetings = meetings_of(
        tuple(waiting), topology.internal_topics, frozenset[str]().union(*(one.topics for one in cycles))
    )
    stages = _stages(waiting, cycles, writers)
    while waiting:
        # a cycle of repartition topics is cut open at its first sub-topology
        stage = [sub for sub in waiting if _is_ready(sub, writers, tasks)] or waiting[:1]
        for topic, node in internal.items():
            if topic not in partitions and any(topic in sub.source_topics for sub in stage):
                known = [tasks[writer.id] for writer in writers[topic] if writer.id in tasks]
                partitions[topic] = node.partitions or max(known, default=0)
        for topics in _adaptable(topology, internal, partitions, stage):
            partitions.update(topics)
        for sub in stage:
            tasks[sub.id] = max((partitions[topic] for topic in sub.source_topics), default=0)
            for topic in sub.source_topics:
                partitions[topic] = partitions[topic] or tasks[sub.id]
        waiting = [sub for sub in waiting if sub not in stage]
    for copartition in topology.copartitions:
        copartition.check(partitions)
    topology.warn_of_uneven(partitions)
    for topic in topology.sink_topics:
        if topic not in partitions and log.exists(topic):
            partitions[topic] = log.topic(topic).partitions
    return Layout(partitions, tasks, stages, application_id, cycles, meetings)


def _stages(
    subs: list[SubTopology], cycles: tuple[Cycle, ...], writers: dict[str, list[SubTopology]]
) -> tuple[tuple[SubTopology, ...], ...]:
    """Return the sub-topologies in the order in which they run: each after its senders, a cycle as one stage."""
    cycle_of = {sub.id: cycle.subs for cycle in cycles for sub in cycle.subs}
    waiting = list(dict.fromkeys(cycle_of.get(sub.id, (sub,)) for sub in subs))
    stages: list[tuple[SubTopology, ...]] = []
    done: set[int] = set()
    while waiting:
        ready = [
            group
            for group in waiting
            if all(
                writer.id in done or writer in group
                for sub in group
                for topic in sub.source_topics
                for writer in writers.get(topic, [])
            )
        ]
        alone = [group[0] for group in ready if group[0].id not in cycle_of]
        stages += [tuple(alone)] if alone else []
        stages += [group for group in ready if group[0].id in cycle_of]
        done |= {sub.id for group in ready for sub in group}
        waiting = [group for group in waiting if group not in ready]
    return tuple(stages)


def _adaptable(
    topology: Topology, internal: dict[str, nodes.Repartition], partitions: dict[str, int], stage: list[SubTopology]
) -> Iterator[dict[str, int]]:
    """Yield repartition topics that take the partition count of the topics they are joined with.

    If all joined topics are of this kind, they take the largest of their counts.
    """
    here = {topic for sub in stage for topic in sub.source_topics}
    for copartition in topology.copartitions:
        topics = copartition.topics
        free = [topic for topic in topics if topic in here and topic in internal and not internal[topic].partitions]
        fixed = [partitions[topic] for topic in topics if topic not in free and partitions.get(topic)]
        if free:
            count = fixed[0] if fixed else max(partitions[topic] for topic in free)
            yield dict.fromkeys(free, count)


def _is_ready(sub: SubTopology, writers: dict[str, list[SubTopology]], tasks: dict[int, int]) -> bool:
    return all(writer.id in tasks for topic in sub.source_topics for writer in writers.get(topic, []))


def topic_names(topology: Topology, application_id: str) -> dict[str, str]:
    """Return Kafka Streams' names of a topology's repartition topics."""
    return {topic: f"{application_id}-{topic}" for topic in topology.internal_topics}

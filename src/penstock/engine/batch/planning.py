"""Lays a topology out for a batch: topics, tasks, and the order of stages."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Self

import pyarrow as pa

from penstock.engine.batch.arguments import Source
from penstock.engine.batch.feed import RowsOf
from penstock.engine.batch.program import APPLICATION, CyclicStage, Program, Range, Stage
from penstock.engine.commit.topics import create_sink_topics
from penstock.engine.shared.layout import Layout, layout_of
from penstock.errors import ConfigError
from penstock.log.base import Log, TopicInfo
from penstock.log.memory import MemoryLog
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.settings import Settings


def laid_out(
    topology: Topology, sources: Mapping[str, Source], counts: Mapping[str, int], log: Log | None, settings: Settings
) -> tuple[Layout, list[TopicInfo]]:
    """Return the layout of a topology, and all of its topics.

    Args:
        counts: the partition counts of the DataFrames' topics.
        log: has the other topics that the topology reads.

    Raises:
        ConfigError: a topic that the topology reads is neither a DataFrame nor in the log, or has other types.
        TopologyError: topics that are joined have different numbers of partitions.
    """
    planned = MemoryLog()
    for topic in topology.source_topics:
        if topic in sources:
            planned.create_topic(sources[topic].chosen.topic(topic, counts[topic], _with_times(sources[topic])))
        elif topic not in topology.sink_topics:
            if log is None or not log.exists(topic):
                raise _missing(topic, sources, log)
            planned.create_topic(log.topic(topic))
    create_sink_topics(topology, planned, settings)
    layout = layout_of(topology, planned, APPLICATION)
    infos = [planned.topic(topic) for topic in planned.topics()]
    layout.partitions.update({topic: planned.topic(topic).partitions for topic in settings.dead_letters})
    return layout, infos


def _with_times(source: Source) -> pa.Schema:
    """Return the schema of a DataFrame's used columns, including the times."""
    from penstock.engine.spark.frame_types import written_schema

    time = source.chosen.timestamp
    return written_schema(source.frame.select(*_names(source.used, time)).schema, [*source.used, time or ""])


def _names(used: list[str], time: str | None) -> list[str]:
    names = used if time is None else [*used, time]
    return ["`{}`".format(name.replace("`", "``")) for name in dict.fromkeys(names)]


def _missing(topic: str, sources: Collection[str], log: Log | None) -> ConfigError:
    there = f"the DataFrames are for {', '.join(sources)}" if sources else "there are no DataFrames"
    where = "no log was given" if log is None else f"{log.url} has no such topic"
    return ConfigError(
        f"run_batch: the topology reads topic {topic!r}, for which there is no DataFrame, and {where}; {there}. Give "
        f"{{{topic!r}: DataFrame}}, or the log that has it (log=)"
    )


def in_order(layout: Layout, through: Container[str]) -> Iterator[tuple[SubTopology, ...]]:
    """Yield the sub-topologies, each after its senders; those of a cycle together.

    Args:
        through: the topics through which records go from one to the other within the batch.

    Raises:
        ConfigError: topics of the log lead around a cycle.
    """
    subs = [sub for stage in layout.stages for sub in stage]
    cycles = {sub.id: cycle.subs for cycle in layout.cycles for sub in cycle.subs}
    waiting = list(dict.fromkeys(cycles.get(sub.id, (sub,)) for sub in subs))
    while waiting:
        ready = [
            group for group in waiting if not any(_feeds(o, group, through, group[0].id in cycles) for o in waiting)
        ]
        if not ready:
            read = {topic for group in waiting for sub in group for topic in (*sub.source_topics, *sub.global_topics)}
            around = sorted(read & {topic for group in waiting for sub in group for topic in sub.sink_topics})
            raise ConfigError(
                f"run_batch: records go around a cycle of topics: {', '.join(around)}. A batch cannot do that where "
                "one of them is a topic of the log. Send them through repartition() instead of to() and stream(), or "
                'start the topology over topics: topology.start(..., trigger="available-now")'
            )
        yield from ready
        waiting = [group for group in waiting if group not in ready]


def _feeds(
    one: tuple[SubTopology, ...], other: tuple[SubTopology, ...], through: Container[str], is_cycle: bool
) -> bool:
    """Return whether sub-topologies send to others. A cycle's own topics do not count."""
    written = {topic for sub in one for topic in sub.sink_topics if topic in through}
    read = {topic for sub in other for topic in (*sub.source_topics, *sub.global_topics)}
    return not (one is other and is_cycle) and not written.isdisjoint(read)


class Plan:
    """The stages of a batch.

    Args:
        sources: the DataFrames, by topic.
        program: the common part of all stages.
        ranges: the offsets to read from the log, which has the other topics that the topology reads.
        stores: the stores whose rows are results.

    Raises:
        ConfigError: the topology cannot run as a batch.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        program: Program,
        ranges: Mapping[str, tuple[Range, ...]],
        stores: Collection[str],
    ):
        self.program, self._sources, self._stores = program, sources, tuple(sorted(stores))
        self.topology, self.layout = program.topology, program.layout
        subs = self.topology.sub_topologies
        written = {topic for sub in subs for topic in sub.sink_topics}
        read = {topic for sub in subs for topic in (*sub.source_topics, *sub.global_topics)}
        self.ranges = dict(ranges)
        self.groups = list(in_order(self.layout, written - ranges.keys()))
        """The sub-topologies in the order in which they run, those of a cycle together."""
        self.subs = [sub for group in self.groups for sub in group]
        self.numbers = {topic: number for number, topic in enumerate(sorted(written | read))}
        """Numbers that distinguish the topics of rows sent between stages."""
        self._sent = (written & read) - ranges.keys()

    @classmethod
    def alone(
        cls,
        topology: Topology,
        sources: Mapping[str, Source],
        counts: Mapping[str, int],
        log: Log | None,
        stores: Collection[str],
        settings: Settings,
    ) -> Self:
        """Return the stages of a batch without an application.

        Args:
            counts: the partition counts of the DataFrames' topics.
            log: has the other topics that the topology reads. All their present records are read.

        Raises:
            ConfigError, TopologyError: the topology cannot run as a batch.
        """
        layout, infos = laid_out(topology, sources, counts, log, settings)
        place = None if log is None else log.place
        program = Program(topology, layout, for_batch(settings), tuple(infos), place)
        ranges = {}
        for topic in set(topology.source_topics) - set(topology.sink_topics) - sources.keys():
            assert log is not None
            ranges[topic] = tuple(map(Range, log.start_offsets(topic), log.end_offsets(topic)))
        return cls(sources, program, ranges, stores)

    def cyclic(self, group: Sequence[SubTopology]) -> CyclicStage:
        """Return the inputs of a cycle's sub-topologies, all of them as rows, and their outputs."""
        own = {topic for sub in group for topic in sub.sink_topics}
        stages: list[Stage] = []
        for sub in group:
            first = sum(len(stage.inputs) for stage in stages)
            topics = [t for t in (*sub.global_topics, *sub.source_topics) if t not in own or self.writers(t, group)]
            stages.append(self._stage(sub, topics, first))
        return CyclicStage(tuple(stages))

    def stage(self, sub: SubTopology) -> Stage:
        """Return the inputs and outputs of a sub-topology."""
        topics = [*sub.global_topics, *sub.source_topics]
        has_rows = any(topic not in self.ranges for topic in topics)
        return self._stage(sub, [t for t in topics if has_rows and not (t in sub.global_topics and t in self.ranges)])

    def all_as_rows(self, sub: SubTopology) -> Stage:
        """Return the stage of a sub-topology with all topics as rows."""
        return self._stage(sub, [*sub.global_topics, *sub.source_topics])

    def _stage(self, sub: SubTopology, as_rows: Sequence[str], first: int = 0) -> Stage:
        topics = [*sub.global_topics, *sub.source_topics]
        is_cycle = self.layout.cycle_of(sub.id) is not None
        is_alone = len(as_rows) == 1 and not is_cycle
        others = {*self._sources, *self.ranges, *sub.global_topics}
        return Stage(
            sub.id,
            tuple(self.rows_of(topic, number, sub, is_alone) for number, topic in enumerate(as_rows, first)),
            {topic: self.ranges[topic] for topic in topics if topic in self.ranges and topic not in as_rows},
            {topic: self.numbers[topic] for topic in sub.sink_topics if topic in self._sent},
            tuple(sorted(self.stores_of(sub))),
            is_packed=bool(as_rows) and not is_cycle and others.isdisjoint(as_rows),
        )

    def stores_of(self, sub: SubTopology) -> set[str]:
        """Return the stores whose rows its tasks output. The first sub-topology that has a global table outputs its
        store.
        """
        before = {
            store for one in self.subs[: self.subs.index(sub)] for part in one.global_parts for store in part.stores
        }
        return {store for part in sub.working_parts for store in part.stores}.intersection(self._stores) - before

    def writers(self, topic: str, but: Collection[SubTopology] = ()) -> list[int]:
        """Return the sub-topologies that write a topic."""
        return [sub.id for sub in self.subs if topic in sub.sink_topics and sub not in but]

    def tells_causes(self, sub: SubTopology) -> bool:
        """Return whether rows for a sub-topology carry their causes."""
        return sub.id in self.layout.meetings.subs

    def first_cause(self, topic: str, partition: int) -> int:
        """Return the cause number of the first record of a partition."""
        return self.layout.meetings.first_cause(topic, partition)

    def rows_of(self, topic: str, number: int, sub: SubTopology, is_alone: bool) -> RowsOf:
        """Return the format of a topic's rows for the tasks of a sub-topology, under this input number.

        Args:
            is_alone: whether the tasks read no other rows.
        """
        source, is_global = self._sources.get(topic), topic in sub.global_topics
        if source is None:
            return RowsOf(topic, number, is_global, placed=topic in self.topology.internal_topics)
        without_time = source.chosen._replace(timestamp=None)
        chosen, time = without_time, source.chosen.timestamp
        return RowsOf(topic, number, is_global, chosen, source.schema, time, is_alone=is_alone)


def for_batch(settings: Settings) -> Settings:
    """Return the settings of a task that keeps no checkpoint."""
    never = 2**62
    return replace(
        settings,
        commit_max_bytes=min(settings.commit_max_bytes, COMMIT_BYTES),
        snapshot_commits=never,
        snapshot_bytes=never,
        snapshot_interval=never,
    )


COMMIT_BYTES = 32 << 20
"""Most bytes of input that a task takes before it outputs its results."""

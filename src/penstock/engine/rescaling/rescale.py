"""Continues a stopped application with another number of partitions.

Its sources already have that number: they were enlarged, or are new topics. Each key's rows of state are written to
where Kafka's partitioner puts the key. One manifest, made like that of a take-over, makes them the tasks' initial
state. So a rescale is atomic: until then the written rows belong to nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from penstock.arrays import partitions
from penstock.engine.commit.invariants import RESCALE, refusal
from penstock.engine.commit.publishing import publish_newest, read_up_to
from penstock.engine.commit.putting_aside import PuttingAside
from penstock.engine.rescaling.moving import Moving
from penstock.engine.shared.description import Description, description_of
from penstock.engine.shared.layout import Layout, TaskId, global_place, layout_of
from penstock.engine.shared.manifest import Manifest, Manifests, TaskEntry
from penstock.engine.shared.picture import picture_of
from penstock.engine.shared.starts import Start, Starts
from penstock.engine.shared.stores import has_own_stores
from penstock.errors import ConfigError, FencedError, PenstockError
from penstock.faults import crash_point
from penstock.log.base import Log
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.serdes import Serde
from penstock.state.snapshot import TaskBase
from penstock.state.task_state import Numbers
from penstock.storage.base import Storage
from penstock.values.masking import masked
from penstock.values.times import wall_clock_ms

_MOST_TOLD = 4


@dataclass(frozen=True)
class Source:
    """The change of one source."""

    topic: str
    before: int
    """Its previous partition count."""
    now: int
    is_new: bool
    """Whether it was removed and created again, so that it is read from its first records."""


@dataclass(frozen=True)
class RescalePlan:
    """The plan of a rescale."""

    application_id: str
    commit: int
    """The number of the commit that the rescale makes."""
    sources: list[Source]
    tasks: dict[int, tuple[int, int]]
    """By sub-topology, its previous and its new number of tasks."""
    stores: list[str]
    """The stores whose rows are written again."""
    repeated: list[str]
    """The steps that repeat final results if their partitions had reached different times."""


class Rescale:
    """A rescale of one application, planned for its newest commit.

    Args:
        topology: the application's, as it was last started.
        partitions: the current partition count of its sources.

    Raises:
        ConfigError: this application cannot be rescaled, or not now.
        CorruptDataError: an output was restored from an older copy.
        TopicNotFoundError: a source does not exist.
    """

    def __init__(self, topology: Topology, storage: Storage, log: Log, count: int):
        self._storage, self._log, self._count = storage, log, count
        self._manifests, self._starts = Manifests(storage), Starts(storage)
        self._newest = self._manifests.newest() or Manifest(-1, {})
        self._start, self._kept = self._read()
        self._topology = topology.owned_by(self._start.application_id).expanded(log.topics())
        self._layout: Layout = layout_of(self._topology, log, self._start.application_id)
        for topic in [*self._topology.sink_topics, *self._newest.topics]:
            if log.exists(topic):
                self._layout.partitions.setdefault(topic, log.topic(topic).partitions)
        self._description = description_of(self._topology, self._layout)
        self._subs = {sub.id: sub for sub in self._topology.sub_topologies if not sub.is_global}
        self._before = self._tasks_before()
        self._changed = [sub for sub in self._subs.values() if self._before[sub.id] != self._layout.tasks[sub.id]]
        self._sources = [self._source(topic) for sub in self._changed for topic in sub.source_topics]
        names = {kept_name for kept_name, kept in self._description.stores.items() if kept.tasks in self._numbers()}
        self.plan = RescalePlan(
            self._start.application_id,
            self._newest.commit + 1,
            [source for source in self._sources if source.topic not in self._topology.internal_topics],
            {sub.id: (self._before[sub.id], self._layout.tasks[sub.id]) for sub in self._changed},
            sorted(names),
            self._repeated(),
        )
        self._check()

    def _read(self) -> tuple[Start, Description]:
        start = self._starts.of(self._newest)
        if start is None or start.topology is None:
            raise ConfigError(
                f"{self._storage.shown} does not say what the application keeps: it was never started, or by an older "
                "version of Penstock. Start it once with this one, and rescale it then; nothing was changed"
            )
        return start, start.topology

    def _numbers(self) -> set[int]:
        return {sub.id for sub in self._changed}

    def _tasks_before(self) -> dict[int, int]:
        kept = self._kept
        found = dict.fromkeys(self._subs, 0)
        for topic, sub in kept.readers.items():
            if sub in found:
                found[sub] = max(found[sub], kept.topics[topic])
        return found

    def _source(self, topic: str) -> Source:
        is_internal = topic in self._topology.internal_topics
        known, now = self._newest.topics.get(topic, ""), "" if is_internal else self._log.topic_id(topic)
        before = self._kept.topics.get(topic, 0)
        return Source(topic, before, self._layout.partitions[topic], not is_internal and known != now)

    # --- whether it can be done ------------------------------------------------------------------------------------

    def _check(self) -> None:
        self._check_program()
        self._check_published()
        self._check_waiting()
        if not self._changed:
            self._check_movable(list(self._subs.values()))
            topics = ", ".join(f"{t!r} ({n})" for t, n in sorted(self._kept.topics.items()) if t in self._newest.topics)
            raise self._refused(
                f"no source has another number of partitions than before: {topics}. The state can move. Stop the "
                f"programs that write into them, let the application read everything, and give them {self._count}: "
                f"`penstock topics repartition NAME --partitions {self._count}`, or in Kafka `kafka-topics --alter`"
            )
        for source in self._sources:
            if source.topic not in self._topology.internal_topics and source.now not in (source.before, self._count):
                raise self._refused(f"source topic {source.topic!r} has {source.now} partitions, not {self._count}")
        self._check_movable(self._changed)
        for sub in self._changed:
            self._check_unread(sub)
        self._check_follows(self._manifest(self._tasks({}), start="", at=self._newest.at))

    def _check_movable(self, subs: list[SubTopology]) -> None:
        """Check that the rows of all stores can be moved. Execution does nothing that this does not try first."""
        for sub in subs:
            if has_own_stores(sub, self._topology.facts):
                raise self._refused(
                    f"sub-topology {sub.id} has a store that the program brings, whose rows cannot be moved. Start "
                    "under another application id to process the topics again"
                )
        for sub in subs:
            if _has_stores(sub):
                self._moving(sub).check()

    def _moving(self, sub: SubTopology) -> Moving:
        own = frozenset(_names_of_global_tables(sub, self._topology))
        now = self._layout.tasks[sub.id]
        return Moving(self._storage, self._newest, sub, self._topology, self._before[sub.id], now, own)

    def _check_program(self) -> None:
        now, before = self._description, self._kept
        kept = [{name: one.tasks for name, one in it.stores.items()} for it in (now, before)]
        if now.readers != before.readers or kept[0] != kept[1]:
            raise self._refused(
                "the program is not the one that was last started: it reads other topics, or keeps other stores. Start "
                "it once as it is, and rescale it then"
            )

    def _check_published(self) -> None:
        """Check that the newest commit is in its topics, or can get there, which is the first step of execution."""
        newest = PuttingAside(self._storage, self._log)
        newest.check()
        if newest.is_needed:
            refused = newest.found.refused
            raise self._refused(
                f"topics refuse records of commit {newest.found.sequence:,}, {len(refused)} in all: topic "
                f"{refused[0].topic!r}, partition {refused[0].partition}: {refused[0].why}. `penstock publish "
                f"{self._start.application_id}` turns them into dead letters. Then rescale"
            )

    def _check_waiting(self) -> None:
        waiting = sorted({topic for topics in self._newest.waiting.values() for topic in topics})
        if waiting:
            raise self._refused(
                f"records wait in the repartition topics {', '.join(waiting)}. Start the program with the previous "
                f"partitions until it has processed them, and rescale it then"
            )

    def _check_unread(self, sub: SubTopology) -> None:
        """Check that records to be read later are in the partitions where their keys' state will be."""
        serdes = {topic: part.node for part in sub.parts if part.kind == "source" for topic in part.topics}
        for source in self._sources:
            if source.topic in sub.source_topics and source.topic not in self._topology.internal_topics:
                key = getattr(serdes.get(source.topic), "key", None)
                for partition, at in enumerate(self._offsets(source)):
                    self._check_placed(source, partition, at, key if isinstance(key, Serde) else None)

    def _check_placed(self, source: Source, partition: int, at: int, key: Serde | None) -> None:
        end = self._log.end_offsets(source.topic)[partition]
        for records in self._log.read(source.topic, partition, at, end) if end > at else ():
            keys = records.key if key is None else key.routing(records.key)
            elsewhere = np.flatnonzero(partitions(keys, source.now, partition) != partition)
            if len(elsewhere):
                offset = int(records.offsets[elsewhere[0]])
                raise self._refused(
                    f"topic {source.topic!r}, partition {partition}, offset {offset}: Kafka's partitioner puts this "
                    "record's key into another partition, because the topic has more partitions now. An unread record "
                    "must be in the partition of its key: let the application read everything before its topics get "
                    "more partitions, and write with Kafka's partitioner"
                )

    def _check_follows(self, manifest: Manifest) -> None:
        """Check that the manifest may follow the newest one. Rows make no difference to that."""
        refused = refusal(self._newest, manifest, self._manifests.place(manifest.commit), RESCALE)
        if refused is not None:
            raise refused

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(f"application {self._start.application_id!r} is not rescaled: {why}; nothing was changed")

    def _offsets(self, source: Source) -> list[int]:
        """Return the offsets where each partition is read on."""
        starts = self._log.start_offsets(source.topic)
        if source.is_new:
            return starts
        read = [read_up_to(self._newest, self._kept, source.topic, p) for p in range(min(source.before, source.now))]
        return read + starts[len(read) :]

    def _repeated(self) -> list[str]:
        """Return the steps that send final results and whose tasks have reached different times."""
        times: dict[str, set[int]] = {}
        for task, entry in self._newest.tasks.items():
            if TaskId.parse(task).sub in self._numbers():
                for name, numbers in entry.numbers.items():
                    if name.endswith("-emitted") and numbers.get("stream_time", -1) >= 0:
                        times.setdefault(name.removesuffix("-emitted"), set()).add(numbers["stream_time"])
        return sorted(name for name, found in times.items() if len(found) > 1)

    # --- doing it --------------------------------------------------------------------------------------------------

    def execute(self) -> int:
        """Execute the plan. Return how many rows were written.

        Raises:
            ConfigError: rows are not where Kafka's partitioner puts them; nothing was changed.
            FencedError: the application has made a commit since; nothing was changed.
        """
        publish_newest(self._log, self._storage, self._newest, self.plan.application_id, self._kept)
        moved = {sub.id: self._moving(sub) for sub in self._changed if _has_stores(sub)}
        tasks = self._tasks({sub: moving.bases() for sub, moving in moved.items()})
        crash_point("before-rescale")
        start = self._new_start()
        name = self._starts.write(self.plan.commit, start)
        manifest = self._manifest(tasks, name, start.at)
        try:
            self._check_follows(manifest)
            if not self._manifests.create(manifest):
                raise FencedError(
                    f"application {self.plan.application_id!r} has made commit {self.plan.commit} meanwhile: it runs, "
                    "on another machine perhaps. Stop it, and rescale it then; nothing was changed"
                )
        except PenstockError:
            self._storage.delete(name)
            raise
        return sum(moving.rows for moving in moved.values())

    def _is_changed(self, task: str) -> bool:
        return TaskId.parse(task).sub in self._numbers()

    def _tasks(self, bases: dict[int, dict[int, tuple[TaskBase, Numbers]]]) -> dict[str, TaskEntry]:
        """Return the entries of all tasks, given what those of a sub-topology begin with, by partition."""
        tasks = {task: entry for task, entry in self._newest.tasks.items() if not self._is_changed(task)}
        for sub in self._changed:
            numbers = self._moving(sub).numbers
            for partition, offsets in self._places(sub):
                base, counted = bases.get(sub.id, {}).get(partition, (None, numbers))
                since = -1 if base is None else self.plan.commit
                task = str(TaskId(sub.id, partition))
                tasks[task] = TaskEntry(offsets, counted, changed=self.plan.commit, snapshot=since, base=base)
        return tasks

    def _places(self, sub: SubTopology) -> Iterator[tuple[int, dict[str, int]]]:
        """Yield the offsets where each task reads on."""
        begins = {source.topic: self._offsets(source) for source in self._sources if self._is_read(source, sub)}
        starts = {topic: self._log.start_offsets(topic) for topic in sub.global_topics}
        everywhere = {global_place(topic, p): at for topic, ats in starts.items() for p, at in enumerate(ats)}
        for partition in range(self._layout.tasks[sub.id]):
            own = {topic: ats[partition] for topic, ats in begins.items() if partition < len(ats)}
            yield partition, own | everywhere

    def _is_read(self, source: Source, sub: SubTopology) -> bool:
        return source.topic in sub.source_topics and source.topic not in self._topology.internal_topics

    def _new_start(self) -> Start:
        by = f"penstock rescale, process {os.getpid()} on {socket.gethostname()}"
        letters = self._start.picture.dead_letters if self._start.picture else ()
        picture = picture_of(self._topology, self._layout, masked(self._log.url), letters)
        return msgspec.structs.replace(
            self._start, by=by, at=wall_clock_ms(), topology=self._description, picture=picture
        )

    def _manifest(self, tasks: dict[str, TaskEntry], start: str, at: int) -> Manifest:
        ids = {source.topic: self._log.topic_id(source.topic) for source in self.plan.sources}
        figures = {
            what: {label: figure for label, figure in labelled.items() if not self._is_over(label)}
            for what, labelled in (("metrics", self._newest.metrics), ("observed", self._newest.observed))
        }
        return msgspec.structs.replace(
            self._newest,
            commit=self.plan.commit,
            tasks=dict(sorted(tasks.items())),
            sinks={},
            sinks_of=-1,
            waiting={},
            at=at,
            start=start,
            topics=self._newest.topics | ids,
            outputs=self._newest.outputs_once_published(),
            **figures,
        )

    def _is_over(self, label: str) -> bool:
        """Return whether a metric describes a task's present state, not its past work."""
        task = label.partition("|")[0]
        return bool(task) and label.endswith("-current") and self._is_changed(task)


def _has_stores(sub: SubTopology) -> bool:
    return any(part.stores for part in sub.working_parts)


def _names_of_global_tables(sub: SubTopology, topology: Topology) -> Iterator[str]:
    for part in sub.global_parts:
        yield part.name
        if part.node in topology.facts.stores:
            yield topology.facts.stores[part.node].name

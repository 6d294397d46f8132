"""Checks types and identities of an application's topics, and finds the first offset to read.

A topic has an id, which manifests keep with the offsets. A source that was removed and created again is refused instead
of being read from the middle, because the state has records of the old one. An output that was removed is created again
and continues with new results, because removing results is a deliberate act.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from penstock.engine.shared.layout import Layout
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.engine.shared.work import TaskWork
from penstock.errors import ConfigError, OffsetOutOfRangeError, TopicNotFoundError
from penstock.figures.metrics import REMOVED_UNREAD, SKIPPED, Metric, labelled
from penstock.log.base import Log, TopicInfo
from penstock.log.schema import new_topic, other_kind
from penstock.plan import nodes
from penstock.plan.node import Node
from penstock.plan.serdes import prepare_serdes
from penstock.plan.topology import Topology
from penstock.serdes import Serde, fits, is_known
from penstock.settings import Settings
from penstock.values.offset_reset import AutoOffsetReset
from penstock.values.times import wall_clock_ms

_log = logging.getLogger(__name__)


# --- before the start ------------------------------------------------------------------------------------------------


def create_sink_topics(topology: Topology, log: Log, settings: Settings) -> None:
    """Create the output topics that do not exist yet.

    Raises:
        TopicNotFoundError: a source topic does not exist; nothing was created.
        ConfigError: a topic holds other types than its source reads or its sink writes, or a type cannot be used;
            nothing was created.
        RegistryError: a schema registry that a type needs is out of reach; nothing was created.
    """
    for topic in topology.source_topics:
        if topic not in topology.sink_topics:
            log.topic(topic)
    _check_types(topology, log)
    prepare_serdes(topology)
    for sub in topology.sub_topologies:
        for part in sub.parts:
            node = part.node
            if isinstance(node, nodes.Sink) and node.topic and not log.exists(node.topic):
                count = settings.output_partitions or _widest_source(topology, log)
                log.create_topic(new_topic(node.topic, count, node.key, node.value))
    for topic in settings.dead_letters:
        if not log.exists(topic):
            log.create_topic(TopicInfo(topic, settings.output_partitions or _widest_source(topology, log)))


def _widest_source(topology: Topology, log: Log) -> int:
    counts = [log.topic(topic).partitions for topic in topology.source_topics if log.exists(topic)]
    return max(counts, default=1)


def _check_types(topology: Topology, log: Log) -> None:
    for sub in topology.sub_topologies:
        for part in sub.parts:
            node = part.node
            for topic in part.topics:
                if isinstance(node, nodes.Sink) and log.exists(topic):
                    _check_sink(node, log.topic(topic))
                elif node.is_source and log.exists(topic):
                    _check_source(node, log.topic(topic))


def _check_sink(node: nodes.Sink, info: TopicInfo) -> None:
    for what, held, serde in (("key", info.key, node.key), ("value", info.value, node.value)):
        if not fits(held, serde):
            keep = f" ({what}=Any, with Any of typing, there or where they are made, keeps the JSON)" * (held == "json")
            raise ConfigError(
                f"topic {info.name!r} holds {what}s of type {held}, but to() at {node.where} writes {what}s of type "
                f"{serde.name}{keep}; nothing was started. Convert the {what}s, write into another topic, or remove "
                f"this one if nobody needs it (penstock topics rm {info.name}): it is created again with the right type"
            )
        _check_schema(f"to() at {node.where} writes", what, info, serde)


def _check_source(node: Node, info: TopicInfo) -> None:
    key, value = node.types
    for what, held, serde in (("key", info.key, key), ("value", info.value, value)):
        if is_known(serde) and not fits(held, serde):
            raise ConfigError(
                f"topic {info.name!r} holds {what}s of type {held}, but the source at {node.where} reads {what}s of "
                f"type {serde.name}; nothing was started. Give the source the topic's type, {what}=..., or "
                f"{what}=bytes to read them as they are"
            )
        _check_schema(f"the source at {node.where} reads", what, info, serde)


def _check_schema(does: str, what: str, info: TopicInfo, serde: Serde) -> None:
    if kinds := other_kind(info, what, serde):
        raise ConfigError(
            f"topic {info.name!r} has {what}s of the schema {kinds[0]}, but {does} {what}s of the schema {kinds[1]}; "
            f"nothing was started. Give it the topic's schema, {what}=penstock.schema_of({info.name!r}).{what}, or a "
            "class that has the fields it needs"
        )


def skipped_records(work: TaskWork, before: TaskEntry) -> dict[str, int]:
    """Return how many records a task passed over because retention had removed them, as a manifest's metrics."""
    gone: dict[Metric, int] = {}
    for place in work.ends:
        records = work.entry.offsets.get(place, 0) - before.offsets.get(place, 0)
        if records:
            metric = Metric(SKIPPED, place.partition("/")[0], REMOVED_UNREAD)
            gone[metric] = gone.get(metric, 0) + records
    return labelled(work.task, gone)


# --- the same topics as before ---------------------------------------------------------------------------------------


class Topics:
    """The topics of one application in the log.

    Args:
        outputs: the topics it writes, including those of dead letters.
    """

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        settings: Settings,
        log: Log,
        layout: Layout,
        outputs: list[str],
    ):
        self._topology = topology
        self._application_id = application_id
        self._settings = settings
        self._log = log
        self._layout = layout
        self._sources = topology.source_topics
        self._outputs = [topic for topic in outputs if topic not in self._sources]
        self.adopted: frozenset[str] = frozenset()
        """Topics whose ids no manifest knew before this start, though the application may have used them."""
        self._told: set[tuple[str, int, int]] = set()

    def take_up(self, newest: Manifest) -> Manifest:
        """Return the manifest from which this start continues: with the ids of all topics and the offsets of new ones.

        Output for topics that were removed since is left out.

        Raises:
            OffsetOutOfRangeError: a source was removed and created again.
            ConfigError: a source is new, and ``auto_offset_reset`` is 'none'.
        """
        ids = self._ids()
        removed = self._made_anew(newest, ids)
        for topic in removed & {*self._sources}:
            self._refuse_unless_unread(newest, topic)
        self.adopted = frozenset(ids) - frozenset(newest.topics)
        return msgspec.structs.replace(
            newest,
            topics=newest.topics | ids,
            tasks=self._begun(newest, removed | self.adopted),
            sinks={topic: segments for topic, segments in newest.sinks.items() if topic not in removed},
            outputs={topic: commit for topic, commit in newest.outputs.items() if topic not in removed},
        )

    def _ids(self) -> dict[str, str]:
        return {topic: self._log.topic_id(topic) for topic in (*self._sources, *self._outputs)}

    def _made_anew(self, newest: Manifest, ids: dict[str, str]) -> set[str]:
        return {topic for topic in ids if newest.topics.get(topic, ids[topic]) != ids[topic]}

    def tell_of_removed_outputs(self, newest: Manifest) -> None:
        """Warn of outputs that were removed since the newest manifest and are created again."""
        for topic in sorted(self._made_anew(newest, self._ids()) & {*self._outputs}):
            _log.warning(
                "output topic %r was removed and created again: the results of application %r up to commit %d are not "
                "in it, those that come now go into it",
                *(topic, self._application_id, newest.commit),
            )

    def check(self, manifest: Manifest) -> None:
        """Raise an error when a topic is no longer the one that it was at the start."""
        for topic, id_ in self._log.topic_ids((*self._sources, *self._outputs)).items():
            if id_ == manifest.topics[topic]:
                continue
            if topic in self._outputs:
                raise self.output_is_gone(topic, manifest.commit)
            raise self._source_is_another(manifest, topic)

    def end_offsets(self, topic: str) -> list[int]:
        """Return the current ends of a source's partitions.

        Raises:
            ConfigError: it has got more partitions.
        """
        ends = self._log.end_offsets(topic)
        if len(ends) != (known := self._layout.partitions[topic]):
            raise ConfigError(
                f"source topic {topic!r} has {len(ends)} partitions, and had {known} when application "
                f"{self._application_id!r} was started: keys go to other partitions now than those where their state "
                f"is. Everything committed is safe. `penstock rescale {self._application_id} --partitions {len(ends)}` "
                "moves the state"
            )
        return ends

    def output_is_gone(self, topic: str, commit: int) -> TopicNotFoundError:
        """Return the error for an output that was removed while the application ran."""
        return TopicNotFoundError(
            f"output topic {topic!r} was removed while application {self._application_id!r} ran; everything up to "
            f"commit {commit} is safe in its other topics and its state. Start again: the topic is created again if it "
            f"does not exist, and gets the results from then on"
        )

    def _source_is_another(self, manifest: Manifest, topic: str) -> OffsetOutOfRangeError | TopicNotFoundError:
        read = [f"before offset {offset} of partition {p}" for p, offset in self._read(manifest, topic) if offset]
        several = ", ".join(read[:4]) + (f" and of {len(read) - 4} more partitions" if len(read) > 4 else "")
        safe = f"everything up to commit {max(manifest.commit, 0)} is safe"
        if not self._log.exists(topic):
            return TopicNotFoundError(
                f"source topic {topic!r} was removed while application {self._application_id!r} ran; {safe}. Bring it "
                "back from a backup to go on"
            )
        return OffsetOutOfRangeError(
            f"source topic {topic!r} in {self._log.url} is not the one that application {self._application_id!r} has "
            "read: it was removed and created again, or this is another log. Of the old one the records "
            f"{several or 'it had'} are processed; the new one is not read from the middle, and {safe}. Start under "
            "another application id to process the new topic from its beginning, or bring the old one back from a "
            "backup"
        )

    def _refuse_unless_unread(self, newest: Manifest, topic: str) -> None:
        if any(offset for _, offset in self._read(newest, topic)):
            raise self._source_is_another(newest, topic)

    def _read(self, manifest: Manifest, topic: str) -> Iterator[tuple[int, int]]:
        """Yield the offset up to which each partition of a source was read."""
        for task, place, of, partition in self._places():
            if of == topic:
                yield partition, manifest.tasks.get(task, TaskEntry()).offsets.get(place, 0)

    def _places(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield what each task reads: the task, the place that names its offset, the topic and the partition."""
        for sub in self._topology.sub_topologies:
            for task in self._layout.tasks_of(sub) if not sub.is_global else ():
                for place, topic, partition in task.places:
                    if topic in self._sources:
                        yield task.name, place, topic, partition

    # --- where reading begins ----------------------------------------------------------------------------------------

    def _begun(self, newest: Manifest, new: set[str] | frozenset[str]) -> dict[str, TaskEntry]:
        """Return the tasks' entries, with first offsets for topics that they have not read."""
        is_old = newest.commit >= 0 and not newest.topics  # made when manifests had no ids, and reading began at 0
        begins = {topic: self._beginning(topic, "earliest" if is_old else None) for topic in new & {*self._sources}}
        tasks = dict(newest.tasks)
        for task, place, topic, partition in self._places():
            entry = tasks.get(task, TaskEntry())
            if topic in begins and begins[topic][partition] and not entry.offsets.get(place):
                offsets = {**entry.offsets, place: begins[topic][partition]}
                tasks[task] = msgspec.structs.replace(entry, offsets=offsets)
        return tasks

    def _beginning(self, topic: str, policy: str | None) -> list[int]:
        """Return the first offset of each partition of a topic that the application has not read."""
        reset = AutoOffsetReset(policy) if policy else self._policy(topic)
        if reset.policy == "none":
            raise ConfigError(
                f"application {self._application_id!r} has no offsets of source topic {topic!r}, and is not to choose "
                "where to begin (auto_offset_reset is 'none'): it has not read the topic yet, or its checkpoint is "
                "lost. Restore the checkpoint, or start once with auto_offset_reset 'earliest' or 'latest'"
            )
        return positions(self._log, topic, reset)

    def _policy(self, topic: str) -> AutoOffsetReset:
        """Return a source's reset policy, or else the setting. Global tables always read from the beginning."""
        usual = AutoOffsetReset.of(self._settings.auto_offset_reset)
        for node in self._topology.nodes:
            if topic in node.topics:
                return AutoOffsetReset.earliest() if node.is_global else node.offset_reset or usual
        return usual

    def next_offset(self, at: int, topic: str, partition: int, start: int, end: int) -> int:
        """Return the offset at which a task continues in a partition with these ends, after reading up to `at`.

        Raises:
            OffsetOutOfRangeError: unread records are gone, or the newest records it has read are.
        """
        where = f"topic {topic!r}, partition {partition}"
        if end < at:
            raise OffsetOutOfRangeError(
                f"{where}: application {self._application_id!r} has processed the records before offset {at}, but the "
                f"topic ends at offset {end}: its newest records are lost, or it was brought back from a backup that "
                "lacks them. Everything committed is safe. Restore the topic from a complete backup, or start under "
                "another "
                "application id to process it from its beginning"
            )
        if at >= start:
            return at
        if self._settings.on_lost_records == "skip":
            if (topic, partition, start) not in self._told:
                self._told.add((topic, partition, start))
                _log.warning(
                    "%s: the records at the offsets %d to %d were removed by retention before application %r read "
                    "them; they are skipped",
                    *(where, at, start - 1, self._application_id),
                )
            return start
        raise OffsetOutOfRangeError(
            f"{where}: application {self._application_id!r} goes on at offset {at}, but the records before offset "
            f"{start} were removed by retention: {start - at} of them were never read. Everything committed is safe. "
            "To continue without them, start with on_lost_records 'skip'; to process the topic again, start under "
            "another application id. A longer retention keeps records until they are read"
        )


def positions(log: Log, topic: str, reset: AutoOffsetReset) -> list[int]:
    """Return the offset that a reset policy means now, for each partition of a topic."""
    if reset.policy == "earliest":
        return log.start_offsets(topic)
    ends = log.end_offsets(topic)
    if reset.policy == "latest":
        return ends
    time = reset.begins_at(wall_clock_ms())
    found = (log.offset_at(topic, partition, time) for partition in range(len(ends)))
    return [end if at is None else at for at, end in zip(found, ends, strict=True)]

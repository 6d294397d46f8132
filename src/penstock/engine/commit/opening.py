"""An application is opened before it runs: who it is, what its topology means in this log, where it goes on.

All that a start may refuse without having stopped anybody is asked here. Nobody is fenced off yet: that is the
take-over of the ``Coordinator``, which comes when there is somebody to run tasks.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from pathlib import Path

from penstock.engine.commit import older_log
from penstock.engine.commit.claim import Claims, producer_of
from penstock.engine.commit.identity import (
    Identity,
    application_of,
    check_owner,
    check_shape,
    check_sources,
    keep_identity,
    new_identity,
    read_identity,
)
from penstock.engine.commit.topics import Topics, create_sink_topics
from penstock.engine.evolution.evolution import Evolution
from penstock.engine.evolution.matching import NO_WISHES, Wishes
from penstock.engine.shared.description import Description, description_of
from penstock.engine.shared.layout import Layout, global_place, layout_of
from penstock.engine.shared.manifest import Manifest, Manifests, TaskEntry
from penstock.engine.shared.moved import Moved
from penstock.engine.shared.program import ProgramFile
from penstock.engine.shared.starts import Starts
from penstock.errors import CorruptDataError
from penstock.log.base import Log
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.storage import Storage

_log = logging.getLogger(__name__)

Ends = dict[str, list[int]]
"""For each topic the offsets, by partition, up to which to read."""

NOTHING = Manifest(-1, {})
"""What is true before the first commit."""


@dataclass(frozen=True)
class Surroundings:
    """An application, whichever topology it runs: its records, its commits, its notes.

    Attributes:
        log: with the application's outbox.
        plain_log: the same, as any program has it.
        program: which program it is; empty where nobody knows.
    """

    application_id: str
    settings: Settings
    log: Log
    plain_log: Log
    storage: Storage
    manifests: Manifests
    starts: Starts
    moved: Moved
    program: str


@dataclass(frozen=True)
class Opened(Surroundings):
    """An application that fits its topology, its log and its checkpoint.

    Attributes:
        outputs: the topics it writes, those of dead letters too.
        application: the identity of the checkpoint.
        manifest: the newest commit, as this topology goes on from it.
    """

    topology: Topology
    layout: Layout
    description: Description
    topics: Topics
    evolution: Evolution
    outputs: list[str]
    application: str
    manifest: Manifest

    @property
    def producer(self) -> str:
        """Under which name the application appends to topics."""
        return producer_of(self.application)

    def newest(self) -> Manifest:
        """The newest commit as it is in the checkpoint now, whoever made it."""
        return self.manifests.newest() or NOTHING

    def check_outputs(self, newest: Manifest) -> None:
        """Raise ``CorruptDataError`` when topics have the output of a later commit than the newest, or lack some."""
        for topic in self.outputs:
            published = self.log.last_sequence(topic, self.producer)
            if published > newest.commit and published > max(self.manifests.numbers(), default=-1):
                raise CorruptDataError(
                    f"{self.manifests.place(published)} is missing: topic {topic!r} has the output of commit "
                    f"{published} of application {self.application_id!r}, but the newest manifest is of commit "
                    f"{newest.commit}; manifests are missing. Restore the checkpoint from a backup"
                )
        older_log.check_outputs(self.log, newest, self.outputs, self.producer, self.application_id)

    def offsets(self, manifest: Manifest) -> Ends:
        """Up to where all source topics are processed and committed in a manifest."""
        found: Ends = {topic: [0] * self.layout.partitions[topic] for topic in self.topology.source_topics}
        for name, entry in manifest.tasks.items():
            partition = int(name.partition("_")[2])
            for topic, offset in entry.offsets.items():
                if topic in found:
                    found[topic][partition] = offset
        for sub in self.topology.sub_topologies:
            for topic in sub.global_topics:
                found[topic] = [self._offset_everywhere(manifest, sub, topic, p) for p in self.layout.all_of(topic)]
        return found

    def _offset_everywhere(self, manifest: Manifest, sub: SubTopology, topic: str, partition: int) -> int:
        """Up to where all tasks have read a partition of a global table's topic."""
        entries = [manifest.tasks.get(str(task), TaskEntry()) for task in self.layout.task_ids(sub)]
        return min(entry.offsets.get(global_place(topic, partition), 0) for entry in entries)

    def with_new_topics(self) -> Topology | None:
        """The topology with topics that match its patterns and were not there when it began; None if there are none.

        Raises:
            TopologyError: a topic matches more than one pattern.
        """
        if not self.topology.has_patterns:
            return None
        known = set(self.topology.source_topics)
        found = self.topology.expanded([*known, *self.log.topics()])
        return found if set(found.source_topics) > known else None


def open_application(
    topology: Topology,
    application_id: str,
    settings: Settings,
    log: Log,
    storage: Storage,
    program: ProgramFile | None = None,
    wishes: Wishes = NO_WISHES,
) -> Opened:
    """Open an application: make its topics and, at its first start, its identity.

    Args:
        program: which program it is, where that is known.
        wishes: what is to become of state when the topology has changed.

    Raises:
        ConfigError: it is another application, or another program, or it would mix or lose what is kept.
        CorruptDataError: manifests are missing, or the log is older than the checkpoint.
        OffsetOutOfRangeError: a source topic was removed and made anew.
        TopicNotFoundError: a source topic does not exist.
    """
    outbox = log.with_outbox(storage, application_id, settings.at_least_once)
    manifests, starts = Manifests(storage), Starts(storage)
    newest = manifests.newest() or NOTHING
    known = read_identity(storage, newest)
    if known is not None:
        check_owner(known, application_id, storage.shown)
    name = _checked(program, starts, newest, settings, application_id)
    around = Surroundings(application_id, settings, outbox, log, storage, manifests, starts, Moved(storage), name)
    return _with_topology(around, topology, wishes, newest, known)


def reopened(opened: Opened, topology: Topology) -> Opened:
    """Open an application once more, to go on behind its newest commit with topics that have appeared.

    Raises:
        ConfigError: the topology would mix or lose what is kept.
    """
    newest = opened.newest()
    found = _with_topology(opened, topology, NO_WISHES, newest, read_identity(opened.storage, newest))
    topics = ", ".join(topology.source_topics)
    _log.info("application %r takes up topics: it reads %s", opened.application_id, topics)
    return found


def _checked(
    program: ProgramFile | None, starts: Starts, newest: Manifest, settings: Settings, application_id: str
) -> str:
    """Which program the application is from now on; raises ``ConfigError`` when it is another one."""
    start = starts.of(newest)
    before = "" if start is None else start.program
    if program is None:
        return before
    folder = settings.state_dir or Path.cwd()
    program.check(before, folder, application_id)
    return program.seen_from(folder)


def _with_topology(
    around: Surroundings, topology: Topology, wishes: Wishes, newest: Manifest, known: Identity | None
) -> Opened:
    """The application with a topology to run behind the newest commit."""
    application_id, log, storage, settings = around.application_id, around.plain_log, around.storage, around.settings
    outputs = [*topology.sink_topics, *settings.dead_letters]
    create_sink_topics(topology, log, settings)
    layout = layout_of(topology, log, application_id)
    for topic in outputs:
        layout.partitions.setdefault(topic, log.topic(topic).partitions)
    description = description_of(topology, layout)
    topics = Topics(topology, application_id, settings, log, layout, outputs)
    evolution = Evolution(topology, application_id, layout, description, storage, wishes)
    check_sources(newest, topology, application_id, wishes.drop)
    begun = topics.take_up(evolution.fitted(newest))
    application = _identified(around, topology, layout, newest, known)
    same = {field.name: getattr(around, field.name) for field in fields(Surroundings)}
    opened = Opened(
        **same,
        topology=topology,
        layout=layout,
        description=description,
        topics=topics,
        evolution=evolution,
        outputs=outputs,
        application=application,
        manifest=begun,
    )
    opened.check_outputs(newest)
    return opened


def _identified(
    around: Surroundings, topology: Topology, layout: Layout, newest: Manifest, old: Identity | None
) -> str:
    """The identity of the checkpoint, which fits this application; made for a new one."""
    storage = around.storage
    new = new_identity(around.application_id, topology, layout)
    claims = Claims(around.plain_log, around.application_id)
    claim = claims.read()
    old = old or read_identity(storage, newest)
    if old is not None and not newest.start:
        check_shape(old, new, storage.shown)
    claims.check(claim, None if old is None else old.id, storage, topology)
    keep_identity(storage, old or new)
    kept = application_of(storage, newest)  # two first starts may have met here
    claims.make(kept, storage)
    return kept

"""Opens an application before it runs: its identity, its topology's meaning in this log, and where it continues.

Every check that can refuse a start without stopping the running program is made here. Opening fences no other program;
the ``Coordinator`` does that in its take-over, once slots are ready to run tasks.
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
from penstock.storage.base import Storage

_log = logging.getLogger(__name__)

Ends = dict[str, list[int]]
"""The offsets up to which to read, by topic and partition."""

NOTHING = Manifest(-1, {})
"""The manifest before the first commit."""


@dataclass(frozen=True)
class Surroundings:
    """An application without its topology: its log, its checkpoint, its settings.

    Attributes:
        log: the log with the application's outbox.
        plain_log: the same log without the outbox, as any program sees it.
        program: the program's name; empty if unknown.
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
        outputs: the topics it writes, including those of dead letters.
        application: the identity of the checkpoint.
        manifest: the newest commit, as this topology continues from it.
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
        """The producer name under which the application appends to topics."""
        return producer_of(self.application)

    def newest(self) -> Manifest:
        """Return the newest manifest that is in the checkpoint now, whichever program made it."""
        return self.manifests.newest() or NOTHING

    def check_outputs(self, newest: Manifest) -> None:
        """Raise ``CorruptDataError`` when topics have the output of a later commit than the newest, or lack some
        output.
        """
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
        """Return the offsets up to which a manifest has processed and committed all source topics."""
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
        """Return the offset up to which all tasks have read a partition of a global table's topic."""
        entries = [manifest.tasks.get(str(task), TaskEntry()) for task in self.layout.task_ids(sub)]
        return min(entry.offsets.get(global_place(topic, partition), 0) for entry in entries)

    def with_new_topics(self) -> Topology | None:
        """Return the topology with new topics that match its patterns; None if there are none.

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
    """Open an application: create its topics and, at its first start, its identity.

    Args:
        program: the program's file, if known.
        wishes: how state follows a changed topology.

    Raises:
        ConfigError: it is another application or another program, or it would mix or lose stored data.
        CorruptDataError: manifests are missing, or the log is older than the checkpoint.
        OffsetOutOfRangeError: a source topic was removed and created again.
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
    """Open an application again, to continue after its newest commit with topics that have appeared.

    Raises:
        ConfigError: the topology would mix or lose stored data.
    """
    newest = opened.newest()
    found = _with_topology(opened, topology, NO_WISHES, newest, read_identity(opened.storage, newest))
    topics = ", ".join(topology.source_topics)
    _log.info("application %r takes up topics: it reads %s", opened.application_id, topics)
    return found


def _checked(
    program: ProgramFile | None, starts: Starts, newest: Manifest, settings: Settings, application_id: str
) -> str:
    """Return the program's name from this start on. Raise ``ConfigError`` when it is another program."""
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
    """Return the application with a topology to run after the newest commit."""
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
    """Return the identity of the checkpoint, checked against this application; created for a new one."""
    storage = around.storage
    new = new_identity(around.application_id, topology, layout)
    claims = Claims(around.plain_log, around.application_id)
    claim = claims.read()
    old = old or read_identity(storage, newest)
    if old is not None and not newest.start:
        check_shape(old, new, storage.shown)
    claims.check(claim, None if old is None else old.id, storage, topology)
    keep_identity(storage, old or new)
    kept = application_of(storage, newest)  # two first starts may have raced here
    claims.make(kept, storage)
    return kept

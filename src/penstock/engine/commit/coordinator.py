"""The commit protocol: what is read, by whom, and the moment from which it counts.

    1. The tasks of each stage run and write files: output segments, repartition files, one delta file each.
    2. The manifest is created, at most once. This is the commit of outputs, state and offsets together.
    3. The output segments are appended to their topics; a repeated append does nothing. The next commit's tasks may run
       meanwhile (publishing.py); its manifest waits.
    4. Each task commits its own state when it next hears of the new manifest, or reads it from the delta file.

A crash before 2 leaves files that nobody refers to. A crash after 2 is made good by repeating 3 at the next start.

A start repeats 3 for the newest manifest, then makes an empty commit: whoever worked on the application until then
finds the next number taken and stops. Only then are files removed that no manifest names.

At least once, the manifest of 2 has outputs and state without offsets, and a second one after 3 records the offsets.
After a crash in between, the state is ahead of the offsets, and what was read is read and put out again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from penstock.engine.commit import older_log
from penstock.engine.commit.attempt import Attempt, Ends, is_left_by
from penstock.engine.commit.claim import Claims, producer_of
from penstock.engine.commit.forgetting import Forgetting, waiting_files
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
from penstock.engine.commit.publishing import Publishing
from penstock.engine.commit.settling import Settling
from penstock.engine.commit.topics import Topics, create_sink_topics
from penstock.engine.evolution import carrying
from penstock.engine.evolution.evolution import Evolution
from penstock.engine.evolution.matching import NO_WISHES, Wishes
from penstock.engine.shared.description import description_of
from penstock.engine.shared.formats import formats_of
from penstock.engine.shared.layout import TaskPlaces, global_place, layout_of
from penstock.engine.shared.manifest import Manifest, Manifests, TaskEntry
from penstock.engine.shared.moved import Moved
from penstock.engine.shared.picture import picture_of
from penstock.engine.shared.program import ProgramFile
from penstock.engine.shared.runner import LostWorkError, StageRunner
from penstock.engine.shared.starts import Start, Starts, start_of
from penstock.engine.timing.idle import Advances, IdleTasks
from penstock.engine.timing.idling import TaskIdling
from penstock.errors import (
    CommitError,
    CorruptDataError,
    FencedError,
    PenstockError,
)
from penstock.faults import crash_point
from penstock.log.base import Log
from penstock.masking import masked
from penstock.metrics import latencies_of
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.state.task_state import Numbers
from penstock.storage import Storage, number_in

_log = logging.getLogger(__name__)

_PAUSES = (0.0, 0.5, 2.0, 5.0)
"""How long to wait before an attempt is repeated, in seconds: a process that died may take a while to be replaced."""


@dataclass(frozen=True)
class CommitDone:
    """One finished commit."""

    commit: int
    records: int
    """Records read from topics of the log."""
    seconds: float


class Coordinator:
    """Drives one application from commit to commit. There is one for each application at a time."""

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        settings: Settings,
        log: Log,
        storage: Storage,
        runner: StageRunner | None = None,
        program: ProgramFile | None = None,
        wishes: Wishes = NO_WISHES,
    ):
        self.application_id = application_id
        self.settings = settings
        self.log = log.with_outbox(storage, application_id, settings.at_least_once)
        self._plain_log = log
        self.storage = storage
        self.manifests = Manifests(storage)
        self.runner = runner
        self.starts = Starts(storage)
        newest = self.manifests.newest() or Manifest(-1, {})
        known = read_identity(storage, newest)
        if known is not None:
            check_owner(known, application_id, storage.shown)
        self._program = self._checked(program, newest)
        self._plan(topology, wishes, newest, known)
        self.publishing = Publishing(self)
        self._settling = Settling(self)
        self._forgetting = Forgetting(self)
        self.moved = Moved(storage)
        self.idling = TaskIdling(settings.max_task_idle / 1000)
        self.idle = IdleTasks(topology)
        """Which tasks wait for time to go on."""
        self.of_last_commit: dict[str, int] = {}
        """Figures of the newest commit that only the next can tell."""
        self.is_given_up = False
        """Whether an attempt that is lost is not made again: the program is to end, and the next start does it."""

    def _plan(self, topology: Topology, wishes: Wishes, newest: Manifest, known: Identity | None) -> None:
        """Take a topology as the one to run, behind the newest commit.

        Raises:
            ConfigError: it would mix or lose what is kept.
        """
        log, outputs = self._plain_log, [*topology.sink_topics, *self.settings.dead_letters]
        create_sink_topics(topology, log, self.settings)
        layout = layout_of(topology, log, self.application_id)
        for topic in outputs:
            layout.partitions.setdefault(topic, log.topic(topic).partitions)
        description = description_of(topology, layout)
        topics = Topics(topology, self.application_id, self.settings, log, layout, outputs)
        evolution = Evolution(topology, self.application_id, layout, description, self.storage, wishes)
        check_sources(newest, topology, self.application_id, wishes.drop)
        begun = topics.take_up(evolution.fitted(newest))
        self.topology, self.layout, self.description = topology, layout, description
        self.topics, self._evolution, self.output_topics = topics, evolution, outputs
        self.application = self._identified(newest, known)
        self._check_outputs(newest)
        self.manifest = begun

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

    def replan(self, topology: Topology) -> None:
        """Go on with another topology, whose tasks are to be opened anew; ``take_over`` comes next.

        Raises:
            ConfigError: the topology would mix or lose what is kept.
        """
        newest = self.manifests.newest() or Manifest(-1, {})
        self._plan(topology, NO_WISHES, newest, read_identity(self.storage, newest))
        self._settling.replan()
        self.idle.watch(topology)
        _log.info("application %r takes up topics: it reads %s", self.application_id, ", ".join(topology.source_topics))

    # --- starting ------------------------------------------------------------------------------------------------

    def _identified(self, newest: Manifest, old: Identity | None) -> str:
        """The identity of the checkpoint, which fits this application; made for a new one."""
        new = new_identity(self.application_id, self.topology, self.layout)
        claims = Claims(self._plain_log, self.application_id)
        claim = claims.read()
        old = old or read_identity(self.storage, newest)
        if old is not None and not newest.start:
            check_shape(old, new, self.storage.shown)
        claims.check(claim, None if old is None else old.id, self.storage, self.topology)
        keep_identity(self.storage, old or new)
        kept = application_of(self.storage, newest)  # two first starts may have met here
        claims.make(kept, self.storage)
        return kept

    def _checked(self, program: ProgramFile | None, newest: Manifest) -> str:
        """Which program the application is from now on; raises ``ConfigError`` when it is another one."""
        start = self.starts.of(newest)
        before = "" if start is None else start.program
        if program is None:
            return before
        folder = self.settings.state_dir or Path.cwd()
        program.check(before, folder, self.application_id)
        return program.seen_from(folder)

    def take_over(self) -> None:
        """Go on from the newest commit, as the only one: whoever was there cannot make another.

        Raises:
            CorruptDataError: manifests are missing.
            OffsetOutOfRangeError: a source topic was removed and made anew.
            ConfigError: the checkpoint's storage cannot create a file at most once.
        """
        self.storage.check()
        stores = formats_of(self.topology)
        picture = picture_of(self.topology, self.layout, masked(self.log.url))
        shown = stores, picture, self.settings.metrics_recording_level
        start = start_of(self.application, self.application_id, self._program, self.description, *shown)
        while not self._take_over_from(self.manifests.newest() or Manifest(-1, {}), start):
            pass  # whoever was there made another commit meanwhile
        crash_point("after-take-over")
        self._sweep()
        crash_point("after-sweep")

    def _take_over_from(self, newest: Manifest, start: Start) -> bool:
        """Finish what a commit may have left undone, and make an empty one behind it; whether that was the next."""
        self._check_outputs(newest)
        self.topics.tell_of_removed_outputs(newest)
        fitted = self.topics.take_up(self._evolution.fitted(newest))
        begun = self._carried(newest, fitted)
        if begun is None:
            return False
        self.publishing.publish(begun, repeated=True)
        crash_point("before-take-over")
        number = newest.commit + 1
        name = self.starts.write(number, start)
        own = {"commit": number, "sinks": {}, "at": start.at, "application": self.application, "start": name}
        outputs = begun.outputs_once_published(self.publishing.left_out)
        own |= {"places": None, "published": self.publishing.last, "outputs": outputs, "sinks_of": -1}
        taken = msgspec.structs.replace(begun, **own)
        if not self.manifests.create(taken):
            self.storage.delete(name)
            return False
        self.manifest = taken
        self._evolution.tell(newest)
        return True

    def _carried(self, newest: Manifest, fitted: Manifest) -> Manifest | None:
        """A manifest with the rows that tasks of a changed topology begin with; None when there is a newer one."""
        try:
            return self._evolution.carried(newest, fitted, self.application)
        except CorruptDataError:
            if max(self.manifests.numbers(), default=-1) > newest.commit:  # whose files went as that was made
                return None
            raise

    def _check_outputs(self, newest: Manifest) -> None:
        """Raise ``CorruptDataError`` when topics have the output of a later commit than the newest, or lack some."""
        for topic in self.output_topics:
            published = self.log.last_sequence(topic, self._producer)
            if published > newest.commit and published > max(self.manifests.numbers(), default=-1):
                raise CorruptDataError(
                    f"{self.manifests.place(published)} is missing: topic {topic!r} has the output of commit "
                    f"{published} of application {self.application_id!r}, but the newest manifest is of commit "
                    f"{newest.commit}; manifests are missing. Restore the checkpoint from a backup"
                )
        older_log.check_outputs(self.log, newest, self.output_topics, self._producer, self.application_id)

    def _sweep(self) -> None:
        """Remove files of attempts that were never committed and, since this start, never will be."""
        own = self.manifest.commit

        def is_left(file: str) -> bool:
            return is_left_by(file.rpartition("/")[2], self.application, own)

        deltas = {name for name in self.storage.list("deltas") if number_in(name) == own}
        exchange = {name for name in self.storage.list("exchange") if is_left(name)}
        for name in (deltas | exchange) - waiting_files(self.manifest):
            self.storage.delete(name)
        carrying.sweep(self.storage, self.manifest)
        self.storage.sweep()
        sweep = getattr(self.log, "sweep", None)
        if sweep is not None:
            for topic in self.log.topics() if self.topology.dynamic_sinks else self.output_topics:
                sweep(topic, is_left)

    def fenced(self) -> FencedError | None:
        """The error of a program that another one has taken the application over from; None if that is not so."""
        numbers = self.manifests.numbers()
        if not numbers or numbers[-1] <= self.manifest.commit:
            return None
        newest = self.manifests.read(numbers[-1])
        start = self.starts.of(newest)
        by = "" if start is None else f" by {start}"
        return FencedError(
            f"application {self.application_id!r} was taken over{by}, and is at commit {newest.commit}; this program "
            f"stops. Its results up to commit {self.manifest.commit} are safe, and the other one goes on from there"
        )

    @property
    def _producer(self) -> str:
        """Under which name the application appends to topics."""
        return producer_of(self.application)

    # --- what there is to do -------------------------------------------------------------------------------------

    def end_offsets(self) -> Ends:
        """The ends of all source topics as they are now."""
        return {topic: self.topics.end_offsets(topic) for topic in self.topology.source_topics}

    def offsets(self, manifest: Manifest | None = None) -> Ends:
        """Up to where all source topics are processed and committed, now or in a manifest."""
        manifest = manifest or self.manifest
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

    def waits(self, ends: Ends) -> float | None:
        """How many seconds until a task goes on that waits for records of a topic that has none; None if none does."""
        found = []
        for sub in (sub for stage in self.layout.stages for sub in stage if self.idling.seconds > 0):
            for task in self.layout.tasks_of(sub):
                offsets, p = self.manifest.tasks.get(task.name, TaskEntry()).offsets, task.id.partition
                topics = [topic for topic in task.inputs if topic in ends]
                found.append((task.id, {t: max(ends[t][p] - offsets.get(t, 0), 0) for t in topics}))
        return self.idling.waits(found)

    def lag(self, ends: Ends) -> int:
        """How many records are to be read up to these ends."""
        offsets = self.offsets()
        return sum(max(end - at, 0) for topic in ends for end, at in zip(ends[topic], offsets[topic], strict=True))

    # --- one commit ----------------------------------------------------------------------------------------------

    def step(self, ends: Ends, advances: Advances | None = None) -> CommitDone | None:
        """Make the next commit, reading at most up to these ends; None when there is nothing to do.

        Args:
            advances: what goes on without records.
        """
        try:
            return self._step(ends, advances or {})
        except FencedError:
            raise
        except Exception as error:  # it may be that of a program whose files a rival removed
            fenced = self.fenced()
            if fenced is not None:
                raise fenced from error
            raise

    def _step(self, ends: Ends, advances: Advances) -> CommitDone | None:
        began = time.monotonic()
        self.topics.check(self.manifest)
        try:
            attempt = self._attempt(ends, advances)
        except PenstockError:
            self.topics.check(self.manifest)  # then this is what is to be told
            raise
        if attempt is None:
            self.publishing.finish()
            self._settling.settle()
            return None
        self.topics.check(self.manifest)  # what was read and written belongs to the topics that the manifest names
        before, ran = self.manifest, time.monotonic()
        manifest = attempt.manifest()
        if self.settings.at_least_once:
            self._create(attempt.without_offsets(manifest))
            crash_point("before-offsets")
            manifest = msgspec.structs.replace(manifest, commit=manifest.commit + 1, sinks={})
        self._create(manifest)
        self._forgetting.after(before, self.manifest, attempt.exchange_files)
        self.idle.had_records(attempt.busy_tasks)
        crash_point("after-forget")
        follow = getattr(self.runner, "follow", None)
        if follow is not None and self.settings.standby_replicas:
            follow(self.application, self.manifest, attempt.tasks)
        self.of_last_commit = latencies_of(time.monotonic() - ran)
        return CommitDone(manifest.commit, attempt.records, time.monotonic() - began)

    def give_up(self) -> None:
        """Give up the commit under way, if work for it is lost or can be; from any thread."""
        self.is_given_up = True
        give_up = getattr(self.runner, "give_up", None)
        if give_up is not None:
            give_up()

    def advance_time(self) -> CommitDone | None:
        """Let time go on for tasks that have had nothing to read for long enough; None when there are none."""
        if not self.idle:
            return None
        advances = self.idle.due(self._at_end())
        return self.step({}, advances) if advances else None

    def _at_end(self) -> dict[str, Numbers]:
        """The numbers of the tasks that have read all there is, and to whom nothing is on its way."""
        if self.manifest.waiting:
            return {}
        ends = self.end_offsets()
        found: dict[str, Numbers] = {}
        behind: set[str] = set()
        for stage in self.layout.stages:
            at_end = [(sub, task) for sub in stage for task in self.layout.tasks_of(sub) if self._has_read(task, ends)]
            for sub in stage:  # those of a circle send to each other
                if sum(one is sub for one, _ in at_end) < self.layout.tasks[sub.id]:
                    behind.update(sub.sink_topics)
            for sub, task in at_end:
                if not behind.intersection(sub.source_topics):
                    found[task.name] = self.manifest.tasks.get(task.name, TaskEntry()).numbers
        return found

    def _has_read(self, task: TaskPlaces, ends: Ends) -> bool:
        """Whether a task has read its topics of the log up to these ends."""
        offsets, inputs = self.manifest.tasks.get(task.name, TaskEntry()).offsets, task.inputs
        return not any(ends[topic][task.id.partition] > offsets.get(topic, 0) for topic in inputs if topic in ends)

    def _create(self, manifest: Manifest) -> None:
        """Make a manifest the newest, and its records visible."""
        self.publishing.finish()
        outputs = self.manifest.outputs_once_published()
        manifest = msgspec.structs.replace(manifest, published=self.publishing.last, outputs=outputs)
        crash_point("before-manifest")
        if not self.manifests.create(manifest):
            raise self.fenced() or FencedError(f"commit {manifest.commit} was made by another program")
        crash_point("after-manifest")
        self.manifest = manifest
        self.moved.committed()
        self.publishing.begin(manifest)

    def _attempt(self, ends: Ends, advances: Advances) -> Attempt | None:
        """An attempt at the next commit that succeeded; None when there is nothing to do."""
        for pause in _PAUSES:
            attempt = Attempt(self, ends, advances)
            try:
                return attempt if attempt.run() else None
            except LostWorkError as error:
                if self.is_given_up:
                    return None
                _log.warning("commit %d is repeated: %s", self.manifest.commit + 1, error)
            time.sleep(pause)
        attempt = Attempt(self, ends, advances)
        try:
            return attempt if attempt.run() else None
        except LostWorkError as error:
            raise CommitError(
                f"commit {self.manifest.commit + 1} of application {self.application_id!r} failed "
                f"{len(_PAUSES) + 1} times, the last time because {error}; everything up to commit "
                f"{self.manifest.commit} is safe. Look for the cause in the logs of Spark's executors and start again"
            ) from error

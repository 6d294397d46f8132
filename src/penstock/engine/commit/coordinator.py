"""The commit protocol: one coordinator drives an application from commit to commit.

  1. The tasks of each stage run and write files: output segments, repartition files, one delta file each.
  2. The manifest is created, at most once. This commits outputs, state and offsets together.
  3. The output segments are appended to their topics. Repeating an append has no effect. The next commit's tasks may
     already run (publishing.py); its manifest waits.
  4. Each task commits its own state when it next hears of the new manifest, or reads it from the delta file.

A crash before 2 leaves files that no manifest names. A crash after 2 is repaired by repeating 3 at the next start. A
start repeats 3 for the newest manifest, then makes an empty commit. That fences the previous program: it finds the next
number taken and stops. Only after that does the start remove files that no manifest names.

With at-least-once, the manifest of 2 has outputs and state without offsets, and a second manifest after 3 records the
offsets. After a crash between them the state is ahead of the offsets, so records are read and their results written
again.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from penstock.engine.commit.attempt import Attempt, is_left_by
from penstock.engine.commit.forgetting import Forgetting, waiting_files
from penstock.engine.commit.invariants import COMMIT, TAKE_OVER, refusal
from penstock.engine.commit.opening import Ends, Opened
from penstock.engine.commit.parts import AttemptInParts, More
from penstock.engine.commit.publishing import Publishing
from penstock.engine.commit.settling import Settling
from penstock.engine.evolution import carrying
from penstock.engine.shared.formats import formats_of
from penstock.engine.shared.layout import TaskPlaces
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.engine.shared.picture import picture_of
from penstock.engine.shared.runner import LostWorkError, StageRunner, TooManyWritesError
from penstock.engine.shared.starts import Start, start_of
from penstock.engine.shared.stores import has_own_stores
from penstock.engine.timing.alignment import Waiting
from penstock.engine.timing.idle import Advances, IdleTasks
from penstock.engine.timing.idling import TaskIdling
from penstock.errors import (
    CommitError,
    CorruptDataError,
    FencedError,
    PenstockError,
)
from penstock.faults import crash_point
from penstock.figures.metrics import latencies_of
from penstock.state.task_state import Numbers
from penstock.storage.base import number_in
from penstock.values.masking import masked

_log = logging.getLogger(__name__)

_PAUSES = (0.0, 0.5, 2.0, 5.0)
"""Seconds to wait before each repeated attempt: a lost process may take a while to be replaced."""


@dataclass(frozen=True)
class CommitDone:
    """One finished commit."""

    commit: int
    records: int
    """Records read from topics of the log."""
    seconds: float


class Coordinator:
    """Drives one application from commit to commit. Each application has one coordinator at a time.

    When a topic appears, the application is opened again (``reopened``) and a new coordinator takes over.

    Args:
        opened: the application.
        runner: runs its tasks.
        before: the coordinator that this one replaces in the same program. Its waiting tasks keep waiting.
    """

    def __init__(self, opened: Opened, runner: StageRunner, before: Coordinator | None = None):
        self.opened, self.runner = opened, runner
        self.application_id, self.application = opened.application_id, opened.application
        self.topology, self.layout, self.settings = opened.topology, opened.layout, opened.settings
        self.log, self.storage, self.manifests = opened.log, opened.storage, opened.manifests
        self.moved = opened.moved
        self.manifest = opened.manifest
        """The newest commit."""
        self.publishing = Publishing(opened, self.fenced)
        facts = self.topology.facts
        with_own = {sub.id for sub in self.topology.sub_topologies if has_own_stores(sub, facts)}
        self._settling = Settling(runner, with_own, self.application_id)
        self._forgetting = Forgetting(self.storage, self.manifests, opened.starts)
        self._may = replace(COMMIT, chooses_topics=bool(self.topology.dynamic_sinks))
        """Decides what is due without records: punctuations and idle time."""
        self.idling: TaskIdling = TaskIdling(self.settings.max_task_idle / 1000) if before is None else before.idling
        self.idle: IdleTasks = IdleTasks(self.topology) if before is None else before.idle
        """Which tasks wait for records of other topics."""
        self.idle.watch(self.topology)
        self.of_last_commit: dict[str, int] = {} if before is None else before.of_last_commit
        """Figures of the newest commit that only the next manifest can hold."""
        self.given_up: threading.Event = threading.Event() if before is None else before.given_up
        """Set once the program is stopping: a lost attempt is left for the next start to retry."""

    # --- starting ------------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Continue from the newest commit and fence the previous program, which can make no further commit.

        Raises:
            CorruptDataError: manifests are missing.
            OffsetOutOfRangeError: a source topic was removed and created again.
            ConfigError: the checkpoint's storage cannot create a file at most once.
        """
        self.storage.check()
        stores = formats_of(self.topology)
        picture = picture_of(self.topology, self.layout, masked(self.log.url), self.settings.dead_letters)
        shown = stores, picture, self.settings.metrics_recording_level
        given = self.application, self.application_id, self.opened.program, self.opened.description
        start = start_of(*given, *shown)
        while not self._take_over_from(self.opened.newest(), start):
            pass  # the previous program made another commit meanwhile
        crash_point("after-take-over")
        self._sweep()
        crash_point("after-sweep")

    def _take_over_from(self, newest: Manifest, start: Start) -> bool:
        """Finish the newest commit and make an empty one after it. Return False if another program took that number."""
        topics, evolution, starts = self.opened.topics, self.opened.evolution, self.opened.starts
        self.opened.check_outputs(newest)
        topics.tell_of_removed_outputs(newest)
        fitted = topics.take_up(evolution.fitted(newest))
        begun = self._carried(newest, fitted)
        if begun is None:
            return False
        self.publishing.publish(begun, repeated=True)
        crash_point("before-take-over")
        number = newest.commit + 1
        name = starts.write(number, start)
        own = {"commit": number, "sinks": {}, "at": start.at, "application": self.application, "start": name}
        outputs = begun.outputs_once_published(self.publishing.left_out)
        own |= {"places": None, "published": self.publishing.last, "outputs": outputs, "sinks_of": -1}
        taken = msgspec.structs.replace(begun, **own)
        refused = refusal(newest, taken, self.manifests.place(number), TAKE_OVER)
        if refused is None and self.manifests.create(taken):
            self.manifest = taken
            evolution.tell(newest)
            return True
        self.storage.delete(name)
        if refused is not None:
            raise refused
        return False

    def _carried(self, newest: Manifest, fitted: Manifest) -> Manifest | None:
        """Return a manifest with the rows that tasks of a changed topology inherit; None when there is a newer
        manifest.
        """
        try:
            return self.opened.evolution.carried(newest, fitted, self.application)
        except CorruptDataError:
            if max(self.manifests.numbers(), default=-1) > newest.commit:  # the newer commit removed the files
                return None
            raise

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
        for topic in self.log.topics() if self.topology.dynamic_sinks else self.opened.outputs:
            self.log.sweep(topic, is_left)

    def fenced(self) -> FencedError | None:
        """Return the error of a program that was taken over; None if this one still owns the application."""
        numbers = self.manifests.numbers()
        if not numbers or numbers[-1] <= self.manifest.commit:
            return None
        newest = self.manifests.read(numbers[-1])
        start = self.opened.starts.of(newest)
        by = "" if start is None else f" by {start}"
        return FencedError(
            f"application {self.application_id!r} was taken over{by}, and is at commit {newest.commit}; this program "
            f"stops. Its results up to commit {self.manifest.commit} are safe, and the other one continues from there"
        )

    # --- what there is to do -------------------------------------------------------------------------------------

    def end_offsets(self) -> Ends:
        """The ends of all source topics as they are now."""
        return {topic: self.opened.topics.end_offsets(topic) for topic in self.topology.source_topics}

    def offsets(self) -> Ends:
        """Return the offsets up to which all source topics are processed and committed."""
        return self.opened.offsets(self.manifest)

    def waits(self, ends: Ends) -> float | None:
        """Return the seconds until a task stops waiting for records of an empty topic; None if no task waits."""
        found = []
        for sub in (sub for stage in self.layout.stages for sub in stage if self.idling.seconds > 0):
            for task in self.layout.tasks_of(sub):
                offsets, p = self.manifest.tasks.get(task.name, TaskEntry()).offsets, task.id.partition
                topics = [topic for topic in task.inputs if topic in ends]
                found.append((task.id, {t: max(ends[t][p] - offsets.get(t, 0), 0) for t in topics}))
        return self.idling.waits(found)

    def lag(self, ends: Ends) -> int:
        """Return how many records are still unread up to these ends."""
        offsets = self.offsets()
        return sum(max(end - at, 0) for topic in ends for end, at in zip(ends[topic], offsets[topic], strict=True))

    # --- one commit ----------------------------------------------------------------------------------------------

    def step(
        self, ends: Ends, advances: Advances | None = None, attempts: Callable[..., Attempt] = Attempt
    ) -> CommitDone | None:
        """Make the next commit, reading at most up to these ends. Return None when there is nothing to do.

        Args:
            advances: the tasks whose time advances without records.
            attempts: makes attempts at it.
        """
        try:
            return self._step(ends, advances or {}, attempts)
        except FencedError:
            raise
        except Exception as error:  # possibly because a rival removed this program's files
            fenced = self.fenced()
            if fenced is not None:
                raise fenced from error
            raise

    def _step(self, ends: Ends, advances: Advances, attempts: Callable[..., Attempt]) -> CommitDone | None:
        began = time.monotonic()
        self.opened.topics.check(self.manifest)
        try:
            attempt = self._attempt(ends, advances, attempts)
        except PenstockError:
            self.opened.topics.check(self.manifest)  # a changed topic is the better explanation
            raise
        if attempt is None:
            self.publishing.finish()
            self._settling.settle(self.manifest)
            return None
        self.opened.topics.check(self.manifest)  # all records must belong to the topics that the manifest names
        before, ran = self.manifest, time.monotonic()
        manifest = attempt.manifest(self.of_last_commit)
        if self.settings.at_least_once:
            self._create(attempt.without_offsets(manifest))
            crash_point("before-offsets")
            manifest = msgspec.structs.replace(manifest, commit=manifest.commit + 1, sinks={})
        self._create(manifest)
        self._forgetting.after(before, self.manifest, attempt.exchange_files)
        self.idle.had_records(attempt.busy_tasks)
        crash_point("after-forget")
        if self.settings.standby_replicas:
            self.runner.follow(self.application, self.manifest, attempt.tasks)
        self.of_last_commit = latencies_of(time.monotonic() - ran)
        return CommitDone(manifest.commit, attempt.records, time.monotonic() - began - attempt.waited)

    def give_up(self) -> None:
        """Give up the running commit if work for it is lost or can be given up; from any thread."""
        self.given_up.set()
        self.runner.give_up()

    def advance_time(self, attempts: Callable[..., Attempt] = Attempt) -> CommitDone | None:
        """Advance time for tasks that have had nothing to read for long enough. Return None when there are none."""
        if not self.idle:
            return None
        advances = self.idle.due(self._at_end(self.end_offsets(), self.manifest.tasks, self.manifest.waiting))
        return self.step({}, advances, attempts) if advances else None

    def works_in_parts(self) -> bool:
        """Return whether attempts can work part by part: where no sub-topologies send to each other in a cycle."""
        return not self.layout.cycles

    def more(self, attempt: AttemptInParts, ends: Ends) -> More | None:
        """Return what an attempt can do now, before its commit is due; None if nothing has come and nothing is due."""
        positions = attempt.positions
        tasks = [task for stage in self.layout.stages for sub in stage for task in self.layout.tasks_of(sub)]
        if attempt.waiting or not all(self._has_read(task, ends, positions) for task in tasks):
            return More(ends, {})
        advances = self.idle.due(self._at_end(ends, positions, attempt.waiting)) if self.idle else {}
        return More(ends, advances, self.idle.now_ms()) if advances else None

    def _at_end(self, ends: Ends, positions: Mapping[str, TaskEntry], waiting: Waiting) -> dict[str, Numbers]:
        """Return the numbers of the tasks that have read everything and have no records on their way."""
        if waiting:
            return {}
        found: dict[str, Numbers] = {}
        behind: set[str] = set()
        for stage in self.layout.stages:
            of_stage = [(sub, task) for sub in stage for task in self.layout.tasks_of(sub)]
            at_end = [(sub, task) for sub, task in of_stage if self._has_read(task, ends, positions)]
            for sub in stage:  # tasks of a cycle send to each other
                if sum(one is sub for one, _ in at_end) < self.layout.tasks[sub.id]:
                    behind.update(sub.sink_topics)
            for sub, task in at_end:
                if not behind.intersection(sub.source_topics):
                    found[task.name] = positions.get(task.name, TaskEntry()).numbers
        return found

    def _has_read(self, task: TaskPlaces, ends: Ends, positions: Mapping[str, TaskEntry]) -> bool:
        """Return whether a task has read its topics of the log up to these ends."""
        offsets, inputs = positions.get(task.name, TaskEntry()).offsets, task.inputs
        return not any(ends[topic][task.id.partition] > offsets.get(topic, 0) for topic in inputs if topic in ends)

    def _create(self, manifest: Manifest) -> None:
        """Make a manifest the newest, and its records visible."""
        self.publishing.finish()
        outputs = self.manifest.outputs_once_published()
        manifest = msgspec.structs.replace(manifest, published=self.publishing.last, outputs=outputs)
        refused = refusal(self.manifest, manifest, self.manifests.place(manifest.commit), self._may)
        if refused is not None:
            raise refused
        crash_point("before-manifest")
        if not self.manifests.create(manifest):
            raise self.fenced() or FencedError(f"commit {manifest.commit} was made by another program")
        crash_point("after-manifest")
        self.manifest = manifest
        self.moved.committed()
        self.publishing.begin(manifest)

    def _attempt(self, ends: Ends, advances: Advances, attempts: Callable[..., Attempt]) -> Attempt | None:
        """Return a successful attempt at the next commit; None when there is nothing to do."""
        for pause in _PAUSES:
            try:
                return self._fitting_attempt(ends, advances, attempts)
            except LostWorkError as error:
                if self.given_up.is_set():
                    return None
                _log.warning("commit %d is repeated: %s", self.manifest.commit + 1, error)
            time.sleep(pause)
        try:
            return self._fitting_attempt(ends, advances, attempts)
        except LostWorkError as error:
            raise CommitError(
                f"commit {self.manifest.commit + 1} of application {self.application_id!r} failed "
                f"{len(_PAUSES) + 1} times, the last time because {error}; everything up to commit "
                f"{self.manifest.commit} is safe. Look for the cause in the warnings before this, or in the logs of "
                "Spark's executors, and start again"
            ) from error

    def _fitting_attempt(self, ends: Ends, advances: Advances, attempts: Callable[..., Attempt]) -> Attempt | None:
        """Return a successful attempt that takes no more records than the limits of uncommitted writes allow; None when
        there is nothing to do.
        """
        most: dict[str, int] = {}
        while True:
            now = self.idle.now_ms() if advances else 0
            attempt = attempts(self.opened, self.runner, self.idling, self.manifest, ends, advances, now, most)
            try:
                return attempt if attempt.run() else None
            except TooManyWritesError as error:
                for name, records in error.most.items():  # records that came of one may not be parted any further
                    most[name] = records if records < most.get(name, sys.maxsize) else 0
            self._remove_files_of(attempt)

    def _remove_files_of(self, attempt: Attempt) -> None:
        """Remove the files of an attempt that is repeated with fewer records."""
        for folder in ("exchange", "deltas"):
            for name in filter(attempt.is_of_this, list(self.storage.list(folder))):
                self.storage.delete(name)
        for topic in self.log.topics() if self.topology.dynamic_sinks else self.opened.outputs:
            self.log.sweep(topic, attempt.is_of_this)

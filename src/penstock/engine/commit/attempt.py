"""One attempt at a commit: it runs the stages in order and builds the manifest.

The names of all files of an attempt start with the attempt's name, so a later start finds leftovers. A start removes
leftovers of attempts at commits up to its own empty commit: the programs that made them can no longer commit. It leaves
the files of later commits alone, because another program may have taken the application over in the meantime.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

import msgspec

from penstock.engine.commit.opening import Ends, Opened
from penstock.engine.commit.rounds import Rounds
from penstock.engine.commit.topics import skipped_records
from penstock.engine.shared.cycles import Cycle
from penstock.engine.shared.exchange import LATEST, ExchangeRef
from penstock.engine.shared.layout import TaskId, TaskPlaces
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.engine.shared.places import Places, places_after
from penstock.engine.shared.runner import LostWorkError, StageRunner, TooManyWritesError, error_of
from penstock.engine.shared.work import StageWork, TaskDone, TaskWork
from penstock.engine.timing.alignment import Alignment, Waiting
from penstock.engine.timing.idle import Advances
from penstock.engine.timing.idling import TaskIdling
from penstock.errors import (
    OffsetOutOfRangeError,
)
from penstock.figures.metrics import COMMITS, Metric, add_up, labelled
from penstock.log.contract.writer import Segment
from penstock.plan.physical import SubTopology
from penstock.values.times import wall_clock_ms

_NEW = TaskEntry()


class Attempt:
    """One attempt at the next commit: all stages, in order.

    Args:
        runner: runs the tasks.
        idling: which topics tasks wait for.
        before: the newest manifest.
        ends: the offsets up to which to read, at most.
        advances: the tasks whose time advances without records.
        now: the wall clock in ms that decides which of them are due.
        most: how many records some tasks and cycles may take, whose stores have no room for the writes of more.
    """

    def __init__(
        self,
        opened: Opened,
        runner: StageRunner,
        idling: TaskIdling,
        before: Manifest,
        ends: Ends,
        advances: Advances,
        now: int,
        most: Mapping[str, int] = MappingProxyType({}),
    ):
        self.settings = opened.settings
        self._opened, self._runner, self._idling = opened, runner, idling
        self._layout = opened.layout
        self._before = before
        self._positions: Mapping[str, TaskEntry] = before.tasks
        """The positions from which tasks read."""
        self._ends, self._advances, self._now = ends, advances, now
        self.most = most
        self._name = attempt_name(opened.application, before.commit + 1)
        self._done: dict[str, TaskDone] = {}
        self._skipped: dict[str, int] = {}
        self._idle: set[str] = set()
        """Tasks that wait for records of a topic."""
        self._waiting: Waiting = {
            task: {topic: list(refs) for topic, refs in topics.items()} for task, topics in self._before.waiting.items()
        }
        self._readers = {t: sub.id for sub in opened.topology.sub_topologies for t in sub.source_topics}
        self._behind: set[str] = set()
        """Tasks that have unread records in the log."""
        self._entries = self._where_tasks_are()
        self._alignment = Alignment(opened.layout, self._entries, ends, self._waiting, opened.log, opened.settings)
        self.records = 0
        self.waited = 0.0
        """The seconds for which it waited for records."""

    @property
    def exchange_files(self) -> set[str]:
        """Exchange files this attempt wrote for repartition topics."""
        return {ref.file.name for done in self._done.values() for refs in done.exchange.values() for ref in refs}

    @property
    def tasks(self) -> list[str]:
        """The tasks that take part in the commit."""
        return list(self._done)

    @property
    def busy_tasks(self) -> list[str]:
        """The tasks that had records to process."""
        return [name for name, done in self._done.items() if done.records]

    def run(self) -> bool:
        """Run the stages. Return whether there was anything to do."""
        layout = self._layout
        for number, stage in enumerate(layout.stages):
            label = f"stage {number + 1} of {len(layout.stages)}"
            cycle = layout.cycle_of(stage[0].id)
            if cycle is not None:
                self.go_around(cycle, label)
            elif works := [work for sub in stage for work in self.works(sub)]:
                self.take(works, self.order(works, label))
        return bool(self._done)

    def go_around(self, cycle: Cycle, label: str) -> None:
        """Run the rounds of a cycle."""
        Rounds(self, cycle, label).run()

    def _where_tasks_are(self) -> dict[str, TaskEntry]:
        """Return the entries of all tasks, advanced past records that are gone and need not be read."""
        layout, topics, log = self._layout, self._opened.topics, self._opened.log
        starts = {topic: log.start_offsets(topic) for topic in self._ends}
        entries = dict(self._positions)
        for sub in (sub for stage in layout.stages for sub in stage):
            for task in layout.tasks_of(sub):
                entry = entries.setdefault(task.name, _NEW)
                moved = {}
                for place, topic, p in task.places:
                    if topic in self._ends:
                        at, start, end = entry.offsets.get(place, 0), starts[topic][p], self._ends[topic][p]
                        if not start <= at <= end:
                            moved[place] = at = topics.next_offset(at, topic, p, start, end)
                        if at < end:
                            self._behind.add(task.name)
                if moved:
                    entries[task.name] = msgspec.structs.replace(entry, offsets={**entry.offsets, **moved})
        return entries

    def works(self, sub: SubTopology) -> list[TaskWork]:
        """Return the work of a sub-topology's tasks, only of tasks that have something to do."""
        works = []
        for task in self._at_hand(sub):
            entry = self._entries[task.name]
            awaited = self._awaited(task)
            if awaited is None:
                self._idle.add(task.name)
                continue
            reads_on = self._alignment.reads_on(task.id)
            ends = {
                place: self._ends[topic][partition]
                for place, topic, partition in task.places
                if topic in self._ends and (reads_on or place != topic)
            }
            ends = {place: end for place, end in ends.items() if end > entry.offsets.get(place, 0)}
            bounds = self._alignment.bounds(sub, task, self._done)
            exchange = self._exchange(task, bounds)
            advances = self._advances.get(task.name, {})
            if ends or exchange or advances:
                until, most = self._alignment.until(sub), self.most.get(task.name, sys.maxsize)
                work = TaskWork(task.name, entry, ends, exchange, bounds, until, awaited, advances, most=most)
                works.append(work)
        return works

    # --- for cycles ---------------------------------------------------------------------------------------------

    def work_of(self, task: str) -> TaskWork:
        """Return the work of a task that reads only records that come back around its cycle."""
        return TaskWork(task, self._entries[task])

    def take_waiting(self, subs: Iterable[SubTopology], topics: frozenset[str]) -> Waiting:
        """Remove and return the records that wait for tasks of these sub-topologies in these topics."""
        found: Waiting = {}
        for task in [task.name for sub in subs for task in self._layout.tasks_of(sub)]:
            waiting = self._waiting.get(task, {})
            mine = {topic: waiting.pop(topic) for topic in topics.intersection(waiting)}
            if mine:
                found[task] = mine
            if not waiting:
                self._waiting.pop(task, None)
        return found

    def may_come(self, cycle: Cycle, begun: Container[str]) -> list[tuple[int, TaskId]]:
        """Return the places before which records may still enter a cycle.

        Only tasks that have not begun to read the cycle in this commit count. Tasks that wait for a topic do not.
        """
        places = (place for sub in cycle.subs for place in self._alignment.may_come(sub, self._done))
        return [place for place in places if str(place[1]) not in begun and str(place[1]) not in self._idle]

    def is_of_this(self, file: str) -> bool:
        """Return whether a file belongs to this attempt."""
        return self._name in file.rpartition("/")[2]

    def forget(self, files: Iterable[str]) -> None:
        """Remove files that are no longer needed."""
        for name in files:
            self._opened.storage.delete(name)

    def _at_hand(self, sub: SubTopology) -> Iterable[TaskPlaces]:
        """Return the tasks of a sub-topology that may have something to do, usually few of many."""
        tasks = self._layout.tasks_of(sub)
        if self._idling.seconds > 0:  # idling must also see tasks that have nothing
            return tasks
        some = self._behind | self._waiting.keys() | self._advances.keys()
        return [task for task in tasks if task.name in some]

    def _awaited(self, task: TaskPlaces) -> list[str] | None:
        """Return the topics that a task reads only to their ends; None if it waits for records of one."""
        if task.name in self._advances:  # time advances for tasks that have read everything
            return []
        offsets = self._entries[task.name].offsets
        at = {topic: offsets.get(topic, 0) for topic in task.inputs if topic in self._ends}
        unread = {topic: max(self._ends[topic][task.id.partition] - offset, 0) for topic, offset in at.items()}
        return self._idling.awaited(task.id, unread)

    def _exchange(self, task: TaskPlaces, bounds: dict[str, tuple[int, str]]) -> dict[str, list[ExchangeRef]]:
        """Return the records that wait for a task: leftovers of the last commit and those of earlier stages of this
        one.

        Empty when all of them must keep waiting.
        """
        waiting = self._waiting.get(task.name, {})
        until = min((clock for clock, _ in bounds.values()), default=LATEST)
        until -= task.id.sub in self._layout.meetings.subs  # records of this very time wait for the rest of it
        if all(ref.clock > until for refs in waiting.values() for ref in refs):
            return {}
        return self._waiting.pop(task.name)

    def order(self, works: list[TaskWork], label: str) -> dict[str, TaskDone]:
        """Run the work of some tasks. Return the results by task.

        Raises:
            LostWorkError: the attempt has to be repeated.
            TooManyWritesError: it has to be repeated with fewer records.
            PenstockError: a task failed permanently.
        """
        if self._before.waiting or self._waiting:
            works = [msgspec.structs.replace(work, more_is_waiting=True) for work in works]
        by_task = {done.task: done for done in self._runner.run(self.stage_of(works), self.labelled(label))}
        return self.checked(works, by_task)

    def stage_of(self, works: list[TaskWork]) -> StageWork:
        """Return the order for some tasks."""
        return StageWork(self._opened.application, self._before.commit + 1, self._name, works, self._now)

    def labelled(self, label: str) -> str:
        """Return what is shown while a part of this attempt runs."""
        return f"penstock {self._opened.application_id}: commit {self._before.commit + 1}, {label}"

    @staticmethod
    def checked(works: list[TaskWork], by_task: dict[str, TaskDone]) -> dict[str, TaskDone]:
        """Return the results of works, if all were done. Raise as ``order`` does."""
        for work in works:  # in this order, whichever task finished first
            done = by_task[work.task]
            if done.is_lost:
                raise LostWorkError(f"task {done.task}: {done.error}")
            if done.error:
                error = error_of(done)
                if isinstance(error, OffsetOutOfRangeError):  # retention was faster; the next attempt sees it
                    raise LostWorkError(str(error))
                raise error
        if most := {task: done.most for task, done in by_task.items() if done.most >= 0}:
            raise TooManyWritesError(most)
        return {work.task: by_task[work.task] for work in works}

    def take(self, works: list[TaskWork], by_task: dict[str, TaskDone]) -> None:
        """Merge the results of tasks into this attempt."""
        for work in works:
            done = by_task[work.task]
            self._done[work.task] = done
            add_up(self._skipped, skipped_records(work, self._positions.get(work.task, TaskEntry())))
            if done.left:
                self._waiting[work.task] = {**self._waiting.get(work.task, {}), **done.left}
            self.records += done.read
        for work in works:
            self._deliver(self._done[work.task])

    def _deliver(self, done: TaskDone) -> None:
        """Queue a task's exchange records for the tasks that read them."""
        for topic, refs in done.exchange.items():
            for ref in refs:
                task = str(TaskId(self._readers[topic], ref.partition))
                self._waiting.setdefault(task, {}).setdefault(topic, []).append(ref)

    def _has_state(self, task: str) -> bool:
        sub = self._opened.topology.sub_topologies[TaskId.parse(task).sub]
        return any(part.stores for part in sub.working_parts)

    def manifest(self, of_last_commit: Mapping[str, int]) -> Manifest:
        """Return the manifest of this attempt.

        Args:
            of_last_commit: figures of the previous commit that were unknown when its manifest was made.
        """
        before, commit = self._before, self._before.commit + 1
        tasks = dict(before.tasks)
        sinks: dict[str, list[Segment]] = {}
        metrics, observed = dict(before.metrics), dict(before.observed)
        for name, done in self._done.items():
            old = tasks.get(name, TaskEntry())
            previous = old.changed if self._has_state(name) else -1
            snapshots = done.snapshot, old.older_than(done.snapshot)
            tasks[name] = TaskEntry(
                done.offsets,
                done.numbers,
                done.delta,
                commit,
                self._name,
                previous,
                *snapshots,
                done.clock,
                old.base,
                done.last,
            )
            if done.base is not None:  # the state starts from a new base, without earlier changes
                whole = {"attempt": "", "previous": -1, "snapshot": commit, "older": None, "base": done.base}
                tasks[name] = msgspec.structs.replace(tasks[name], **whole)
            for topic, segments in done.sinks.items():
                sinks.setdefault(topic, []).extend(segments)
            add_up(metrics, done.metrics)
            add_up(observed, done.observed)
        add_up(metrics, self._skipped)
        add_up(observed, {COMMITS: 1, **of_last_commit})
        requests = self._opened.storage.take_counts()
        add_up(observed, labelled("", {Metric(name): figure for name, figure in requests.items()}))
        figures, now = {"metrics": metrics, "observed": observed}, wall_clock_ms()
        places = self._places()
        return msgspec.structs.replace(
            before, commit=commit, tasks=tasks, sinks=sinks, waiting=self._waiting, at=now, places=places, **figures
        )

    def _places(self) -> Places | None:
        """Return which slots hold which tasks after this attempt; None if the runner has no slots."""
        slots, tasks = self._runner.places, self._layout.tasks
        return None if slots is None else places_after(self._before.places, slots, tasks.values())

    def without_offsets(self, manifest: Manifest) -> Manifest:
        """Return a manifest with its results and state, but with the previous offsets."""
        old = {name: self._before.tasks.get(name, _NEW) for name in manifest.tasks}
        tasks = {
            name: msgspec.structs.replace(entry, offsets=old[name].offsets, last=old[name].last)
            for name, entry in manifest.tasks.items()
        }
        return msgspec.structs.replace(manifest, tasks=tasks, waiting=self._before.waiting)


def attempt_name(application: str, commit: int) -> str:
    """Return a new, unique name for an attempt at a commit."""
    return f"{application}-{commit}-{os.urandom(4).hex()}"


def is_left_by(file: str, application: str, commit: int) -> bool:
    """Return whether a file belongs to an attempt at that commit or at an earlier one.

    >>> [is_left_by(f"app-{n}-5a0ba94f-1_0-0.arrow", "app", 7) for n in (6, 7, 8)]
    [True, True, False]
    >>> is_left_by("application-6-5a0ba94f-1_0-0.arrow", "app", 7)
    False
    """
    prefix = f"{application}-"
    number = file.removeprefix(prefix).partition("-")[0]
    return file.startswith(prefix) and number.isdecimal() and int(number) <= commit

"""Aligns tasks in time: which tasks read in a commit, and up to which time they and their successors go.

Partitions of a topic differ: one may have ten times the records of another for the same hour. A step after a
repartition topic must not see one run ahead, because the other's records would be late there. So:

- Partitions whose records may meet are read up to the same time in a commit, as far as the log can tell before they are
    read (``until``). That is the time that the densest of them reaches within ``commit_max_bytes``.
- A task takes no record that comes after what an upstream task may still send (``bounds``), whatever they have read.
- Records it cannot take wait in the checkpoint. While more than ``input_buffer_max_bytes`` wait, only the partitions
  that lag behind are read (``reads_on``).

All of this follows from the manifest, the ends of the topics, and the results of this attempt's tasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from penstock.engine.shared.exchange import LATEST, ExchangeRef
from penstock.engine.shared.layout import Layout, TaskId, TaskPlaces
from penstock.engine.shared.manifest import TaskEntry
from penstock.engine.shared.reach import leads, subs_above
from penstock.engine.shared.work import TaskDone
from penstock.log.base import Log
from penstock.plan.physical import SubTopology
from penstock.settings import Settings

Waiting = dict[str, dict[str, list[ExchangeRef]]]
"""Records in repartition topics by task and topic, in the order of sending."""


class Alignment:
    """The alignment of one attempt at a commit.

    Args:
        entries: the previous positions of the tasks.
        ends: the offsets up to which to read the topics of the log.
        waiting: the records that waited for the tasks before, by task and topic.
        log: where the topics are.
        settings: how much is read in a commit, and how much may wait.
    """

    def __init__(
        self,
        layout: Layout,
        entries: Mapping[str, TaskEntry],
        ends: Mapping[str, list[int]],
        waiting: Waiting,
        log: Log,
        settings: Settings,
    ):
        self._layout = layout
        self._entries = entries
        self._ends = ends
        self._subs = [sub for stage in layout.stages for sub in stage]
        self._writers = {sub.id: _writers(sub, layout, ends) for sub in self._subs}
        self._before = {sub.id: subs_above(sub, self._subs) for sub in self._subs}
        self._unread = {sub.id: self._unread_of(sub) for sub in self._subs}
        buffer_bytes = settings.input_buffer_max_bytes
        self._held = {task for sub in self._subs for task in self._held_by(sub, waiting, buffer_bytes)}
        self._until = self._common_times(log, settings.commit_max_bytes)
        self._lowest: dict[int, tuple[int, TaskId] | None] = {}

    def reads_on(self, task: TaskId) -> bool:
        """Return whether a task reads from the topics of the log."""
        return task not in self._held

    def until(self, sub: SubTopology) -> int:
        """Return the time up to which the tasks of a sub-topology read in this commit."""
        return self._until.get(sub.id, LATEST)

    def bounds(self, sub: SubTopology, task: TaskPlaces, done: Mapping[str, TaskDone]) -> dict[str, tuple[int, str]]:
        """Return, for a task about to run, what may still be sent to it, see ``TaskWork``.

        Args:
            done: the tasks of this attempt that have run, including all upstream tasks that had work.
        """
        found = {}
        for topic, writers in self._writers[sub.id].items():
            lowest = min(filter(None, (self._lowest_of(writer, done) for writer in writers)), default=None)
            if lowest is not None:
                found[topic] = lowest[0], str(lowest[1])
        if task.id in self._held:
            clock = self._entry(task.id).clock
            found |= {topic: (clock, "") for topic in task.inputs if topic in self._ends}
        return found

    def _common_times(self, log: Log, nbytes: int) -> dict[int, int]:
        """Return, for each sub-topology whose records meet others, the time up to which all of these can be read."""
        times: dict[int, int] = {}
        for subs in _meeting(self._subs):
            unread = [task for sub in subs for id_, task in self._unread[sub.id].items() if id_ not in self._held]
            reached = [self._reach(log, task, nbytes) for task in unread if len(unread) > 1]
            times |= dict.fromkeys((sub.id for sub in subs), min(reached, default=LATEST))
        return times

    def _reach(self, log: Log, task: TaskPlaces, nbytes: int) -> int:
        """Return the time up to which a task can read in a commit."""
        offsets, partition = self._entry(task.id).offsets, task.id.partition
        topics = [topic for topic in task.inputs if topic in self._ends]
        times = (log.reach(t, partition, offsets.get(t, 0), self._ends[t][partition], nbytes) for t in topics)
        return min((time for time in times if time is not None), default=LATEST)

    def may_come(self, sub: SubTopology, done: Mapping[str, TaskDone]) -> Iterator[tuple[int, TaskId]]:
        """Yield, for tasks of a sub-topology in a cycle, the clock from which records may still come from outside.

        Only tasks that may receive such records are included.
        """
        before = self._before_it(sub, done)
        return filter(None, (self._open(task, before, done) for task in self._open_tasks(sub, before, done)))

    def _lowest_of(self, sub: SubTopology, done: Mapping[str, TaskDone]) -> tuple[int, TaskId] | None:
        """Return the lowest clock that a task of a sub-topology may still send, and the task; None if nothing comes."""
        if sub.id not in self._lowest:
            cycle = self._layout.cycle_of(sub.id)
            subs = (sub,) if cycle is None else cycle.subs
            lowest = min((place for one in subs for place in self.may_come(one, done)), default=None)
            if lowest is not None and cycle is not None:  # any task may send results of it
                lowest = lowest[0], TaskId(sub.id, 0)
            self._lowest[sub.id] = lowest
        return self._lowest[sub.id]

    def _before_it(self, sub: SubTopology, done: Mapping[str, TaskDone]) -> int | None:
        """Return the lowest clock that may still be sent to a sub-topology."""
        above = (self._lowest_of(one, done) for writers in self._writers[sub.id].values() for one in writers)
        return min((lowest[0] for lowest in above if lowest is not None), default=None)

    def _open_tasks(self, sub: SubTopology, before: int | None, done: Mapping[str, TaskDone]) -> Iterator[TaskPlaces]:
        """Yield the tasks that may still send. Of several that may for the same reason at the same clock, only the
        first.
        """
        unread, tasks = self._unread[sub.id], self._layout.tasks_of(sub)
        yield from unread.values()
        yield from (tasks[id_.partition] for id_ in map(TaskId.parse, done) if id_.sub == sub.id)
        if before is not None:
            yield from itertools.islice((t for t in tasks if t.id not in unread and t.name not in done), 1)

    def _open(self, task: TaskPlaces, before: int | None, done: Mapping[str, TaskDone]) -> tuple[int, TaskId] | None:
        """Return the lowest clock that one task may still send.

        Args:
            before: the lowest that may still be sent to it.
        """
        own = done.get(task.name)
        if own is not None:
            offsets = own.offsets or self._entry(task.id).offsets
            may_go_on = own.left or before is not None or self._has_unread(task, offsets)
            return (own.clock, task.id) if may_go_on else None
        unread = [self._entry(task.id).clock] if task.id in self._unread[task.id.sub] else []
        lowest = min(unread if before is None else [*unread, before], default=None)
        return None if lowest is None else (lowest, task.id)

    def _unread_of(self, sub: SubTopology) -> dict[TaskId, TaskPlaces]:
        """Return the tasks of a sub-topology that have more to read in the log."""
        entries = self._entries
        tasks = self._layout.tasks_of(sub)
        return {t.id: t for t in tasks if self._has_unread(t, entries[t.name].offsets if t.name in entries else {})}

    def _has_unread(self, task: TaskPlaces, at: Mapping[str, int]) -> bool:
        """Return whether a task has more to read in the log, from some offsets on."""
        ends, partition = self._ends, task.id.partition
        for topic in task.inputs:  # noqa: SIM110 - thousands of times a commit
            if topic in ends and ends[topic][partition] > at.get(topic, 0):
                return True
        return False

    def _held_by(self, sub: SubTopology, waiting: Waiting, buffer_bytes: int) -> Iterable[TaskId]:
        """Return the tasks that stop reading because too much waits for a sub-topology: all that do not lag behind.

        The task that lags most always reads.
        """
        tasks = (topics for name, topics in waiting.items() if TaskId.parse(name).sub == sub.id)
        refs = [ref for topics in tasks for some in topics.values() for ref in some]
        if sum(ref.left_bytes for ref in refs) <= buffer_bytes:
            return []
        first = min(ref.clock for ref in refs)
        unread = sorted((self._entry(task).clock, task) for id_ in self._before[sub.id] for task in self._unread[id_])
        return [task for clock, task in unread[1:] if clock >= first]

    def _entry(self, task: TaskId) -> TaskEntry:
        return self._entries.get(str(task), TaskEntry())


def _writers(sub: SubTopology, layout: Layout, ends: Iterable[str]) -> dict[str, list[SubTopology]]:
    """Return, for each repartition topic that a sub-topology reads, its senders that run earlier."""
    before = [one for stage in itertools.takewhile(lambda stage: sub not in stage, layout.stages) for one in stage]
    internal = [topic for topic in sub.source_topics if topic not in ends]
    return {topic: [one for one in before if topic in one.sink_topics] for topic in internal}


def _meeting(subs: list[SubTopology]) -> list[list[SubTopology]]:
    """Group the sub-topologies whose records may meet, because topics lead from one to another."""
    groups: list[list[SubTopology]] = []
    for sub in subs:
        linked = [group for group in groups if any(leads(one, sub) or leads(sub, one) for one in group)]
        groups = [group for group in groups if group not in linked] + [[one for g in linked for one in g] + [sub]]
    return [group for group in groups if len(group) > 1]

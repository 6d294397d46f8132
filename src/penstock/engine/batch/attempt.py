"""A batch as the next commit of an application: the tasks and the checkpoint of the live program, run by Spark.

The tasks continue from the last commit. Their results become one manifest, created at most once, like that of any
commit: output, state, positions and the batch's name are committed together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.engine.batch.arguments import Source
from penstock.engine.batch.names import BatchName
from penstock.engine.batch.planning import Plan, for_batch
from penstock.engine.batch.program import Continuation, Program, Range
from penstock.engine.commit.attempt import Attempt
from penstock.engine.shared.last_read import check_last_read, last_read
from penstock.engine.shared.layout import TaskPlaces
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.engine.shared.work import TaskDone, TaskWork


@dataclass(frozen=True)
class Job:
    """The work of an application's batch.

    Attributes:
        sources: the DataFrames, by the topics that they replace.
        run: runs the tasks of a plan and returns their results.
        name: the batch's name, if it has rows.
        seeds: by topic the offsets from which a live program continues; None if the batch is no seed.
        stores: the stores whose rows are results.
    """

    sources: Mapping[str, Source]
    run: Callable[[Plan], Iterable[TaskDone]]
    name: BatchName | None = None
    seeds: Mapping[str, Sequence[int]] | None = None
    stores: Collection[str] = ()


class BatchAttempt(Attempt):
    """An attempt at a commit whose tasks run as a batch: to the ends of their input, however full their memory is."""

    def __init__(self, job: Job, *given: Any):
        super().__init__(*given)
        self._job = job

    def run(self) -> bool:
        places = {task.name: task for task in self._tasks()}
        plan = self._plan()
        is_new = any(one.end > one.start for ranges in plan.ranges.values() for one in ranges)
        if not (is_new or self._job.sources or self._job.seeds is not None):
            return False  # Spark has nothing to do
        self._check_last_read(plan)
        done = [self._positioned(one, places[one.task], plan) for one in self._job.run(plan)]
        works = [TaskWork(one.task, self._entries[one.task], self._ends_of(places[one.task])) for one in done]
        self.take(works, {one.task: one for one in done})
        return bool(done) or self._job.seeds is not None

    def _tasks(self) -> Iterator[TaskPlaces]:
        for stage in self._layout.stages:
            for sub in stage:
                yield from self._layout.tasks_of(sub)

    def _plan(self) -> Plan:
        opened, seeds = self._opened, self._job.seeds is not None
        at = opened.offsets(msgspec.structs.replace(self._before, tasks=self._entries))
        ranges = {
            topic: tuple(Range(min(start, end), end) for start, end in zip(at[topic], ends, strict=True))
            for topic, ends in self._ends.items()
            if topic not in self._job.sources and not (seeds and topic in opened.topology.sink_topics)
        }
        log, topics = opened.log, {*opened.topology.source_topics, *opened.outputs}
        entries = {task: msgspec.structs.replace(entry, last={}) for task, entry in self._entries.items()}
        program = Program(
            opened.topology,
            opened.layout,
            for_batch(opened.settings),
            tuple(log.topic(topic) for topic in sorted(topics)),
            log.place,
            Continuation(
                opened.storage.url, opened.application, self._before.commit + 1, self._name, entries, not seeds
            ),
        )
        return Plan(self._job.sources, program, ranges, self._job.stores)

    def _ends_of(self, task: TaskPlaces) -> dict[str, int]:
        """Return the offsets up to which a task reads topics of the log."""
        return {
            place: self._ends[topic][partition]
            for place, topic, partition in task.places
            if topic in self._ends and topic not in self._job.sources
        }

    def _positioned(self, done: TaskDone, task: TaskPlaces, plan: Plan) -> TaskDone:
        """Return a task's result with its positions in topics of the log; DataFrames do not change them."""
        offsets, before = dict(done.offsets), self._entries[task.name]
        last = dict(before.last)
        for place, topic, partition in task.places:
            if topic not in self._ends:  # a repartition topic
                continue
            offsets.pop(place, None)
            if topic in plan.ranges:
                read = plan.ranges[topic][partition]
                offsets[place] = read.end
                newest = self._opened.log.newest(topic, partition, read.start, read.end, 1)
                last |= {} if newest is None else {place: last_read(newest)}
            elif place in before.offsets:
                offsets[place] = before.offsets[place]
        return msgspec.structs.replace(done, offsets=offsets, last=last)

    def _check_last_read(self, plan: Plan) -> None:
        """Raise ``CorruptDataError`` when a topic with new records is not the one that earlier commits have read."""
        for task in self._tasks():
            for place, topic, partition in task.places:
                last = self._entries[task.name].last.get(place)
                ranges = plan.ranges.get(topic)
                if last is not None and ranges and ranges[partition].end > ranges[partition].start:
                    check_last_read(self._opened.log, topic, partition, last, self._opened.application_id)

    def manifest(self, of_last_commit: Mapping[str, int]) -> Manifest:
        manifest = super().manifest(of_last_commit)
        if self._job.name is not None:
            manifest = self._job.name.noted_in(manifest)
        if not self._job.seeds:
            return manifest
        tasks = dict(manifest.tasks)
        for task in self._tasks():
            places = [place for place in task.places if place[1] in self._job.seeds]
            if places:
                begins = {place: self._job.seeds[topic][partition] for place, topic, partition in places}
                entry = tasks.get(task.name, TaskEntry())
                last = {place: one for place, one in entry.last.items() if place not in begins}
                tasks[task.name] = msgspec.structs.replace(entry, offsets=entry.offsets | begins, last=last)
        return msgspec.structs.replace(manifest, tasks=tasks)

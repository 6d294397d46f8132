"""A running task: one sub-topology on one partition, from its input to files that a commit can make visible."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from penstock.arrays import IntArray
from penstock.columns.batch import Origins
from penstock.engine.shared.cycles import NO_CYCLE
from penstock.engine.shared.exchange import ExchangeRef
from penstock.engine.shared.last_read import check_last_read
from penstock.engine.shared.layout import Layout, TaskId, global_place, topic_names
from penstock.engine.shared.manifest import delta_name
from penstock.engine.shared.stores import stores_of
from penstock.engine.shared.work import Lap, TaskDone, TaskWork
from penstock.engine.task.chosen_topics import ChosenTopics
from penstock.engine.task.flow import Flow
from penstock.engine.task.laps import Laps
from penstock.engine.task.merged import Bound, MergedExchange
from penstock.engine.task.observed import Observed
from penstock.engine.task.outlets import Outlets, Places
from penstock.engine.task.reader import Chunk, Input, Reader
from penstock.engine.task.room import Room
from penstock.faults import crash_point
from penstock.figures.metrics import PROCESSED, Metric, labelled
from penstock.log.base import Log
from penstock.log.records import Records
from penstock.ops.core.context import Context
from penstock.ops.core.failures import Origin
from penstock.ops.core.notes import DeadLetter, TaskFacts
from penstock.plan.physical import Part
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.state.delta import write_delta
from penstock.state.task_context import TaskContext
from penstock.state.task_state import TaskState
from penstock.storage.base import FileRef, Storage
from penstock.values.times import wall_clock_ms

Left = dict[str, list[ExchangeRef]]
"""The records that a task did not take from repartition topics."""


class Task:
    """One task of an application, with its state open.

    Args:
        share: divides the settings' limits on the size of a chunk and of a commit.
        checkpoint: where its state is stored, if not in the storage of the records it sends to other tasks.
    """

    is_repeatable = True
    """Whether an attempt can be repeated with fewer records."""

    def __init__(
        self,
        id_: TaskId,
        topology: Topology,
        layout: Layout,
        settings: Settings,
        log: Log,
        storage: Storage,
        folder: Path | None,
        reader: type[Reader] = Reader,
        share: int = 1,
        checkpoint: Storage | None = None,
    ):
        settings = settings.in_parts(share)
        self.id = id_
        self.sub = topology.sub_topologies[id_.sub]
        self.pending: tuple[int, str] | None = None
        """The commit and the attempt whose changes the state holds uncommitted."""
        self.ordered_at = 0
        """The driver's wall clock when it found something due, in ms; 0 if the order does not say so."""
        self._partitions = layout.partitions
        self.settings = settings
        self._log = log
        self.storage, self.checkpoint = storage, checkpoint or storage
        self._new_reader = reader
        self._application_id = layout.application_id
        self._known: set[str] = set()
        """Where it has read, by place, since it was opened."""
        stores = stores_of(self.sub, topology.facts)
        context = TaskContext(layout.application_id, str(id_), settings.app_configs())
        self.state = TaskState(str(id_), stores, settings.state, folder, self.checkpoint, context)
        self._observed = Observed(self.state, self.sub.stores_counted_elsewhere(id_.partition == 0))
        self.reader = reader([], settings.chunk_records, settings.chunk_bytes)
        self.context = Context(self._facts(topology, layout))
        self._room = Room(self.state, settings, self.context, self.is_repeatable)
        self.context.look = self._room.look
        caching = settings.statestore_cache_max_bytes > 0
        self.context.is_traced = settings.metrics_recording_level == "TRACE"
        self._cycle = layout.cycle_of(id_.sub) or NO_CYCLE
        self._meetings = layout.meetings
        self._laps: Laps | None = None
        """Its laps in the running attempt, if it is part of a cycle."""
        self.flow = Flow(topology, self.sub, self.state, self.context, caching, id_.partition == 0, self._cycle)
        self.between_chunks: Callable[[], None] = lambda: None
        """Called after every chunk, when the state is consistent."""
        self.gathering: Callable[[], AbstractContextManager[None]] = nullcontext
        """The finished files, if a caller collects them to make them durable."""
        self._sinks = {part.name: part.topics[0] for part in self.sub.parts if part.kind == "sink" and part.topics}
        internal = topology.internal_topics
        self._topic_names = topic_names(topology, layout.application_id)
        letters = settings.handlers.dead_letter_topic
        lines = {part.name: part.node.where for part in self.sub.parts if part.kind == "sink"}
        self._places = Places(log, storage, layout.partitions, internal, id_, letters, lines)

    def _facts(self, topology: Topology, layout: Layout) -> TaskFacts:
        """Return the facts about the task that steps need."""
        settings = self.settings
        return TaskFacts(
            task=str(self.id),
            application_id=layout.application_id,
            handlers=settings.handlers,
            origin=self._origin,
            offsets=self._offsets,
            origins=self._origins,
            internal_topics=topology.internal_topics,
            partitions_of=ChosenTopics(self._log, layout.partitions, settings).partitions_of,
            wall_clock_ms=self._wall_clock_ms,
            emit_interval_ms=settings.emit_interval_ms,
            replays=settings.at_least_once,
        )

    def _wall_clock_ms(self) -> int:
        """Return the wall clock, never behind the driver's: otherwise the driver would find the same thing due
        again.
        """
        return max(wall_clock_ms(), self.ordered_at)

    def _origin(self, position: int) -> Origin:
        return self.reader.origin(position)

    def _offsets(self, positions: IntArray) -> IntArray:
        return self.reader.offsets(positions)

    def _origins(self, positions: IntArray) -> Origins:
        return self.reader.origins(positions, self._topic_names)

    def run(self, work: TaskWork, commit: int, attempt: str) -> TaskDone:
        """Read the work's input, up to the limits of a commit, and write everything but the commit itself."""
        if work.lap is not None:
            return self._lapped(work, work.lap, commit, attempt)
        exchanges = self.begin(work)
        with self.outlets(f"{attempt}-{work.part}" if work.part else attempt) as outlets:
            records = self._read_all(work, outlets)
            left = self.left(exchanges)
            self.finish(work, outlets, left)
        return self.done(work, commit, attempt, outlets, left, records)

    def is_on_its_way(self, attempt: str) -> bool:
        """Return whether the task goes around a cycle in an attempt, and has not finished."""
        return self._laps is not None and self._laps.attempt == attempt

    def _lapped(self, work: TaskWork, lap: Lap, commit: int, attempt: str) -> TaskDone:
        if self._laps is None or not self.is_on_its_way(attempt):
            self.pending = (commit, attempt)
            exchanges, outlets = self.begin(work), self.outlets(attempt)
            self._room.begin(0 if lap.may_pass else sys.maxsize)
            self._laps = Laps(attempt, work, self._cycle, exchanges, outlets, self.reader, self.settings, self.storage)
        laps = self._laps
        crash_point("before-lap")
        for chunk, number in laps.chunks(lap):
            self._room.enter(lap.roots or (chunk.records if number == 0 else 0))
            self.work_on(chunk, laps.outlets, number, records=lap.roots)
        crash_point("after-lap")
        if not lap.ends:
            return laps.answer(lap, self.flow.is_on_its_way, self.is_full(laps.nbytes), self._room.of_round())
        with laps.outlets:
            left = self.left(laps.exchanges)
            self.finish(laps.work, laps.outlets, left)
        self._laps = None
        return self.done(laps.work, commit, attempt, laps.outlets, left, laps.records)

    def begin(self, work: TaskWork) -> dict[str, MergedExchange]:
        """Begin to read. Return the records that wait in repartition topics."""
        self.context.commit.begin(work.more_is_waiting)
        limits = self.settings.chunk_records, self.settings.chunk_bytes
        exchanges = self._exchanges(work)
        self.reader = self._new_reader(list(self._inputs(work, exchanges)), *limits, work.entry.clock)
        self.reader.awaited = frozenset(work.awaited)
        self.reader.is_meeting = self.id.sub in self._meetings.subs
        self.reader.hold({topic: clock for topic, (clock, _) in work.bounds.items()}, work.until)
        return exchanges

    def outlets(self, attempt: str) -> Outlets:
        """Return the outlets for results."""
        around, meeting = self._cycle.topics, self._meetings.topics
        outlets = Outlets(self._sinks, self._places, attempt, self.reader, self.context, around, meeting)
        outlets.gathering = self.gathering
        return outlets

    def finish(self, work: TaskWork, outlets: Outlets, left: Left) -> None:
        """Do the work at the end of each commit."""
        self.context.commit.more_is_waiting = work.more_is_waiting or bool(left)
        if work.advances:
            self.flow.advance_time(work.advances, outlets.write)
        self.flow.punctuate(outlets.write)
        if not work.stays_open:
            with _without_garbage_collection(), self._room.sending():
                self.flow.flush(outlets.write)
        outlets.dead_letters(self._take_dead_letters())

    def done(self, work: TaskWork, commit: int, attempt: str, outlets: Outlets, left: Left, records: int) -> TaskDone:
        """Return the task's part of a commit, once all of its results are written."""
        self._note_read()
        delta = None if work.stays_open else self._prepared(commit, attempt)
        self.pending = (commit, attempt)
        offsets, last = dict(work.entry.offsets), dict(work.entry.last)
        for one in self.reader.inputs:
            place = global_place(one.topic, one.partition) if one.goes_first else one.topic
            offsets[place] = one.goes_on_at(offsets.get(place, 0))
            if one.last is not None:
                last[place] = one.last
        return TaskDone(
            task=str(self.id),
            offsets=offsets,
            last=last,
            clock=self.reader.reached(),
            left=left,
            sinks=outlets.sinks,
            exchange=outlets.exchange,
            delta=delta,
            numbers=self.state.numbers(),
            snapshot=self.state.snapshot,
            metrics=labelled(str(self.id), self.context.commit.metrics),
            observed=labelled(str(self.id), self._figures()),
            records=records,
            read=sum(one.taken for one in self.reader.inputs if one.end is not None),
            is_full=work.stays_open and self.is_full(0),
        )

    def _prepared(self, commit: int, attempt: str) -> FileRef | None:
        """Prepare the stores for the commit, and write their changes down."""
        self.state.prepare()
        crash_point("before-delta")
        delta = self._write_delta(commit, attempt)
        crash_point("after-delta")
        return delta

    def _figures(self) -> dict[Metric, int]:
        """Return the metrics of this commit, and of this process's use of the checkpoint's storage so far."""
        requests = {Metric(name): figure for name, figure in self.checkpoint.take_counts().items()}
        return {**self._observed.figures(self.context.commit), **requests}

    def _read_all(self, work: TaskWork, outlets: Outlets) -> int:
        records = nbytes = 0
        self._room.begin(work.most, work.goes_on)
        while not self.is_full(nbytes):
            self.reader.chunk_records, self.reader.chunk_bytes = self._room.records(), self._room.nbytes()
            chunk = self.reader.next_chunk()
            if chunk is None:
                break
            self._room.enter(chunk.records)
            self.work_on(chunk, outlets, None, chunk.records, chunk.nbytes)
            records += chunk.records
            nbytes += chunk.nbytes
        return records

    def work_on(self, chunk: Chunk, outlets: Outlets, lap: int | None, records: int, nbytes: int = 0) -> None:
        """Run a chunk through the steps, or around a cycle up to the end of a lap.

        Args:
            records: how many records it consists of, or how many entered the cycle with it.
            nbytes: how many bytes they have, if that is known.
        """
        began = time.perf_counter_ns()
        with _without_garbage_collection():
            if lap is None:
                self.flow.step(chunk.batches, outlets.write)
            else:
                outlets.write(self.flow.lap(chunk.batches, lap))
        outlets.dead_letters(self._take_dead_letters())
        self._note_chunk(chunk.records, time.perf_counter_ns() - began)
        if not self.flow.is_on_its_way:
            self._room.took(records, nbytes)
            self.between_chunks()

    def is_full(self, nbytes: int) -> bool:
        """Return whether it has taken as much as it may in one commit, given the bytes taken, or wants a commit
        soon.
        """
        return nbytes >= self.settings.commit_max_bytes or self._is_crowded() or self.context.commit.is_asked_for

    def _note_chunk(self, records: int, nanoseconds: int) -> None:
        see = self.context.see
        see(PROCESSED, records, scope="task")
        see("process-latency-sum", nanoseconds, scope="task")
        see("process-latency-recordings", records, scope="task")
        if records:  # a lap may only continue an earlier one's records
            see("process-latency-max", nanoseconds // records, scope="task")

    def _note_read(self) -> None:
        """Count the records read from each topic."""
        for one in self.reader.inputs:
            if one.taken:
                self.context.see("records-consumed-total", one.taken, one.source, one.topic, "topic")
                self.context.see("bytes-consumed-total", one.taken_bytes, one.source, one.topic, "topic")

    def left(self, exchanges: dict[str, MergedExchange]) -> Left:
        """Return the records that are left in the repartition topics."""
        taken = {one.topic: one.taken for one in self.reader.inputs}
        left = {topic: exchange.left(taken[topic]) for topic, exchange in exchanges.items()}
        return {topic: refs for topic, refs in left.items() if refs}

    def rollback(self) -> None:
        """Roll back the transaction's writes. Processors, which may depend on them, are created again."""
        self._give_up_laps()
        self.state.rollback()
        self.flow.restart()
        for forget in self.context.on_rollback:
            forget()

    def _give_up_laps(self) -> None:
        laps, self._laps = self._laps, None
        if laps is not None:
            laps.give_up()

    def abandon(self) -> None:
        """Close everything and leave the files as they are on disk."""
        self._give_up_laps()
        try:
            self.flow.close()
        finally:
            self.state.abandon()

    def close(self) -> None:
        """Close everything; committed state is flushed."""
        self._give_up_laps()
        self.flow.close()
        self.state.close()

    def _exchanges(self, work: TaskWork) -> dict[str, MergedExchange]:
        """Return the records that wait for the task in repartition topics."""
        limits = self.settings.chunk_records, self.settings.chunk_bytes
        found = {}
        for topic, refs in work.exchange.items():
            bound = Bound.of(*work.bounds[topic]) if topic in work.bounds else None
            start = work.entry.offsets.get(topic, 0)
            by_cause = topic in self._meetings.topics
            found[topic] = MergedExchange(self.storage, refs, start, bound, *limits, by_cause)
        return found

    def _is_crowded(self) -> bool:
        """Return whether the stores hold as many uncommitted writes as they may (KIP-892)."""
        return self.state.is_crowded_by_uncommitted() or self._room.is_taken()

    def _inputs(self, work: TaskWork, exchanges: dict[str, MergedExchange]) -> Iterator[Input]:
        for part in self.sub.global_parts:
            for topic in part.topics if part.kind == "source" else ():
                for partition in range(self._partitions[topic]):
                    place = global_place(topic, partition)
                    if place in work.ends:
                        pieces = self._read(work, place, topic, partition)
                        yield self._input(part, topic, pieces, work.ends[place], partition)
        for part in self.sub.parts:
            for topic in part.topics if part.kind == "source" else ():
                if topic in exchanges:
                    yield self._input(part, topic, iter(exchanges[topic]))
                elif topic in work.ends:
                    pieces = self._read(work, topic, topic, self.id.partition)
                    yield self._input(part, topic, pieces, work.ends[topic])
                elif topic in work.bounds or topic in self._cycle.topics:
                    yield self._input(part, topic, iter(()))

    def _read(self, work: TaskWork, place: str, topic: str, partition: int) -> Iterator[Records]:
        """Read a partition from where the last commit ended. The first time, check that it is the same partition."""
        last = work.entry.last.get(place)
        if last is not None and place not in self._known:
            check_last_read(self._log, topic, partition, last, self._application_id)
        self._known.add(place)
        return self._log.read(topic, partition, work.entry.offsets.get(place, 0), work.ends[place])

    def _input(
        self,
        part: Part,
        topic: str,
        pieces: Iterator[Records],
        end: int | None = None,
        of_global_table: int | None = None,
    ) -> Input:
        key, value = part.node.types
        count = self._partitions[topic]
        is_global = of_global_table is not None
        partition = self.id.partition if of_global_table is None else of_global_table
        return Input(
            part.name,
            topic,
            partition,
            count,
            key=key,
            value=value,
            pieces=pieces,
            changes=part.node.carries_changes,
            goes_first=is_global,
            end=end,
            first_cause=self._meetings.first_cause(topic, partition) if self._meetings.topics else 0,
        )

    def _write_delta(self, commit: int, attempt: str) -> FileRef | None:
        changes = self.state.changes()
        if not changes:
            return None
        name = delta_name(str(self.id), commit, attempt)
        with self.gathering(), self.checkpoint.write(name) as file:
            write_delta(file, changes)
        return self.checkpoint.ref(name)

    def _take_dead_letters(self) -> list[DeadLetter]:
        letters, self.context.commit.dead_letters = self.context.commit.dead_letters, []
        return letters


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable Python's cycle collector while a chunk runs.

    It scans all young objects repeatedly while a chunk makes many of them: a loop over pairs takes a quarter of the
    time without it. It runs between chunks.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

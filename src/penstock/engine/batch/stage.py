"""What runs inside a task of Spark: a task of a sub-topology, fed with the rows of one partition.

It commits locally as often as its memory wants. What it put out by then goes on, so that neither its input nor its
results are in memory as a whole. All of it together counts as one commit: what a commit does at its end (punctuations
by the wall clock, caches of tables) it does at the end of its input.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock import temporary
from penstock.arrays import IntArray
from penstock.batch import HEADERS
from penstock.engine.batch.feed import Feed, RowReader
from penstock.engine.batch.program import Program, Range, Stage, chosen_types, types_of
from penstock.engine.batch.rows import ERROR, FIGURES, OUTPUT, STORE, block, blocks, sent
from penstock.engine.batch.stage_log import StageLog
from penstock.engine.exchange import EARLIEST, ExchangeRef, read_exchange
from penstock.engine.layout import TaskId, global_place
from penstock.engine.manifest import TaskEntry
from penstock.engine.meetings import in_order
from penstock.engine.outlets import Outlets
from penstock.engine.reader import Reader
from penstock.engine.spark.shipping import loads
from penstock.engine.task import Left, Task
from penstock.engine.work import TaskDone, TaskWork
from penstock.errors import ConfigError, ProcessingError, SerdeError, TopologyError
from penstock.log.consumed import decoded
from penstock.log.open import open_log
from penstock.log.records import Records
from penstock.metrics import add_up
from penstock.query.commits import shapes_of
from penstock.query.stores import view_of
from penstock.query.versions import Live
from penstock.serdes.arrow_columns import TIME
from penstock.state.kinds.key_value import KeyValueStore
from penstock.storage import FileRef, LocalStorage
from penstock.syncing import passing

_TASK_BITS = 20
_FOREVER = 2**62
"""Up to which offset topics are read that come as rows."""

_OF_THE_USER = (ConfigError, ProcessingError, SerdeError, TopologyError)
"""Errors that Spark would not cure by running the task again."""

COLUMNS = (("timestamp", TIME), ("partition", pa.int32()), ("headers", HEADERS), ("task", pa.string()), ("number", pa.int64()))
"""The columns of an output topic behind key and value."""


def serve(packed: bytes, stage: Stage, batches: Iterator[Any], partition: int) -> Iterator[Any]:
    """Run one task over its rows; what it gives, as rows of ``RESULT``."""
    with ExitStack() as stack:
        folder = temporary.folder("batch")
        stack.callback(temporary.remove, folder)
        try:
            yield from TaskRun(loads(packed), stage, partition, folder, stack).over(batches)
        except _OF_THE_USER as error:
            yield block(ERROR, type(error).__name__, f"task {stage.sub}_{partition}: {error}".encode())


class BatchTask(Task):
    """A task of which nobody reads a checkpoint, and whose commits are all one but for its memory."""

    def finish(self, work: TaskWork, outlets: Outlets, left: Left) -> None:
        if self._is_at_end or self._shows_commits:
            super().finish(work, outlets, left)
        else:
            outlets.dead_letters(self._take_dead_letters())

    @property
    def _is_at_end(self) -> bool:
        if isinstance(self.reader, RowReader):
            return self.reader.is_at_end
        return not any(one.waiting or one.may_have_more for one in self.reader.inputs)

    @property
    def _shows_commits(self) -> bool:
        """Whether joins find what tables had at the last commit, as Kafka's caches have it."""
        return any(isinstance(one, KeyValueStore) and one.shows_committed for one in self.state.stores.values())

    def _write_delta(self, commit: int, attempt: str) -> FileRef | None:
        return None


class TaskRun:
    """One run of a task."""

    def __init__(self, program: Program, stage: Stage, partition: int, folder: Path, stack: ExitStack):
        self._stage, self._program = stage, program
        self._id = TaskId(stage.sub, partition)
        real = None
        if stage.ranges:
            real = open_log(program.place)
            stack.callback(real.close)
        self._log = StageLog(program.topics, real, stage.ranges)
        (folder / "files").mkdir()
        self._storage, self._folder = LocalStorage(folder / "files"), folder / "db"
        self._types, self._chosen = types_of(program.topology), chosen_types(program.topology)
        self._numbers: dict[tuple[str, int], int] = {}
        """How many records were put out so far, by topic and partition."""
        self._last: dict[tuple[str, int], tuple[int, int]] = {}
        """The clock and the cause of the last record that was sent, by topic and partition."""
        self._metrics: dict[str, int] = {}
        self._topics: dict[str, None] = {}
        self._stack = stack

    def over(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Run over rows, or over what there is in the log."""
        settings = self._program.settings
        feed = Feed(batches, self._stage.inputs, settings.chunk_records, settings.chunk_bytes)
        ranges = dict(self._ranges())
        if feed.is_done and not any(one.end > one.start for one in ranges.values()):
            return
        task = self._task(feed)
        entry = TaskEntry(offsets={place: one.start for place, one in ranges.items()})
        ends = {one.topic: _FOREVER for one in self._stage.inputs if not one.is_global}
        ends |= {global_place(one.topic, 0): _FOREVER for one in self._stage.inputs if one.is_global}
        ends |= {place: one.end for place, one in ranges.items()}
        for commit in itertools.count():
            done = task.run(TaskWork(str(self._id), entry, ends), commit, f"batch-{commit}")
            yield from self._results(done)
            task.state.commit(commit)
            offsets = {place: done.offsets[place] for place in ranges}
            if feed.is_done and all(offsets[place] >= one.end for place, one in ranges.items()):
                break
            entry = TaskEntry(offsets=offsets, clock=done.clock, numbers=done.numbers)
        yield from self._stores(task)
        told = {"metrics": self._metrics, "topics": list(self._topics)}
        yield block(FIGURES, str(self._id), json.dumps(told).encode())

    def _task(self, feed: Feed) -> BatchTask:
        program = self._program
        reader: type[Reader] = type("StageReader", (RowReader,), {"feed": feed}) if self._stage.inputs else Reader
        surroundings = program.topology, program.layout, program.settings, self._log, self._storage
        task = BatchTask(self._id, *surroundings, self._folder, reader)
        self._stack.callback(task.abandon)
        task.gathering = passing
        task.state.open(program.layout.application_id, -1, -1, lambda since: [])
        return task

    def _ranges(self) -> Iterator[tuple[str, Range]]:
        """What is read of the log, by the place where its offset is kept."""
        sub = self._program.topology.sub_topologies[self._stage.sub]
        for topic, ranges in self._stage.ranges.items():
            if topic in sub.source_topics and self._id.partition < len(ranges):
                yield topic, ranges[self._id.partition]
            if topic in sub.global_topics:
                yield from ((global_place(topic, p), one) for p, one in enumerate(ranges))

    # --- what comes out ------------------------------------------------------------------------------------------

    def _results(self, done: TaskDone) -> Iterator[Any]:
        add_up(self._metrics, done.metrics)
        for topic, partition, records in self._log.take(done.sinks):
            self._topics[topic] = None
            yield from self._output(topic, partition, records)
            if topic in self._stage.sent:
                yield self._sent(topic, partition, replace(records, clock=records.timestamp))
        for topic, refs in done.exchange.items():
            for ref in refs:
                yield from (self._sent(topic, ref.partition, records) for records in read_exchange(self._storage, [ref]))
            self._forget(refs)

    def _forget(self, refs: Iterable[ExchangeRef]) -> None:
        for name in {ref.file.name for ref in refs}:
            self._storage.delete(name)

    def _output(self, topic: str, partition: int, records: Records) -> Iterator[Any]:
        """Records of an output topic."""
        key, value = self._types.get(topic, self._chosen)
        count = len(records)
        where = f"topic {topic!r}, partition {partition}"
        columns = {
            "key": decoded(key, records.key, records, where),
            "value": decoded(value, records.value, records, where),
            "timestamp": pa.array(records.timestamp).cast(TIME),
            "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
            "headers": pa.nulls(count, HEADERS) if records.headers is None else records.headers,
            "task": pa.repeat(str(self._id), count),
            "number": pa.array(self._numbered("", topic, partition, count)),
        }
        yield from blocks(OUTPUT, topic, pa.record_batch(columns))

    def _sent(self, topic: str, partition: int, records: Records) -> Any:
        """Records for another stage. Their clocks never go back: what is late goes behind what was sent before it."""
        place, (clock, cause) = (topic, partition), self._last.get((topic, partition), (EARLIEST, EARLIEST))
        assert records.clock is not None
        clocks = np.maximum.accumulate(np.maximum(records.clock, clock))
        causes = None
        if records.cause is not None:
            causes = in_order(np.append(clock, clocks), np.append(cause, records.cause))[1:]
        self._last[place] = int(clocks[-1]), cause if causes is None else int(causes[-1])
        sender = (self._id.sub << _TASK_BITS) + self._id.partition
        numbers = self._numbered("sent", topic, partition, len(records))
        return sent(self._stage.sent[topic], partition, records, clocks, causes, sender, numbers)

    def _numbered(self, kind: str, topic: str, partition: int, count: int) -> IntArray:
        place = f"{kind} {topic}", partition
        first = self._numbers.get(place, 0)
        self._numbers[place] = first + count
        return np.arange(first, first + count)

    def _stores(self, task: Task) -> Iterator[Any]:
        """The rows of the stores that are asked for."""
        shapes = shapes_of(self._program.topology)
        for name in self._stage.stores:
            store = task.state.stores.get(name)  # a step may look into one that another task keeps
            if store is not None and not (shapes[name].format.is_everywhere and self._id.partition):
                for batch in view_of(Live({str(self._id): store}), shapes[name]).to_arrow():
                    yield from blocks(STORE, name, batch)

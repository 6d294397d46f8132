"""The code inside a Spark task: a task of a sub-topology, fed with the rows of one partition.

It commits locally as often as its memory requires, and passes its output on each time, so that neither its input nor
its results are in memory as a whole. All local commits together form one commit: the work at a commit's end
(punctuations by the wall clock, caches of tables) is done at the end of the input.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from penstock.engine.batch.cycle import CycleRun
from penstock.engine.batch.feed import Feed, RowReader
from penstock.engine.batch.outbox import Outbox
from penstock.engine.batch.packed import merged
from penstock.engine.batch.program import CyclicStage, Program, Range, Stage
from penstock.engine.batch.rows import ERROR, block
from penstock.engine.batch.stage_log import StageLog, TopicsLog
from penstock.engine.batch.task import BatchTask
from penstock.engine.shared.garbage import set_apart_once
from penstock.engine.shared.layout import TaskId, global_place
from penstock.engine.shared.manifest import TaskEntry
from penstock.engine.shared.work import TaskWork
from penstock.engine.shipping.shipping import loads
from penstock.engine.task.reader import Reader
from penstock.errors import ConfigError, ProcessingError, SerdeError, TopologyError
from penstock.log.open import open_log
from penstock.storage.base import LocalStorage
from penstock.storage.opening import open_storage

_FOREVER = 2**62
"""The end offset of topics that come as rows."""

_OF_THE_USER = (ConfigError, ProcessingError, SerdeError, TopologyError)
"""Errors that would occur again if Spark repeated the task."""


def serve(packed: bytes, stage: Stage | CyclicStage, batches: Iterator[Any], partition: int) -> Iterator[Any]:
    """Run one task over its rows, or all tasks of a cycle. Yield their output, as rows of ``RESULT``."""
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(partition))
        try:
            yield from run(loads(packed), stage, batches, partition, Path(folder), stack)
        except _OF_THE_USER as error:
            yield block(ERROR, type(error).__name__, f"batch, sub-topology {stage.name}: {error}".encode())
    _return_memory()


def _return_memory() -> None:
    """Return free memory to the system: Spark's worker stays, and its next task reads blocks of many megabytes."""
    set_apart_once()
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):  # only glibc keeps much
        ctypes.CDLL(None).malloc_trim(0)


def _folder(partition: int) -> Any:
    """Return a folder for files of one run, on the disks that Spark spills to. Spark removes a killed process's
    files.
    """
    places = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")
    return tempfile.TemporaryDirectory(
        prefix="penstock-batch-", dir=places[partition % len(places)], ignore_cleanup_errors=True
    )


def run(
    program: Program,
    stage: Stage | CyclicStage,
    batches: Iterator[Any],
    partition: int,
    folder: Path,
    stack: ExitStack,
) -> Iterator[Any]:
    """Run one task, or a cycle, with a folder for files and a stack for resources."""
    if isinstance(stage, CyclicStage):
        return CycleRun(program, stage, folder, stack).over(batches)
    return TaskRun(program, stage, partition, folder, stack).over(batches)


def log_of(program: Program, stage: Stage, stack: ExitStack) -> StageLog:
    """Return the log as a task of a stage sees it, which the stack closes."""
    continuation = program.continuation
    writes = continuation is not None and continuation.to_topics
    if not stage.ranges and not writes:
        return StageLog(program.topics)
    real = open_log(program.place)
    stack.callback(real.close)
    if continuation is None or not writes:
        return StageLog(program.topics, real, stage.ranges)
    outbox = open_storage(continuation.storage)
    return TopicsLog(real.with_outbox(outbox, program.layout.application_id), stage.ranges)


class TaskRun:
    """One run of a task."""

    def __init__(self, program: Program, stage: Stage, partition: int, folder: Path, stack: ExitStack):
        self._stage, self._program, self._stack = stage, program, stack
        self._id = TaskId(stage.sub, partition)
        self._log = log_of(program, stage, stack)
        (folder / "files").mkdir()
        self._storage, self._folder = LocalStorage(folder / "files"), folder / "db"

    def over(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Run over rows, or over the records in the log."""
        settings = self._program.settings
        ranges = dict(self._ranges())
        began = entry = self._entry(ranges)
        rows = merged(batches) if self._stage.is_packed else batches
        feed = Feed(rows, self._stage.inputs, settings.chunk_records, settings.chunk_bytes, entry.offsets)
        if feed.is_done and not any(one.end > one.start for one in ranges.values()):
            return
        task, outbox = self._task(feed), Outbox(self._program, self._stage, self._id, self._log, self._storage)
        ends = {one.topic: _FOREVER for one in self._stage.inputs if not one.is_global}
        ends |= {global_place(one.topic, 0): _FOREVER for one in self._stage.inputs if one.is_global}
        ends |= {place: one.end for place, one in ranges.items()}
        for turn in itertools.count():
            task.keeps_changes = self._program.continuation is not None and not turn
            done = task.run(TaskWork(str(self._id), entry, ends), *self._program.turn(turn))
            yield from outbox.results(done)
            task.state.commit(self._program.turn(turn)[0])
            if task.has_ended:
                break
            offsets = {place: done.offsets[place] for place in ranges}
            entry = TaskEntry(offsets=offsets, clock=done.clock, numbers=done.numbers)
        yield from outbox.stores(task)
        yield outbox.figures()
        if self._program.continuation is not None:
            read = {place: done.offsets[place] for place in ranges}
            yield outbox.ended(task, done, began.offsets | feed.offsets | read, turn + 1)

    def _task(self, feed: Feed) -> BatchTask:
        reader: type[Reader] = type("StageReader", (RowReader,), {"feed": feed}) if self._stage.inputs else Reader
        return BatchTask.opened(self._program, self._id, self._log, self._storage, self._folder, self._stack, reader)

    def _entry(self, ranges: Mapping[str, Range]) -> TaskEntry:
        """Return the position of the task."""
        starts = {place: one.start for place, one in ranges.items()}
        if self._program.continuation is None:
            return TaskEntry(offsets=starts)
        entry = self._program.continuation.entry(self._id)
        return msgspec.structs.replace(entry, offsets=entry.offsets | starts)

    def _ranges(self) -> Iterator[tuple[str, Range]]:
        """Yield the ranges to read from the log, by the place where their offset is kept."""
        sub = self._program.topology.sub_topologies[self._stage.sub]
        continuation, places = self._program.continuation, list[tuple[str, Range]]()
        for topic, ranges in self._stage.ranges.items():
            if topic in sub.source_topics and self._id.partition < len(ranges):
                places.append((topic, ranges[self._id.partition]))
            if topic in sub.global_topics:
                places += [(global_place(topic, p), one) for p, one in enumerate(ranges)]
        offsets = {} if continuation is None else continuation.entry(self._id).offsets
        for place, one in places:
            yield place, replace(one, start=offsets.get(place, one.start))

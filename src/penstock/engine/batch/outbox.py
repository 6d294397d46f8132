"""The output of a batch's task, as rows for Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.columns.batch import HEADERS
from penstock.engine.batch.packed import BLOCK_BYTES, BLOCK_ROWS, packed
from penstock.engine.batch.program import Program, Stage, TopicTypes
from penstock.engine.batch.rows import ENDED, FIGURES, OUTPUT, STORE, block, blocks
from penstock.engine.batch.stage_log import StageLog
from penstock.engine.batch.task import BatchTask
from penstock.engine.shared.exchange import EARLIEST, ExchangeRef, read_exchange
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.meetings import in_order
from penstock.engine.shared.work import TaskDone
from penstock.engine.spark.frame_types import in_spark
from penstock.engine.task.task import Task
from penstock.figures.metrics import add_up
from penstock.log.consumed import decoded
from penstock.log.contract.writer import Segment
from penstock.log.records import Records, gathered
from penstock.query.commits import shapes_of
from penstock.query.stores import view_of
from penstock.query.versions import Live
from penstock.serdes.arrow_columns import TIME
from penstock.storage.base import Storage

_TASK_BITS = 20

COLUMNS = (
    ("timestamp", TIME),
    ("partition", pa.int32()),
    ("headers", HEADERS),
    ("task", pa.string()),
    ("number", pa.int64()),
)
"""The columns of an output topic after key and value."""


class Outbox:
    """The output of one task, commit by commit.

    Args:
        log: where it writes its output topics.
        storage: where it writes the records for other tasks.
    """

    def __init__(self, program: Program, stage: Stage, id_: TaskId, log: StageLog, storage: Storage):
        self._program, self._stage, self._id, self._log, self._storage = program, stage, id_, log, storage
        self._types = TopicTypes(program.topology, program.settings.dead_letters)
        self._numbers: dict[tuple[str, int], int] = {}
        """How many records were output so far, by topic and partition."""
        self._last: dict[tuple[str, int], tuple[int, int]] = {}
        """The clock and the cause of the last record that was sent, by topic and partition."""
        self._metrics: dict[str, int] = {}
        self._observed: dict[str, int] = {}
        self._records = self._read = 0
        self._to_topics = program.continuation is not None and program.continuation.to_topics
        self._sinks: dict[str, list[Segment]] = {}
        self._topics: dict[str, None] = {}

    def results(self, done: TaskDone, around: frozenset[str] = frozenset()) -> Iterator[Any]:
        """Yield the results of a commit; its files are not needed afterwards.

        Args:
            around: topics that lead to tasks of the same process.
        """
        self._note(done)
        for topic, partition, records in () if self._to_topics else self._log.take(done.sinks):
            self._topics[topic] = None
            yield from self._output(topic, partition, records)
            if topic in self._stage.sent:
                yield from self._sent(topic, partition, records.with_columns(clock=records.timestamp))
        for topic in done.exchange.keys() - around:
            refs = done.exchange[topic]
            for partition in sorted({ref.partition for ref in refs}):
                pieces = read_exchange(self._storage, [ref for ref in refs if ref.partition == partition])
                for records in gathered(pieces, BLOCK_ROWS, BLOCK_BYTES):
                    yield from self._sent(topic, partition, records)
            self._forget(refs)

    def _note(self, done: TaskDone) -> None:
        add_up(self._metrics, done.metrics)
        add_up(self._observed, done.observed)
        self._records, self._read = self._records + done.records, self._read + done.read
        if self._to_topics:
            for topic, segments in done.sinks.items():
                self._sinks.setdefault(topic, []).extend(segments)

    def _every(self, last: TaskDone, offsets: Mapping[str, int]) -> TaskDone:
        """Return the combined result of all commits of the task.

        Args:
            last: the result of the last one.
            offsets: the offsets up to which topics of the log are read.
        """
        return msgspec.structs.replace(
            last,
            offsets=dict(offsets),
            left={},
            exchange={},
            sinks=self._sinks,
            metrics=self._metrics,
            observed=self._observed,
            records=self._records,
            read=self._read,
        )

    def _forget(self, refs: Iterable[ExchangeRef]) -> None:
        for name in {ref.file.name for ref in refs}:
            self._storage.delete(name)

    def _output(self, topic: str, partition: int, records: Records) -> Iterator[Any]:
        """Yield records of an output topic."""
        key, value = map(in_spark, self._types.of(topic))
        count = len(records)
        where, first = f"topic {topic!r}, partition {partition}", self._first("", topic, partition, count)
        columns = {
            "key": decoded(key, records.key, records, where),
            "value": decoded(value, records.value, records, where),
            "timestamp": pa.array(records.timestamp).cast(TIME),
            "partition": _constant(pa.scalar(partition, pa.int32()), count),
            "headers": pa.nulls(count) if records.headers is None else records.headers,
            "task": _constant(pa.scalar(str(self._id)), count),
            "number": pa.array(np.arange(first, first + count)),
        }
        yield from blocks(OUTPUT, topic, pa.record_batch(columns))

    def _sent(self, topic: str, partition: int, records: Records) -> Iterator[Any]:
        """Yield records for another stage. Their clocks never go back: a late record takes the clock of its
        predecessor.
        """
        place, (clock, cause) = (topic, partition), self._last.get((topic, partition), (EARLIEST, EARLIEST))
        assert records.clock is not None
        clocks = np.maximum.accumulate(np.maximum(records.clock, clock))
        causes = None
        if records.cause is not None:
            causes = in_order(np.append(clock, clocks), np.append(cause, records.cause))[1:]
        self._last[place] = int(clocks[-1]), cause if causes is None else int(causes[-1])
        sender = (self._id.sub << _TASK_BITS) + self._id.partition
        first = self._first("sent", topic, partition, len(records))
        yield from packed(self._stage.sent[topic], partition, records, clocks, causes, sender, first)

    def _first(self, kind: str, topic: str, partition: int, count: int) -> int:
        """Return the number of the first of so many further records."""
        place = f"{kind} {topic}", partition
        first = self._numbers.get(place, 0)
        self._numbers[place] = first + count
        return first

    def stores(self, task: Task) -> Iterator[Any]:
        """Yield the rows of the requested stores."""
        shapes = shapes_of(self._program.topology)
        for name in self._stage.stores:
            store = task.state.stores.get(name)  # a step may look up a store that another task keeps
            if store is not None and not (shapes[name].format.is_everywhere and self._id.partition):
                for batch in view_of(Live({str(self._id): store}), shapes[name]).to_arrow():
                    yield from blocks(STORE, name, batch)

    def ended(self, task: BatchTask, last: TaskDone, offsets: Mapping[str, int], local_commits: int) -> Any:
        """Return the task's part of the continued application's commit."""
        done = task.ended(self._every(last, offsets), local_commits)
        return block(ENDED, str(self._id), msgspec.json.encode(done))

    def figures(self) -> Any:
        """Return the metrics, and the topics that were written."""
        told = {"metrics": self._metrics, "topics": list(self._topics)}
        return block(FIGURES, str(self._id), json.dumps(told).encode())


def _constant(value: Any, count: int) -> Any:
    """Return a column of one value, of which a block keeps one byte a row."""
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), pa.array([value], value.type))

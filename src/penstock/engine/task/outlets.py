"""Writes the results of one attempt of a task into files of output topics and of repartition topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np
import pyarrow as pa

from penstock.arrays import binary, partitions
from penstock.columns.batch import HEADERS, Batch, Changes, header_list, merge
from penstock.columns.column import BytesColumn
from penstock.engine.shared.exchange import ExchangeRef, ExchangeWriter
from penstock.engine.shared.layout import TaskId
from penstock.engine.task.reader import Reader
from penstock.engine.task.steps import Outputs
from penstock.handlers import PRODUCTION
from penstock.log.base import Log
from penstock.log.contract.writer import Segment, SegmentWriter
from penstock.log.records import Records
from penstock.ops.core.context import Context
from penstock.ops.core.notes import DeadLetter
from penstock.storage.base import Storage
from penstock.storage.syncing import passing


@dataclass(frozen=True)
class Places:
    """Where topics are, and which task writes."""

    log: Log
    storage: Storage
    partitions: Mapping[str, int]
    internal: frozenset[str]
    task: TaskId
    dead_letter_topic: str
    lines: Mapping[str, str]
    """For each sink, the user's file and line."""


class Outlets:
    """The result files of one attempt of a task. Leaving the context finishes them.

    Args:
        sinks: the topic of each sink.
        places: where the topics are.
        attempt: part of the names of the files.
        reader: knows the input records that results come from.
        context: counts the records written.
        cycle: the repartition topics that lead around a cycle; each lap finishes a file of them.
        meeting: the repartition topics whose records carry causes.
    """

    def __init__(
        self,
        sinks: Mapping[str, str],
        places: Places,
        attempt: str,
        reader: Reader,
        context: Context,
        cycle: frozenset[str],
        meeting: frozenset[str],
    ):
        self._reader = reader
        self._meeting = meeting
        self._cycle = cycle
        self._laps = 0
        self._context = context
        self._sinks = sinks
        self._places = places
        self._name = f"{attempt}-{places.task}"
        self._stack = ExitStack()
        self.gathering: Callable[[], AbstractContextManager[None]] = nullcontext
        """The finished files, if a caller collects them to make them durable."""
        self._segments: dict[str, SegmentWriter] = {}
        self._exchanges: dict[str, ExchangeWriter] = {}
        self.sinks: dict[str, list[Segment]] = {}
        self.exchange: dict[str, list[ExchangeRef]] = {}

    def __enter__(self) -> Outlets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.gathering():
            for topic in self._cycle.intersection(self._exchanges):
                self._stack.push(self._exchanges[topic])
            self._stack.__exit__(kind, error, trace)
        if kind is None:
            self.sinks = {topic: writer.segments() for topic, writer in self._segments.items()}
            self.exchange = {topic: writer.refs() for topic, writer in self._exchanges.items()}

    def end_lap(self) -> dict[str, list[ExchangeRef]]:
        """Return the records written into the cycle's topics since the last lap.

        They are not needed after the commit, so their files need not be durable. Those written after the last lap must
        be.
        """
        found = {}
        for topic in self._cycle.intersection(self._exchanges):
            writer = self._exchanges.pop(topic)
            with passing():
                writer.__exit__(None, None, None)
            found[topic] = writer.refs()
        self._laps += 1
        return found

    def write(self, outputs: Outputs) -> None:
        """Write the records that reached the sinks. Records of several sinks with one topic interleave in processing
        order.
        """
        by_topic: dict[str, list[Batch]] = {}
        for name, batches in outputs.items():
            for batch in batches:
                for topic, part in self._by_topic(name, batch):
                    taken = self._taken(name, topic, part)
                    if len(taken):
                        self._note(name, topic, taken)
                        by_topic.setdefault(topic, []).append(taken)
        for topic, batches in by_topic.items():
            batch = _bytes_only(batches[0] if len(batches) == 1 else merge(batches))
            for partition, part in self._route(batch, self._places.partitions[topic]):
                if topic in self._places.internal:
                    self._write_exchange(topic, partition, part)
                else:
                    columns = part.key.encoded(), part.value.encoded(), part.timestamp, part.headers
                    self._writer(topic).write(partition, *columns, placed=part.to_partition is None)

    def _taken(self, sink: str, topic: str, batch: Batch) -> Batch:
        """Return the records that their topic accepts; the others have failed."""
        if topic in self._places.internal:
            return batch
        records = Records(-1, batch.key.encoded(), batch.value.encoded(), batch.timestamp, batch.headers)
        refused = self._places.log.refused(topic, records)
        for row, error in refused.items():
            position = int(batch.position[row])
            way_out = f"{error.way_out}; the step is the to() at {self._places.lines[sink]}"
            self._context.failed(sink, position, error, way_out=way_out, kind=PRODUCTION)
        return batch.take(np.setdiff1d(np.arange(len(batch)), list(refused))) if refused else batch

    def _note(self, sink: str, topic: str, batch: Batch) -> None:
        nbytes = batch.key.encoded().nbytes + batch.value.encoded().nbytes + batch.timestamp.nbytes
        self._context.see("records-produced-total", len(batch), sink, topic, "topic")
        self._context.see("bytes-produced-total", nbytes, sink, topic, "topic")
        self._context.see_latency(sink, batch.timestamp)

    def _by_topic(self, sink: str, batch: Batch) -> Iterator[tuple[str, Batch]]:
        """Yield the topics that a sink's records go to, with the records of each."""
        if batch.to_topic is None:
            yield self._sinks[sink], batch
            return
        for topic in dict.fromkeys(batch.to_topic.tolist()):
            yield topic, replace(batch.keep(batch.to_topic == topic), to_topic=None)

    def _route(self, batch: Batch, count: int) -> Iterator[tuple[int, Batch]]:
        """Yield the partitions of a topic with so many, with the records of each."""
        if count == 1:
            yield 0, batch
        elif batch.to_partition is not None:
            usual = partitions(batch.key.routing(), count, self._places.task.partition)
            placed = np.where(batch.to_partition < 0, usual, batch.to_partition)
            for partition in np.flatnonzero(np.bincount(placed, minlength=count)).tolist():
                yield partition, batch.keep(placed == partition)
        elif batch.placed is not None and batch.placed.partitions == count:
            yield batch.placed.partition, batch
        else:
            placed = partitions(batch.key.routing(), count, self._places.task.partition)
            for partition in np.flatnonzero(np.bincount(placed, minlength=count)).tolist():
                yield partition, batch.keep(placed == partition)

    def _write_exchange(self, topic: str, partition: int, batch: Batch) -> None:
        writer = self._exchanges.get(topic)
        if writer is None:
            task, name = str(self._places.task), self._name
            if topic in self._cycle:
                name = f"{name}-{self._laps}"
            writer = ExchangeWriter(self._places.storage, f"exchange/{name}-{topic}.arrow", task)
            self._exchanges[topic] = writer if topic in self._cycle else self._stack.enter_context(writer)
        old = batch.old if isinstance(batch, Changes) else None
        reader, positions = self._reader, batch.position
        clocks = reader.roots(positions) if topic in self._cycle else reader.clocks(positions)
        writer.write(partition, batch, clocks, old, reader.causes(positions) if topic in self._meeting else None)

    def _writer(self, topic: str) -> SegmentWriter:
        writer = self._segments.get(topic)
        if writer is None:
            writer = self._stack.enter_context(self._places.log.writer(topic, self._name))
            self._segments[topic] = writer
        return writer

    def dead_letters(self, letters: list[DeadLetter]) -> None:
        """Write failed records into the dead letter topic unchanged, with the reason in their headers."""
        if not letters:
            return
        topic = self._places.dead_letter_topic
        key = binary([letter.origin.key for letter in letters])
        value = binary([letter.origin.value for letter in letters])
        timestamp = np.array([letter.origin.timestamp for letter in letters], np.int64)
        headers = pa.array([header_list(letter.headers) for letter in letters], HEADERS)
        partition = self._places.task.partition % self._places.partitions[topic]
        self._writer(topic).write(partition, key, value, timestamp, headers)


def _bytes_only(batch: Batch) -> Batch:
    """Return the batch without the Python values of its columns, which are no longer needed."""
    key, value = (
        BytesColumn(batch.key.encoded(), batch.key.serde),
        BytesColumn(batch.value.encoded(), batch.value.serde),
    )
    batch = replace(batch, key=key, value=value)
    if isinstance(batch, Changes) and batch.old is not None:
        batch = replace(batch, old=BytesColumn(batch.old.encoded(), batch.old.serde))
    return batch

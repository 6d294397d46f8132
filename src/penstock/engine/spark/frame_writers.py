"""Writes DataFrames into topics, one batch or micro-batch at a time.

Tasks write invisible files; the driver makes all of it visible with one append. In a folder the tasks' files are
already in place. For Kafka they travel with the tasks' results, and the driver sends them in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from penstock.engine.spark.checkpoints import producer_of, query_of_this_task
from penstock.engine.spark.log_option import Place
from penstock.log.base import TopicInfo
from penstock.log.cluster import Kafka
from penstock.log.open import open_log
from penstock.log.produce import existing_or_new, write_batch
from penstock.log.tables import Chosen
from penstock.values.strange_times import SAY_UNIT, tell_of_strange_times

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before Spark 4.1 a stream's rows come one by one
    DataSourceStreamArrowWriter = DataSourceStreamWriter

_ROWS = 4096
"""How many rows that come one by one are made a batch."""


@dataclass(frozen=True)
class Target:
    """The topic to write."""

    log: Place
    new: TopicInfo
    """The topic to create, if it does not exist."""
    chosen: Chosen
    schema: Any
    """The columns as Arrow has them, with times in UTC."""
    was_there: bool
    """Whether the topic existed before."""

    def write(self, batches: Iterator[Any], query: str = "") -> Written:
        """Write record batches into segments that are not visible yet."""
        with closing(open_log(self.log)) as log:
            encoded = (self.chosen.encode(batch.cast(self.schema)) for batch in batches)
            first = list(islice(encoded, 1))  # faulty records mostly fail here, before the topic is made
            if not first:
                return Written(None, query)
            tell_of_strange_times(self.new.name, first[0].timestamp, SAY_UNIT)
            info = existing_or_new(log, self.new)
            turn = 0
            with log.writer(info.name, f"spark-{os.urandom(8).hex()}") as writer:
                for records in chain(first, encoded):
                    turn += write_batch(writer, info, records, turn)
            return Written(log.hand_over(writer.segments()), query)

    def append(self, messages: list[Any], batch: int = -1) -> None:
        """Make the output of all tasks visible, at once. A query's batch is appended once, however often Spark
        repeats it.
        """
        written = [message for message in messages if message is not None and message.handed is not None]
        with closing(open_log(self.log)) as log:
            segments = [segment for one in written for segment in log.take_over(one.handed)]
            if segments:
                producer = producer_of(written[0].query) if written[0].query else ""
                log.append(self.new.name, segments, producer, batch)

    def forget(self) -> None:
        """Delete the topic that was created for a failed write. A topic of Kafka stays: others may use it by now."""
        if self.was_there or isinstance(self.log, Kafka):
            return
        with closing(open_log(self.log)) as log:
            if log.exists(self.new.name) and not any(log.end_offsets(self.new.name)):
                log.delete_topic(self.new.name)


@dataclass
class Written(WriterCommitMessage):
    """The output of one task."""

    handed: bytes | None
    """The argument for ``Writer.take_over``; None for nothing."""
    query: str
    """The id of the streaming query; empty for a batch."""


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, target: Target):
        self._target = target

    def write(self, iterator: Iterator[Any]) -> Written:
        return self._target.write(iterator)

    def commit(self, messages: list[Any]) -> None:
        self._target.append(messages)

    def abort(self, messages: list[Any]) -> None:
        self._target.forget()


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, target: Target):
        self._target = target

    def write(self, iterator: Iterator[Any]) -> Written:
        comes_in_batches = DataSourceStreamArrowWriter is not DataSourceStreamWriter
        batches = iterator if comes_in_batches else in_batches(iterator, self._target.schema)
        return self._target.write(batches, query_of_this_task())

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        self._target.append(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        self._target.forget()


def in_batches(rows: Iterator[Any], schema: Any) -> Iterator[Any]:
    """Spark's rows as record batches."""
    while some := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist([row.asDict(recursive=True) for row in some], schema)

"""Topics of a file log as Spark DataFrames: ``format("penstock")``, for reading and writing, batch and streaming.

The columns are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)

from penstock.arrays import partitions
from penstock.engine.spark.source import Offsets, OffsetsReader
from penstock.errors import ConfigError
from penstock.log.base import Segment, TopicInfo
from penstock.log.file.log import FileLog

FORMAT = "penstock"
_SCHEMA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"


class PenstockSource(DataSource):
    """Options: ``topic``, ``log`` (a folder, default ``.penstock/log``); for writing ``partitions`` of a new topic."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return _BatchReader(*self._place())

    def streamReader(self, schema: Any) -> OffsetsReader:  # noqa: N802
        log, topic = self._place()
        return _StreamReader(log, [topic])

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")')
        return _BatchWriter(self._target(schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return _StreamWriter(self._target(schema))

    def _place(self) -> tuple[str, str]:
        if "topic" not in self.options:
            raise ConfigError('format("penstock") needs .option("topic", name)')
        return os.path.abspath(self.options.get("log", ".penstock/log")), self.options["topic"]

    def _target(self, schema: Any) -> _Target:
        log, topic = self._place()
        names = [field.name for field in schema.fields]
        unknown = set(names) - {"key", "value", "timestamp"}
        if "value" not in names or unknown:
            raise ConfigError(
                f"a topic is written from the columns key (optional), value and timestamp (optional); got {names}. "
                "penstock.write(df, topic, key=...) brings any DataFrame into that form"
            )
        producer = self.options.get("producer", f"spark:{os.urandom(6).hex()}")
        return _Target(log, topic, int(self.options.get("partitions", 1)), producer)


class _Range(InputPartition):
    """Some records of one partition."""

    def __init__(self, topic: str, partition: int, start: int, end: int):
        super().__init__((topic, partition, start, end))


class _BatchReader(DataSourceReader):
    def __init__(self, log: str, topic: str):
        self._log = log
        self._topic = topic

    def partitions(self) -> list[InputPartition]:
        log = FileLog(self._log)
        ends = log.end_offsets(self._topic)
        starts = log.start_offsets(self._topic)
        return [_Range(self._topic, p, start, end) for p, (start, end) in enumerate(zip(starts, ends, strict=True))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._log, *partition.value)


class _StreamReader(OffsetsReader):
    """The same offsets as the engine's own source, with the records behind them."""

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        return [_Range(*one.value) for one in super().partitions(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self.log_url, *partition.value)


def read_range(log: str, topic: str, partition: int, start: int, end: int) -> Iterator[Any]:
    """Records of a partition as Arrow record batches of the source's schema."""
    for records in FileLog(log).read(topic, partition, start, end):
        count = len(records)
        yield pa.record_batch(
            {
                "key": records.key,
                "value": records.value,
                "topic": pa.array([topic] * count, pa.string()),
                "partition": pa.array(np.full(count, partition, np.int32)),
                "offset": pa.array(np.arange(records.offset, records.offset + count)),
                "timestamp": pa.array(records.timestamp * 1000, pa.timestamp("us", tz="UTC")),
            }
        )


@dataclass(frozen=True)
class _Target:
    """The topic that is written."""

    log: str
    topic: str
    partitions: int
    producer: str

    def write(self, batches: Iterator[Any]) -> _Written:
        """Write record batches into segments that nobody sees yet."""
        log = FileLog(self.log)
        if not log.exists(self.topic):
            self._create(log)
        count = log.topic(self.topic).partitions
        with log.writer(self.topic, f"spark-{os.urandom(8).hex()}") as writer:
            for batch in batches:
                key, value, timestamp = _columns(batch)
                placed = partitions(key, count, 0)
                for partition in np.flatnonzero(np.bincount(placed, minlength=count)).tolist():
                    rows = np.flatnonzero(placed == partition)
                    some = pa.array(rows)
                    writer.write(partition, key.take(some), value.take(some), timestamp[rows], placed=True)
        return _Written(writer.segments())

    def _create(self, log: FileLog) -> None:
        from penstock.errors import TopicExistsError

        try:
            log.create_topic(TopicInfo(self.topic, self.partitions))
        except TopicExistsError:  # another task of the same write was faster
            pass

    def append(self, messages: list[Any], sequence: int) -> None:
        """Make what all tasks wrote visible, at once."""
        segments = [segment for message in messages if message is not None for segment in message.segments]
        if segments:
            FileLog(self.log).append(self.topic, segments, self.producer, sequence)


@dataclass
class _Written(WriterCommitMessage):
    segments: list[Segment]


class _BatchWriter(DataSourceArrowWriter):
    def __init__(self, target: _Target):
        self._target = target

    def write(self, iterator: Iterator[Any]) -> _Written:
        return self._target.write(iterator)

    def commit(self, messages: list[Any]) -> None:
        self._target.append(messages, 0)


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, target: _Target):
        self._target = target

    def write(self, iterator: Iterator[Any]) -> _Written:
        return self._target.write(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        self._target.append(messages, batchId)


def _columns(batch: Any) -> tuple[Any, Any, np.ndarray[Any, Any]]:
    """Key, value and timestamp (now, where there is none) of a record batch."""
    count = batch.num_rows
    names = batch.schema.names
    key = batch["key"].cast(pa.binary()) if "key" in names else pa.nulls(count, pa.binary())
    now = time.time_ns() // 1_000_000
    if "timestamp" not in names:
        return key, batch["value"].cast(pa.binary()), np.full(count, now)
    timestamp = batch["timestamp"]
    if pa.types.is_timestamp(timestamp.type):
        timestamp = timestamp.cast(pa.timestamp("ms", tz=timestamp.type.tz), safe=False).cast(pa.int64())
    return key, batch["value"].cast(pa.binary()), timestamp.fill_null(now).to_numpy(zero_copy_only=False)

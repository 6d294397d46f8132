"""Topics of a file log as Spark DataFrames: ``format("penstock")``, for reading and writing, batch and streaming.

The columns are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp. Keys and values are
bytes, or what the topic has in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
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
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from penstock.engine.spark.session import work_with_this_python
from penstock.engine.spark.source import START, Offsets, OffsetsReader
from penstock.errors import ConfigError, OffsetOutOfRangeError
from penstock.log.base import Segment, TopicInfo
from penstock.log.consumed import decoded
from penstock.log.file.log import FileLog
from penstock.log.produce import SAY_UNIT, Chosen, existing_or_new, topic_types, write_batch
from penstock.log.strange_times import tell_of_strange_times
from penstock.messages import nearest
from penstock.serdes import BYTES, JSON, from_name
from penstock.serdes.arrow_columns import column_type

FORMAT = "penstock"
_OPTIONS = ("topic", "log", "typed", "partitions", "producer", "timestamp_unit")
_CHECKPOINT = "checkpointlocation"
"""Spark's own option of a streaming query, which it hands on."""
IS_JSON = "penstock.json"
"""Marks a column of text as one of JSON."""
_PLACE = (
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
)


def make_known(spark: Any) -> None:
    """Have a session find ``format("penstock")``, whichever Python it looks for data sources with."""
    if not hasattr(spark, "_jvm") or spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(FORMAT):
        return
    work_with_this_python(spark.sparkContext)
    spark.dataSource.register(PenstockSource)


def arrow_schema(schema: Any) -> Any:
    """The types of a DataFrame's columns as Arrow has them."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before Spark 4.2 times were UTC without being told
        return to_arrow_schema(schema)


@dataclass(frozen=True)
class _Columns:
    """The columns of a DataFrame that is read, and the types of which keys and values are in its topic."""

    schema: Any
    key: str
    value: str


class PenstockSource(DataSource):
    """Options: ``topic``, ``log`` (a folder, default ``.penstock/log``); for reading ``typed``: "true" gives keys and
    values as what they are, text and JSON as text; for writing ``partitions`` of a new topic.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> Any:
        key, value = map(from_name, self._types())
        return from_arrow_schema(pa.schema([("key", column_type(key)), ("value", column_type(value)), *_PLACE]))

    def reader(self, schema: Any) -> DataSourceReader:
        return _BatchReader(*self._place(), _Columns(schema, *self._types()))

    def streamReader(self, schema: Any) -> OffsetsReader:  # noqa: N802
        return _StreamReader(*self._place(), _Columns(schema, *self._types()))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")')
        return _BatchWriter(self._target(schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return _StreamWriter(self._target(schema))

    def _place(self) -> tuple[str, str]:
        for name in self.options:
            if name.lower() not in (*_OPTIONS, _CHECKPOINT):
                raise ConfigError(
                    f'format("penstock") has no option {name!r}{nearest(name.lower(), _OPTIONS)}; the options are '
                    f"{', '.join(_OPTIONS)}"
                )
        if "topic" not in self.options:
            raise ConfigError('format("penstock") needs .option("topic", name)')
        return os.path.abspath(self.options.get("log", ".penstock/log")), self.options["topic"]

    def _types(self) -> tuple[str, str]:
        """The names of the types that keys and values are shown as."""
        given = self.options.get("typed", "false").lower()
        if given not in ("true", "false"):
            raise ConfigError(f'format("penstock"): the option typed is true or false, got {given!r}')
        log, topic = self._place()
        if given == "false" or not FileLog(log).exists(topic):
            return BYTES.name, BYTES.name
        info = FileLog(log).topic(topic)
        return info.key, info.value

    def _partitions(self) -> int:
        given = self.options.get("partitions", "1")
        if not given.strip().isdecimal() or int(given) < 1:
            raise ConfigError(f'format("penstock"): the option partitions is a number from 1 on, got {given!r}')
        return int(given)

    def _target(self, schema: Any) -> _Target:
        log, topic = self._place()
        names = [field.name for field in schema.fields]
        unknown = set(names) - {"key", "value", "timestamp"}
        if "value" not in names or unknown:
            raise ConfigError(
                f"a topic is written from the columns key (optional), value and timestamp (optional); got {names}. "
                "penstock.write(df, topic, key=...) brings any DataFrame into that form"
            )
        columns = (name if name in names else None for name in ("key", "value", "timestamp"))
        chosen = Chosen("write", next(columns), next(columns), next(columns), self.options.get("timestamp_unit"))
        keys, values = chosen.types(arrow_schema(schema))
        values = JSON if schema["value"].metadata.get(IS_JSON) else values
        topic_types(FileLog(log), topic, keys, values)
        new = TopicInfo(topic, self._partitions(), keys.name, values.name)
        producer = self.options.get("producer", "")  # without a name that comes again there is nothing to repeat
        return _Target(log, new, chosen, producer, FileLog(log).exists(topic))


class _Range(InputPartition):
    """Some records of one partition of the topic with this id."""

    def __init__(self, topic: str, partition: int, start: int, end: int, id_: str):
        super().__init__((topic, partition, start, end, id_))


class _BatchReader(DataSourceReader):
    def __init__(self, log: str, topic: str, columns: _Columns):
        self._log = log
        self._topic = topic
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        log = FileLog(self._log)
        id_ = log.topic_id(self._topic)
        ends = log.end_offsets(self._topic)
        starts = log.start_offsets(self._topic)
        ranges = enumerate(zip(starts, ends, strict=True))
        return [_Range(self._topic, p, start, end, id_) for p, (start, end) in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._columns, self._log, *partition.value)


class _StreamReader(OffsetsReader):
    """Offsets like those of the engine's own source, with the records behind them and the topic's id: a stream
    does not go on in another topic than the one it began with."""

    def __init__(self, log: str, topic: str, columns: _Columns):
        super().__init__(log, [topic])
        self._topic = topic
        self._columns = columns

    def initialOffset(self) -> Offsets:  # noqa: N802
        starts = self._log.start_offsets(self._topic)
        return {self._topic: {str(p): start for p, start in enumerate(starts)}} | self._id()

    def latestOffset(self, start: Any = None, limit: Any = None) -> Offsets:  # noqa: N802
        end = super().latestOffset(start, limit)
        if start is not None:
            self._check(start, end)
        return end

    def _current(self) -> Offsets:
        return super()._current() | self._id()

    def _id(self) -> Offsets:
        return {START: {"id": self._log.topic_id(self._topic)}}

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        self._check(start, end)
        self._check(end, self._id())  # Spark may have planned this batch before the topic was made anew
        self._check_is_there(start)
        id_ = self._log.topic_id(self._topic)
        return [_Range(*(*one.value, id_)) for one in super().partitions(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._columns, self.log_url, *partition.value)

    def _check(self, one: Offsets, other: Offsets) -> None:
        """Raise ``OffsetOutOfRangeError`` for offsets of different topics of the same name."""
        ids = [offsets[START]["id"] for offsets in (one, other) if START in offsets]  # older ones have none
        if len(set(ids)) > 1:
            raise _made_anew(self._topic)

    def _check_is_there(self, start: Offsets) -> None:
        for partition, first in enumerate(self._log.start_offsets(self._topic)):
            at = start.get(self._topic, {}).get(str(partition), first)
            if at < first:
                raise OffsetOutOfRangeError(
                    f"topic {self._topic!r}, partition {partition}: the stream goes on at offset {at}, but the records "
                    f"before offset {first} were removed by retention: {first - at} of them were never read. {_WAY_OUT}"
                )


_WAY_OUT = "Give the query another checkpointLocation to read the topic from the first record that is still there"


def _made_anew(topic: str) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        f"topic {topic!r} is not the one that is to be read: it was removed and made anew, and is not read from the "
        f"middle. {_WAY_OUT}"
    )


def read_range(
    columns: _Columns, log_url: str, topic: str, partition: int, start: int, end: int, id_: str
) -> Iterator[Any]:
    """Records of a partition as Arrow record batches of the source's schema.

    Raises:
        OffsetOutOfRangeError: the topic was made anew before the last one was read.
        SerdeError: a key or a value is not of the topic's type.
    """
    log, schema = FileLog(log_url), arrow_schema(columns.schema)
    key, value = from_name(columns.key), from_name(columns.value)
    where = f"topic {topic!r}, partition {partition}"
    for records in log.read(topic, partition, start, end):
        count = len(records)
        yield pa.record_batch(
            {
                "key": decoded(key, records.key, records, where),
                "value": decoded(value, records.value, records, where),
                "topic": pa.array([topic] * count, pa.string()),
                "partition": pa.array(np.full(count, partition, np.int32)),
                "offset": pa.array(np.arange(records.offset, records.offset + count)),
                "timestamp": pa.array(records.timestamp * 1000, pa.timestamp("us", tz="UTC")),
            }
        ).cast(schema)
    if log.topic_id(topic) != id_:
        raise _made_anew(topic)


@dataclass(frozen=True)
class _Target:
    """The topic that is written."""

    log: str
    new: TopicInfo
    """What the topic is made as, when it does not exist."""
    chosen: Chosen
    producer: str
    was_there: bool
    """Whether the topic existed before."""

    def write(self, batches: Iterator[Any]) -> _Written:
        """Write record batches into segments that nobody sees yet."""
        log = FileLog(self.log)
        encoded = (self.chosen.encode(batch) for batch in batches)
        first = list(islice(encoded, 1))  # what is wrong with records mostly shows here, before the topic is made
        for records in first:
            tell_of_strange_times(self.new.name, records.timestamp, SAY_UNIT)
        info = existing_or_new(log, self.new)
        turn = 0
        with log.writer(info.name, f"spark-{os.urandom(8).hex()}") as writer:
            for records in chain(first, encoded):
                turn += write_batch(writer, info, records, turn)
        return _Written(writer.segments())

    def append(self, messages: list[Any], sequence: int) -> None:
        """Make what all tasks wrote visible, at once."""
        segments = [segment for message in messages if message is not None for segment in message.segments]
        if segments:
            FileLog(self.log).append(self.new.name, segments, self.producer, sequence)

    def forget(self) -> None:
        """Leave no topic behind that was made for a write that failed."""
        log = FileLog(self.log)
        if not self.was_there and log.exists(self.new.name) and not any(log.end_offsets(self.new.name)):
            log.delete_topic(self.new.name)


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

    def abort(self, messages: list[Any]) -> None:
        self._target.forget()


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, target: _Target):
        self._target = target

    def write(self, iterator: Iterator[Any]) -> _Written:
        return self._target.write(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        self._target.append(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        self._target.forget()

"""Topics read as DataFrames, in a batch or as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.engine.spark.frame_types import arrow_schema
from penstock.engine.spark.log_option import Place
from penstock.engine.spark.source import START, Offsets, OffsetsReader
from penstock.errors import OffsetOutOfRangeError
from penstock.log.consumed import decoded
from penstock.log.open import open_log
from penstock.serdes import from_name


@dataclass(frozen=True)
class Columns:
    """The columns of a DataFrame that is read, and the types of which keys and values are in its topic."""

    schema: Any
    key: str
    value: str


class _Range(InputPartition):
    """Some records of one partition of the topic with this id."""

    def __init__(self, topic: str, partition: int, start: int, end: int, id_: str):
        super().__init__((topic, partition, start, end, id_))


class BatchReader(DataSourceReader):
    def __init__(self, log: Place, topic: str, columns: Columns):
        self._place = log
        self._topic = topic
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        with closing(open_log(self._place)) as log:
            id_ = log.topic_id(self._topic)
            ends = log.end_offsets(self._topic)
            starts = log.start_offsets(self._topic)
        ranges = enumerate(zip(starts, ends, strict=True))
        return [_Range(self._topic, p, start, end, id_) for p, (start, end) in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._columns, self._place, *partition.value)


class StreamReader(OffsetsReader):
    """Offsets like those of the engine's own source, with the records behind them and the topic's id: a stream
    does not go on in another topic than the one it began with."""

    def __init__(self, log: Place, topic: str, columns: Columns):
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
        now = self._id()
        self._check(end, now)  # Spark may have planned this batch before the topic was made anew
        self._check_is_there(start)
        return [_Range(*(*one.value, now[START]["id"])) for one in super().partitions(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._columns, self.place, *partition.value)

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
    columns: Columns, place: Place, topic: str, partition: int, start: int, end: int, id_: str
) -> Iterator[Any]:
    """Records of a partition as Arrow record batches of the source's schema.

    Raises:
        OffsetOutOfRangeError: the topic was made anew before the last one was read.
        SerdeError: a key or a value is not of the topic's type.
    """
    schema = arrow_schema(columns.schema)
    key, value = from_name(columns.key), from_name(columns.value)
    where = f"topic {topic!r}, partition {partition}"
    with closing(open_log(place)) as log:
        for records in log.read(topic, partition, start, end):
            count = len(records)
            yield pa.record_batch(
                {
                    "key": decoded(key, records.key, records, where),
                    "value": decoded(value, records.value, records, where),
                    "topic": pa.array([topic] * count, pa.string()),
                    "partition": pa.array(np.full(count, partition, np.int32)),
                    "offset": pa.array(records.every_offset),
                    "timestamp": pa.array(records.timestamp * 1000, pa.timestamp("us", tz="UTC")),
                }
            ).cast(schema)
        if log.topic_id(topic) != id_:
            raise _made_anew(topic)

"""Reads topics as DataFrames, in a batch or as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.columns.batch import no_headers
from penstock.engine.spark.frame_types import arrow_schema, read_with
from penstock.engine.spark.log_option import Place
from penstock.engine.spark.read_options import HEADERS_COLUMN, Range, ReadOptions
from penstock.engine.spark.source import START, Offsets, OffsetsReader
from penstock.errors import OffsetOutOfRangeError
from penstock.log.base import Log
from penstock.log.consumed import decoded
from penstock.log.open import open_log
from penstock.serdes import Serde


@dataclass(frozen=True)
class Columns:
    """The columns of a DataFrame that is read, and the types of keys and values in its topic."""

    schema: Any
    key: Serde
    value: Serde


class _Range(InputPartition):
    """A range of records in one partition of the topic with this id."""

    def __init__(self, topic: str, one: Range, id_: str):
        super().__init__((topic, *one, id_))


class BatchReader(DataSourceReader):
    def __init__(self, log: Place, topic: str, columns: Columns, asked: ReadOptions):
        self._place = log
        self._topic = topic
        self._columns = columns
        self._asked = asked

    def partitions(self) -> list[InputPartition]:
        with closing(open_log(self._place)) as log:
            id_ = log.topic_id(self._topic)
            ranges = self._narrowed(log, self._asked.ranges(log, self._topic))
        return [_Range(self._topic, one, id_) for one in self._asked.cut(ranges)]

    def _narrowed(self, log: Log, ranges: Sequence[Range]) -> Sequence[Range]:
        """The parts of ranges that are read: here all of them."""
        return ranges

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        if partition is None or partition.value is None:  # Spark's own partition, if there is nothing to read
            return iter(())
        return read_range(self._columns, self._place, *partition.value)


class StreamReader(OffsetsReader):
    """The records between offsets. The offsets include the topic's id: a stream never continues in another topic of the
    same name.
    """

    def __init__(self, log: Place, topic: str, columns: Columns, asked: ReadOptions):
        super().__init__(log, [topic], asked.per_trigger)
        self._topic = topic
        self._columns = columns
        self._asked = asked

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Return where a new query begins; Spark does not ask for it when a query continues."""
        starts = self._asked.first_offsets(self._log, self._topic)
        return {self._topic: {str(p): start for p, start in enumerate(starts)}} | self._id()

    def latestOffset(self, start: Any = None, limit: Any = None) -> Offsets:  # noqa: N802
        end = super().latestOffset(start, limit)
        if start is not None:
            self._check(start, end)
            self._check_is_there(start)
        return end

    def _current(self) -> Offsets:
        mark = self._log.mark(self._topic)  # before the ends, which may move meanwhile
        return super()._current() | {START: {**self._id()[START], **({"mark": mark} if mark else {})}}

    def _id(self) -> Offsets:
        return {START: {"id": self._log.topic_id(self._topic)}}

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        self._check(start, end)
        now = self._id()
        self._check(end, now)  # planned before the topic was created again, perhaps
        self._check_is_there(start)
        ranges = self._asked.cut([one.value[1:] for one in super().partitions(start, end)])
        return [_Range(self._topic, one, now[START]["id"]) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._columns, self.place, *partition.value)

    def _check(self, one: Offsets, other: Offsets) -> None:
        """Raise ``OffsetOutOfRangeError`` for offsets of different topics of the same name."""
        ids = [offsets[START]["id"] for offsets in (one, other) if START in offsets]  # older ones have no id
        if len(set(ids)) > 1:
            raise _made_anew(self._topic)

    def _check_is_there(self, start: Offsets) -> None:
        ends = self._log.end_offsets(self._topic)
        at = {p: start.get(self._topic, {}).get(str(p), 0) for p in range(len(ends))}
        lost = [p for p, end in enumerate(ends) if end < at[p]]
        if lost or self._log.denies(self._topic, start.get(START, {}).get("mark", "")):
            where = [f"partition {p} ends at offset {ends[p]}, and was read up to offset {at[p]}" for p in lost]
            raise OffsetOutOfRangeError(
                f"topic {self._topic!r} lacks records that it had when the stream read it{': ' * bool(where)}"
                f"{'; '.join(where)}. It was restored from a copy that was made before. Restore it "
                "from a complete backup, or give the query another checkpointLocation to read what the topic has now "
                "from its beginning"
            )
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
        f"topic {topic!r} is not the one that is to be read: it was removed and created again, and is not read from "
        f"the middle. {_WAY_OUT}"
    )


def read_range(
    columns: Columns, place: Place, topic: str, partition: int, start: int, end: int, id_: str
) -> Iterator[Any]:
    """Yield records of a partition as Arrow record batches of the source's schema.

    Raises:
        OffsetOutOfRangeError: the topic was created again before the last record was read.
        SerdeError: a key or a value is not of the topic's type.
    """
    schema = arrow_schema(columns.schema)
    key = read_with(columns.key, schema.field("key").type)
    value = read_with(columns.value, schema.field("value").type)
    where = f"topic {topic!r}, partition {partition}"
    with closing(open_log(place)) as log:
        for records in log.read(topic, partition, start, end):
            count = len(records)
            columns_read = {
                "key": decoded(key, records.key, records, where),
                "value": decoded(value, records.value, records, where),
                "topic": pa.array([topic] * count, pa.string()),
                "partition": pa.array(np.full(count, partition, np.int32)),
                "offset": pa.array(records.offsets),
                "timestamp": pa.array(records.timestamp * 1000, pa.timestamp("us", tz="UTC")),
            }
            if HEADERS_COLUMN in schema.names:
                columns_read[HEADERS_COLUMN] = no_headers(count) if records.headers is None else records.headers
            yield pa.record_batch(columns_read).cast(schema)
        if log.topic_id(topic) != id_:
            raise _made_anew(topic)

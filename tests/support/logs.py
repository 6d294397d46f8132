"""Records of a log, written and read as plain rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columns.batch import HEADERS
from penstock.log.base import Log
from penstock.log.contract.writer import Segment
from penstock.log.memory import MemoryLog
from penstock.log.records import Records


class GappedLog(MemoryLog):
    """A log in memory whose offsets have gaps, as Kafka's: each append ends with an offset that no record has (a
    transaction's marker), and compaction has removed the records at some offsets."""

    def __init__(self, removed: Iterable[int] = ()):
        super().__init__()
        self._removed = np.array(sorted(removed), np.int64)

    def append(
        self, topic: str, segments: Sequence[Segment], producer: str = "", sequence: int = -1, note: str = ""
    ) -> bool:
        appended = super().append(topic, segments, producer, sequence, note)
        for partition in {segment.partition for segment in segments} if appended else ():
            self._topic(topic).ends[partition] += 1
        return appended

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        for records in super().read(topic, partition, start, end):
            left = records.keep(~np.isin(records.offsets, self._removed))
            if len(left):  # made as the records of Kafka are
                columns = left.key, left.value, left.timestamp, left.headers
                yield Records(int(left.offsets[0]), *columns, offsets=left.offsets)


Row = tuple[Any, ...]
"""(key, value, timestamp), all three as the log holds them, or with headers, pairs of a name and bytes, behind."""


def write(log: Log, topic: str, *pieces: tuple[int, Iterable[Row]]) -> list[Segment]:
    """Write rows of partitions with one writer; nobody sees them before they are appended."""
    with log.writer(topic, f"test-{os.urandom(8).hex()}") as writer:
        for partition, some in pieces:
            keys, values, times, *headers = zip(*some, strict=True)
            columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), np.array(times, np.int64)]
            writer.write(partition, *columns, *(_headers(pairs) for pairs in headers))
    return writer.segments()


def append(log: Log, topic: str, *rows: Row, partition: int = 0) -> None:
    """Append rows to a partition."""
    assert log.append(topic, write(log, topic, (partition, rows)))


def rows(log: Log, topic: str, partition: int = 0, start: int = 0, end: int | None = None) -> list[Row]:
    """Offset, key, value and timestamp of the records of a partition, and their headers when there are any."""
    found: list[Row] = []
    end = log.end_offsets(topic)[partition] if end is None else end
    for records in log.read(topic, partition, start, end):
        found += rows_of(records)
    return found


def rows_of(records: Records) -> list[Row]:
    """The same of records that were read."""
    columns = [records.key.to_pylist(), records.value.to_pylist(), records.timestamp.tolist()]
    if records.headers is not None:
        columns.append([_pairs(headers) for headers in records.headers.to_pylist()])
    return list(zip(records.offsets.tolist(), *columns, strict=True))


def _headers(every: Iterable[Iterable[tuple[str, bytes]]]) -> Any:
    return pa.array([[{"key": name, "value": data} for name, data in pairs] for pairs in every], HEADERS)


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes]]:
    return [(header["key"], header["value"]) for header in headers or ()]

"""The outbox: records of output topics, in files of the checkpoint, until a transaction has brought them to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.arrays import Binary, IntArray
from penstock.batch import HEADERS
from penstock.errors import LogError
from penstock.log.base import (
    SCHEMA,
    SCHEMA_WITH_HEADERS,
    Records,
    Segment,
    SegmentWriter,
    from_record_batch,
    to_record_batch,
)
from penstock.log.kafka.topics import Limits
from penstock.storage import FileRef, Storage
from penstock.times import wall_clock_ms
from penstock.untrusted import ArrowFile

FOLDER = "outbox"
_BATCH_OVERHEAD = 200
"""Bytes that a batch of one record has beside its key, value and headers, at most, but for the headers' lengths."""


class OutboxWriter(SegmentWriter):
    """Writes a file of records for one topic, opened at the first one; it has room for headers from then on.

    Args:
        limits: what the topic takes; asked for at the first record.
    """

    def __init__(self, storage: Storage, topic: str, topic_id: str, name: str, limits: Callable[[], Limits]):
        self._storage = storage
        self._topic = topic
        self._name = f"{FOLDER}/{topic_id}/{name}-{topic}.arrow"
        self._limits = limits
        self._context: Any = None
        self._writer: Any = None
        self._batches = 0
        self._contents: dict[int, Segment] = {}

    def __enter__(self) -> OutboxWriter:
        return self

    def write(
        self, partition: int, key: Binary, value: Binary, timestamp: IntArray, headers: Any = None, placed: bool = False
    ) -> None:
        if not len(timestamp):
            return
        records = Records(-1, key, value, timestamp, headers)
        self._check(records)
        if self._writer is None:
            self._context = self._storage.write(self._name)
            self._writer = ipc.new_file(self._context.__enter__(), SCHEMA_WITH_HEADERS)
        if headers is None:
            records = replace(records, headers=pa.nulls(len(timestamp), HEADERS))
        self._writer.write_batch(to_record_batch(records))
        before = self._contents.get(partition, Segment(partition, FileRef("", 0, 0), [], 0, 0, -1))
        self._contents[partition] = msgspec.structs.replace(
            before,
            batches=[*before.batches, self._batches],
            records=before.records + len(records),
            nbytes=before.nbytes + records.nbytes,
            max_timestamp=max(before.max_timestamp, int(timestamp.max())),
        )
        self._batches += 1

    def _check(self, records: Records) -> None:
        """Raise ``LogError`` for a record that the topic would not take: later it would be too late."""
        limits, now = self._limits(), wall_clock_ms()
        sizes = records.sizes() if records.headers is None else records.sizes() + _sizes_of(records.headers)
        largest, newest = int(np.argmax(sizes)), int(np.argmax(records.timestamp))
        if sizes[largest] + _BATCH_OVERHEAD > limits.bytes:
            what, option = f"{sizes[largest]} bytes and it takes at most {limits.bytes}", "max.message.bytes"
            raise self._refused(records, largest, what, option)
        if records.timestamp[newest] - now > limits.after_ms:
            what, option = f"the time {records.timestamp[newest]}, which is in the future", "timestamp.after.max.ms"
            raise self._refused(records, newest, what, f"message.{option}")
        oldest = int(np.argmin(records.timestamp))
        if now - records.timestamp[oldest] > limits.before_ms:
            what, option = f"the time {records.timestamp[oldest]}, which is long ago", "timestamp.before.max.ms"
            raise self._refused(records, oldest, what, f"message.{option}")

    def _refused(self, records: Records, row: int, has: str, option: str) -> LogError:
        key = records.key[row].as_py()
        return LogError(
            f"topic {self._topic!r} does not take the record with key {None if key is None else key[:40]!r}: it has "
            f"{has} ({option} of the topic). Nothing of this commit was written, and everything before is safe. Change "
            f"{option} of the topic, or what is written into it, and start again"
        )

    def __exit__(self, *error: Any) -> None:
        if self._writer is not None:
            if error[0] is None:
                self._writer.close()
            self._context.__exit__(*error)

    def segments(self) -> list[Segment]:
        if self._writer is None:
            return []
        ref = self._storage.ref(self._name)
        return [msgspec.structs.replace(self._contents[p], file=ref) for p in sorted(self._contents)]


def _sizes_of(headers: Any) -> IntArray:
    """The bytes of each record's headers, with what Kafka writes around them at most."""
    every = headers.to_pylist()
    sizes = (sum(len(h["key"].encode()) + len(h["value"] or b"") + 8 for h in some or ()) for some in every)
    return np.fromiter(sizes, np.int64, len(headers))


def topic_id_of(segment: Segment) -> str:
    """The id of the topic that a segment was written for."""
    return segment.file.name.split("/")[1]


def read_segment(storage: Storage, segment: Segment) -> Iterator[Records]:
    """The records of a segment; raises ``CorruptDataError`` when its file is damaged or gone."""
    data = storage.read_verified(segment.file)
    file = ArrowFile(data, (SCHEMA, SCHEMA_WITH_HEADERS), ("timestamp",), f"{storage.shown}/{segment.file.name}")
    for number in segment.batches:
        yield from_record_batch(file.batch(number), -1)

"""The outbox: records of output topics, in files of the checkpoint, until a transaction has brought them to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow.ipc as ipc

from penstock.arrays import Binary, IntArray
from penstock.columns.batch import no_headers
from penstock.errors import RefusedRecordError
from penstock.files.untrusted import ArrowFile
from penstock.log.contract.writer import Segment, SegmentWriter
from penstock.log.kafka.limits import Limits, refused
from penstock.log.records import SCHEMA, SCHEMA_WITH_HEADERS, Records, from_record_batch, to_record_batch
from penstock.storage.base import FileRef, Storage
from penstock.values.times import wall_clock_ms

FOLDER = "outbox"


class OutboxWriter(SegmentWriter):
    """Writes a file of records for one topic, opened at the first record; the file has a column for headers.

    Args:
        limits: returns the topic's limits; called at the first record.
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
            records = records.with_columns(headers=no_headers(len(timestamp)))
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
        """Raise ``RefusedRecordError`` for a record that the topic would refuse: after the commit it would be too
        late.
        """
        for error in refused(self._topic, records, self._limits(), wall_clock_ms()).values():
            raise RefusedRecordError(
                f"{error}. Nothing of this commit was written, and everything before is safe. To go on, "
                f"{error.way_out}, and start again"
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


def topic_id_of(segment: Segment) -> str:
    """Return the id of the topic that a segment was written for."""
    return segment.file.name.split("/")[1]


def read_segment(storage: Storage, segment: Segment) -> Iterator[Records]:
    """Yield the records of a segment; raises ``CorruptDataError`` if its file is damaged or missing."""
    data = storage.read_verified(segment.file)
    file = ArrowFile(data, (SCHEMA, SCHEMA_WITH_HEADERS), ("timestamp",), f"{storage.shown}/{segment.file.name}")
    for number in segment.batches:
        yield from_record_batch(file.batch(number), -1)

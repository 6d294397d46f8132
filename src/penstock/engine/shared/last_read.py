"""Remembers the last record that was read of each source, to notice a topic that was restored from an older copy.

An offset does not say which record was there. A topic that is restored from an older copy and has grown since has other
records at the offsets that were processed, and those would be skipped.

    read by the application   a b c d e|             goes on at offset 5; the last record read is e
    restored and grown        a b c v w|x y          v and w would be lost, and e is not at offset 4
"""

from __future__ import annotations

import zlib

import msgspec

from penstock.errors import CorruptDataError, OffsetOutOfRangeError
from penstock.log.base import Log
from penstock.log.records import Records


class LastRead(msgspec.Struct, frozen=True, array_like=True):
    """The last record that a task has read of one partition."""

    offset: int
    checksum: int
    """The checksum of its key, value and timestamp."""


def last_read(records: Records) -> LastRead:
    """Return the last of some records.

    >>> import numpy as np, pyarrow as pa
    >>> values = pa.array([b"", b"b", None], pa.binary())
    >>> some = Records(7, pa.nulls(3, pa.binary()), values, np.zeros(3, np.int64))
    >>> last_read(some).offset, last_read(some) == last_read(some.slice(1, 3))
    (9, True)
    >>> last_read(some.slice(0, 1)).checksum == last_read(some).checksum
    False
    """
    at = len(records) - 1
    checksum = zlib.crc32(int(records.timestamp[at]).to_bytes(8, "little", signed=True))
    for column in (records.key, records.value):
        part = column[at].as_py()
        checksum = zlib.crc32(b"\0" if part is None else b"\1%d:" % len(part), checksum)
        checksum = zlib.crc32(part or b"", checksum)
    return LastRead(int(records.offsets[at]), checksum)


def check_last_read(log: Log, topic: str, partition: int, last: LastRead, application_id: str) -> None:
    """Raise ``CorruptDataError`` when a partition has another record where the last one was read.

    Nothing is known of a record that is gone, or damaged.
    """
    try:
        pieces = [piece for piece in log.read(topic, partition, last.offset, last.offset + 1) if len(piece)]
    except (CorruptDataError, OffsetOutOfRangeError):  # nobody needs the record itself any more
        return
    if pieces and last_read(pieces[-1]) != last:
        raise CorruptDataError(
            f"topic {topic!r} in {log.url}, partition {partition}: application {application_id!r} has processed the "
            f"records up to offset {last.offset}, and another record is at this offset now. The topic was restored "
            "from a copy that was made before, and has grown since: the records that it got at offsets below "
            f"{last.offset + 1} would be skipped. Nothing was changed, and everything committed is safe. Restore the "
            "topic from a complete backup, or restore log and checkpoint from one backup. To process what the topic "
            f"has now from its beginning, use another application id, or `penstock reset {application_id}`"
        )

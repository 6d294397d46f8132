"""Writing into a log: segments stay invisible until they are appended, all at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

from penstock.arrays import Binary, IntArray
from penstock.errors import RefusedRecordError, TopicNotFoundError
from penstock.log.records import Records
from penstock.storage.base import FileRef
from penstock.values.decoding import from_msgpack

LONGEST_NOTE = 3_000
"""How many bytes the note of an append may have: Kafka allows 4,096 for the metadata of an offset, with what is around
it."""


class LastAppend(NamedTuple):
    """The newest append of a producer."""

    sequence: int = -1
    note: str = ""


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """Some records of one partition: record batches of an Arrow file, which other partitions may share.

    ``placed`` means that Kafka's default partitioner puts every key of it into this partition.
    """

    partition: int
    file: FileRef
    batches: list[int]
    records: int
    nbytes: int
    max_timestamp: int
    placed: bool = False
    base: int = -1
    """The offset of the first record; set when the segment is appended."""

    def __post_init__(self) -> None:
        if self.partition < 0 or self.records < 0 or self.base < -1:
            raise ValueError(f"no segment can have {self.records} records at {self.base} of partition {self.partition}")

    @property
    def end(self) -> int:
        return self.base + self.records


class SegmentWriter(ABC):
    """Writes records of one topic that are invisible until their segments are appended."""

    @abstractmethod
    def write(
        self, partition: int, key: Binary, value: Binary, timestamp: IntArray, headers: Any = None, placed: bool = False
    ) -> None:
        """Write records of one partition, in order."""

    @abstractmethod
    def segments(self) -> list[Segment]:
        """Return one segment for each partition; call it after the writer's context has ended."""


class Writer(ABC):
    """Makes records part of topics."""

    @abstractmethod
    def writer(self, topic: str, name: str) -> AbstractContextManager[SegmentWriter]:
        """Return a writer of new records; ``name`` makes its file's name unique among all writers."""

    def refused(self, topic: str, records: Records) -> dict[int, RefusedRecordError]:
        """Return the rows of records that a topic refuses, and why; they must not be written."""
        return {}

    @abstractmethod
    def append(
        self, topic: str, segments: Sequence[Segment], producer: str = "", sequence: int = -1, note: str = ""
    ) -> bool:
        """Make segments visible, all at once.

        A producer that numbers its appends can repeat one safely: if an append with this or a later number of the same
        producer exists already, this does nothing and returns False.

        Args:
            note: a text of at most ``LONGEST_NOTE`` bytes that is kept with the number, see ``last_append``.

        Raises:
            TopicNotFoundError: the topic does not exist, or is no longer the one that the segments were written for.
        """

    def hand_over(self, segments: Sequence[Segment]) -> bytes:
        """Return segments of this process as bytes, with everything that another process needs to append them."""
        return msgspec.msgpack.encode(list(segments))

    def take_over(self, handed: bytes) -> list[Segment]:
        """Return the segments that another process handed over."""
        return from_msgpack(handed, list[Segment])


def removed_meanwhile(topic: str) -> TopicNotFoundError:
    """Return the error for records whose topic was removed while they were written, and may have been created again."""
    return TopicNotFoundError(
        f"topic {topic!r} was removed while records were written into it; they are in no topic, also if one of this "
        "name has been made since: write them again"
    )

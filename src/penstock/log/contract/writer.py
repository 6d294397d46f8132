"""Writing into a log: segments that nobody sees until they are appended, all at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from penstock.arrays import Binary, IntArray
from penstock.errors import RefusedRecordError, TopicNotFoundError
from penstock.log.records import Records
from penstock.storage import FileRef


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """Some records of one partition: record batches of an Arrow file, which other partitions may share.

    ``placed`` says that Kafka's default partitioner puts every key of it into this partition.
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
    """Writes records of one topic that nobody sees until their segments are appended."""

    @abstractmethod
    def write(
        self, partition: int, key: Binary, value: Binary, timestamp: IntArray, headers: Any = None, placed: bool = False
    ) -> None:
        """Write records of one partition, in order."""

    @abstractmethod
    def segments(self) -> list[Segment]:
        """What was written, one segment for each partition; call it when the writer's context has ended."""


class Writer(ABC):
    """Makes records part of topics."""

    @abstractmethod
    def writer(self, topic: str, name: str) -> AbstractContextManager[SegmentWriter]:
        """A writer of new records; ``name`` makes its file's name unique among all writers."""

    def refused(self, topic: str, records: Records) -> dict[int, RefusedRecordError]:
        """The rows of records that a topic does not take, and why; they are not to be written."""
        return {}

    @abstractmethod
    def append(self, topic: str, segments: Sequence[Segment], producer: str = "", sequence: int = -1) -> bool:
        """Make segments visible, all at once.

        A producer that numbers its appends can repeat one safely: returns False, and does nothing, when an append with
        this or a later number of the same producer is there already.

        Raises:
            TopicNotFoundError: the topic does not exist, or is not the one any more that the segments were written for.
        """

    def hand_over(self, segments: Sequence[Segment]) -> Any:
        """Segments that this process wrote, with all that another one needs to append them; it can be pickled."""
        return list(segments)

    def take_over(self, handed: Any) -> list[Segment]:
        """The segments that another process handed over."""
        return list(handed)


def removed_meanwhile(topic: str) -> TopicNotFoundError:
    """The error for records that were written for a topic that is gone, or is another one of the same name by now."""
    return TopicNotFoundError(
        f"topic {topic!r} was removed while records were written into it; they are in no topic, also if one of this "
        "name has been made since: write them again"
    )

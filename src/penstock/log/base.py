"""What a log is: topics made of partitions of ordered records, written in atomic appends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import msgspec

from penstock.arrays import Binary, IntArray
from penstock.errors import ConfigError, OffsetOutOfRangeError, RefusedRecordError, TopicNotFoundError
from penstock.log.records import Records, first_at
from penstock.log.watch import LookingWatch, TopicWatch
from penstock.rows import joined
from penstock.storage import FileRef, Storage
from penstock.topic_names import check_topic_name

_FURTHER_BACK = 4
"""How many times further ``Log.newest`` looks back when it has not found enough."""

NO_LIMIT = -1
"""The retention of a topic that keeps its records for ever, or all of them."""


class TopicInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a topic is, apart from its records.

    ``key`` and ``value`` name the types of what is in it, for reading it without the program that wrote it.
    """

    name: str
    partitions: int
    key: str = "bytes"
    value: str = "bytes"
    retention_ms: int = NO_LIMIT
    retention_bytes: int = NO_LIMIT


class TopicStats(NamedTuple):
    """How much a topic holds, as far as the log can tell; bytes and the newest timestamp are those of whole appends."""

    records: int
    nbytes: int | None = None
    newest: int | None = None


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


class Judged(NamedTuple):
    """Records that a commit has for a partition of a topic, with those that will never get there."""

    topic: str
    partition: int
    records: Records
    refused: dict[int, str]
    """The rows that the topic refuses, and why."""


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


class Log(ABC):
    """Topics. Safe to use from several processes at once where the log is shared between processes."""

    @property
    @abstractmethod
    def url(self) -> str:
        """How to open the same log elsewhere."""

    @abstractmethod
    def topics(self) -> list[str]:
        """The names of all topics, sorted."""

    @abstractmethod
    def create_topic(self, info: TopicInfo) -> None:
        """Make a topic; raises ``TopicExistsError``, or ``ConfigError`` for a wrong name or no partitions."""

    @abstractmethod
    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records; raises ``TopicNotFoundError``.

        Whoever is writing into it fails with ``TopicNotFoundError``, also when a topic of this name was made since.
        """

    @abstractmethod
    def topic(self, name: str) -> TopicInfo:
        """What a topic is; raises ``TopicNotFoundError``."""

    @abstractmethod
    def topic_id(self, name: str) -> str:
        """Tells a topic from all that had this name before and will have it; raises ``TopicNotFoundError``.

        It is empty for topics that were made before topics had ids, or by hand.
        """

    def topic_ids(self, names: Iterable[str]) -> dict[str, str | None]:
        """The ids of several topics, None for those that do not exist."""
        return {name: self.topic_id(name) if self.exists(name) else None for name in names}

    @abstractmethod
    def start_offsets(self, topic: str) -> list[int]:
        """For each partition the offset of its first record that is still there."""

    @abstractmethod
    def end_offsets(self, topic: str) -> list[int]:
        """For each partition the offset that its next record will get."""

    @abstractmethod
    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        """The records with ``start <= offset < end``, in pieces as they were written.

        Raises:
            OffsetOutOfRangeError: ``start`` lies before the first record that is still there.
            CorruptDataError: a file is missing, torn or damaged.
            TopicNotFoundError: the topic does not exist, or was removed while it was read.
        """

    def timestamp_at(self, topic: str, partition: int, offset: int) -> int:
        """The timestamp of the first record at an offset or behind it, 0 where none is there; raises as ``read``."""
        end = max(offset + 1, self.end_offsets(topic)[partition])
        return next((int(some.timestamp[0]) for some in self.read(topic, partition, offset, end) if len(some)), 0)

    def newest(self, topic: str, partition: int, start: int, end: int, count: int) -> Records | None:
        """The last so many records with ``start <= offset < end``; None when there are none. Raises as ``read``.

        Offsets may have gaps, so this looks further and further back until it has found enough.
        """
        look = count
        while count > 0 and start < end:
            begin = max(start, end - look)
            pieces = [piece for piece in self.read(topic, partition, begin, end) if len(piece)]
            found = sum(map(len, pieces))
            if begin == start or found >= count:
                return joined(Records, pieces).slice(max(found - count, 0), found) if pieces else None
            look *= _FURTHER_BACK
        return None

    def arrived_at(self, topic: str, partition: int, offset: int) -> float | None:
        """When the record at an offset came, about, in seconds of the wall clock; None where the log cannot tell."""
        return None

    def reach(self, topic: str, partition: int, start: int, end: int, nbytes: int) -> int | None:
        """To which time the next so many bytes of a partition come: the highest timestamp of the appends among them.

        Returns:
            None when that is all there is before ``end``, or the log cannot tell without reading the records.
        """
        return None

    def offset_at(self, topic: str, partition: int, time: int) -> int | None:
        """The offset of the first record whose timestamp is a time or later; None when there is none."""
        start, end = self.start_offsets(topic)[partition], self.end_offsets(topic)[partition]
        return first_at(self.read(topic, partition, start, end), time)

    @abstractmethod
    def writer(self, topic: str, name: str) -> AbstractContextManager[SegmentWriter]:
        """A writer of new records; ``name`` makes its file's name unique among all writers."""

    def refused(self, topic: str, records: Records) -> dict[int, RefusedRecordError]:
        """The rows of records that a topic does not take, and why; they are not to be written."""
        return {}

    def last_published(self, producer: str) -> int | None:
        """The last numbered append of a producer to any topic; None where nothing can be between a commit and its
        topics."""
        return None

    def judged(self, producer: str, sinks: Mapping[str, Sequence[Segment]]) -> list[Judged]:
        """The records of a commit that are not in their topics yet, with those that these refuse."""
        return []

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

    @abstractmethod
    def trim(self, topic: str, starts: dict[int, int]) -> None:
        """Remove the records of partitions before these offsets; whole segments only give their space back.

        Raises:
            OffsetOutOfRangeError: the partition does not exist or ends before the offset.
        """

    def why_not_emptied(self, topic: str) -> str:
        """Why ``trim`` is not possible; empty where it is."""
        return ""

    def watch(self, topics: Sequence[str]) -> TopicWatch:
        """Waits for records of topics."""
        return LookingWatch(self, topics)

    @property
    def is_shared(self) -> bool:
        """Whether other processes can open it."""
        return True

    @property
    def keeps_types(self) -> bool:
        """Whether topics say of which types their keys and values are."""
        return True

    def with_outbox(self, outbox: Storage, application_id: str, at_least_once: bool = False) -> Log:
        """The log as an application uses it.

        Args:
            outbox: where what is written waits to be appended, in a log that has no place for it itself.
        """
        return self

    def publishing(
        self, producer: str, sequence: int, offsets: Mapping[str, Sequence[int]], known: int | None = None
    ) -> AbstractContextManager[None]:
        """The appends of one commit, which a log that can makes visible together where the context ends well.

        Args:
            offsets: up to where the application has read its sources; a log that others look at tells them.
            known: the last commit that the log has acknowledged, as far as is known; None if it is not to be checked
                whether the log still has what it has acknowledged.

        Raises:
            CommitError: it has not.
        """
        return nullcontext()

    @property
    def can_publish_beside(self) -> bool:
        """Whether one thread may publish a commit while another reads."""
        return False

    @property
    def place(self) -> Any:
        """What ``open_log`` opens the same log with in another process; it can be pickled."""
        return self.url

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of connections."""

    @property
    def claims(self) -> Storage | None:
        """Where the log keeps which checkpoint writes under which application id; None if only this process uses it."""
        return None

    def exists(self, topic: str) -> bool:
        """Whether there is a topic of this name."""
        try:
            self.topic(topic)
        except TopicNotFoundError:
            return False
        return True

    def size(self, topic: str) -> int:
        """How many records a topic holds."""
        return sum(self.end_offsets(topic)) - sum(self.start_offsets(topic))

    def stats(self, topic: str) -> TopicStats:
        """How much a topic holds."""
        return TopicStats(self.size(topic))

    def set_retention(self, topic: str, retention_ms: int | None = None, retention_bytes: int | None = None) -> None:
        """Change how long, or how much of each partition, records are kept; -1 for ever, and for all."""
        raise ConfigError(f"the topics of {self.url} keep what they have")

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions, of which each record keeps its own; raises ``ConfigError`` where that is not
        to be had here, or there would be fewer."""
        raise ConfigError(f"the topics of {self.url} get their partitions where they are made")

    def sweep(self, topic: str, is_meant: Callable[[str], bool]) -> None:  # noqa: B027 - others leave nothing behind
        """Remove files with such names that writers left behind without appending them."""

    def tidy(self, topic: str) -> None:  # noqa: B027 - others do so by themselves
        """Remove at once what the topic does not keep."""

    @abstractmethod
    def last_sequence(self, topic: str, producer: str) -> int:
        """The number of a producer's last append to a topic; -1 when there is none."""

    def lacks(self, topic: str, producer: str, sequence: int) -> bool:
        """Whether an append that was made to a topic is certainly not in it; False where nobody can tell."""
        return False


def reach(appends: Iterable[tuple[int, int, int]], end: int, nbytes: int) -> int | None:
    """``Log.reach`` from the end, the bytes and the highest timestamp of the next appends.

    >>> reach([(10, 100, 5), (20, 100, 7), (30, 100, 6)], end=30, nbytes=200)
    7
    >>> reach([(10, 100, 5), (20, 100, 7)], end=20, nbytes=500) is None
    True
    """
    latest: int | None = None
    for behind, size, time in appends:
        latest = time if latest is None else max(latest, time)
        nbytes -= size
        if behind >= end or nbytes <= 0:
            return None if behind >= end else latest
    return None


def check_topic(info: TopicInfo) -> None:
    """Raise ``ConfigError`` for a name that no topic can bear, or a topic without partitions."""
    check_topic_name(info.name)
    if info.partitions < 1:
        raise ConfigError(f"topic {info.name!r}: a topic has at least 1 partition, got {info.partitions}")
    if info.partitions >= 1 << 31:
        raise ConfigError(f"topic {info.name!r}: a topic has less than 2**31 partitions, got {info.partitions}")


def check_start(topic: str, partition: int, start: int, first: int) -> None:
    """Raise ``OffsetOutOfRangeError`` for reading from before the first record that is still there."""
    if start < first:
        raise OffsetOutOfRangeError(
            f"topic {topic!r}, partition {partition}: offset {start} was removed by retention; "
            f"the first one still there is {first}"
        )


def check_trim(topic: str, starts: dict[int, int], ends: Sequence[int]) -> None:
    """Raise ``OffsetOutOfRangeError`` for removing what a topic with these ends does not have."""
    for partition, start in starts.items():
        if not 0 <= partition < len(ends):
            raise OffsetOutOfRangeError(f"topic {topic!r} has no partition {partition} to remove records from")
        if start > ends[partition]:
            raise OffsetOutOfRangeError(
                f"topic {topic!r}, partition {partition}: cannot remove the records before offset {start}; "
                f"the partition ends at offset {ends[partition]}"
            )


def removed_meanwhile(topic: str) -> TopicNotFoundError:
    """The error for records that were written for a topic that is gone, or is another one of the same name by now."""
    return TopicNotFoundError(
        f"topic {topic!r} was removed while records were written into it; they are in no topic, also if one of this "
        "name has been made since: write them again"
    )

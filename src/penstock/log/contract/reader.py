"""Reading a log: records by offset, and offsets by time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.columns.rows import joined
from penstock.errors import OffsetOutOfRangeError
from penstock.log.records import Records, first_at
from penstock.log.watch import LookingWatch, TopicWatch

_FURTHER_BACK = 4
"""How many times further ``Reader.newest`` looks back when it has not found enough."""


class TopicStats(NamedTuple):
    """The size of a topic, as far as the log knows; bytes and the newest timestamp count whole appends."""

    records: int
    nbytes: int | None = None
    newest: int | None = None


class Reader(ABC):
    """The records of topics. Offsets may have gaps: each record carries its own."""

    @abstractmethod
    def start_offsets(self, topic: str) -> list[int]:
        """For each partition the offset of its first record that is still there."""

    @abstractmethod
    def end_offsets(self, topic: str) -> list[int]:
        """For each partition the offset that its next record will get."""

    def size(self, topic: str) -> int:
        """Return how many records a topic has."""
        return sum(self.end_offsets(topic)) - sum(self.start_offsets(topic))

    def stats(self, topic: str) -> TopicStats:
        """Return the size of a topic."""
        return TopicStats(self.size(topic))

    @abstractmethod
    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        """Yield the records with ``start <= offset < end``, in the pieces in which they were written.

        Raises:
            OffsetOutOfRangeError: ``start`` is before the first record that still exists.
            CorruptDataError: a file is missing, torn or damaged.
            TopicNotFoundError: the topic does not exist, or was removed while it was read.
        """

    def timestamp_at(self, topic: str, partition: int, offset: int) -> int:
        """Return the timestamp of the first record at an offset or after it, 0 if none exists; raises like ``read``."""
        end = max(offset + 1, self.end_offsets(topic)[partition])
        return next((int(some.timestamp[0]) for some in self.read(topic, partition, offset, end) if len(some)), 0)

    def newest(self, topic: str, partition: int, start: int, end: int, count: int) -> Records | None:
        """Return the last so many records with ``start <= offset < end``; None if empty. Raises like ``read``.

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

    def offset_at(self, topic: str, partition: int, time: int) -> int | None:
        """Return the offset of the first record whose timestamp is a time or later; None if none exists."""
        start, end = self.start_offsets(topic)[partition], self.end_offsets(topic)[partition]
        return first_at(self.read(topic, partition, start, end), time)

    def arrived_at(self, topic: str, partition: int, offset: int) -> float | None:
        """Return approximately when a record arrived, in seconds of the wall clock; None if the log does not know."""
        return None

    def reach(self, topic: str, partition: int, start: int, end: int, nbytes: int) -> int | None:
        """Return the highest timestamp of the next appends of a partition, up to so many bytes.

        Returns:
            None if these are all up to ``end``, or if the log would have to read the records.
        """
        return None

    def watch(self, topics: Sequence[str]) -> TopicWatch:
        """Return a watch that waits for records of topics."""
        return LookingWatch(self, topics)


def reach(appends: Iterable[tuple[int, int, int]], end: int, nbytes: int) -> int | None:
    """Return ``Reader.reach``, given the end, the bytes and the highest timestamp of each next append.

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


def check_start(topic: str, partition: int, start: int, first: int) -> None:
    """Raise ``OffsetOutOfRangeError`` when reading would begin before the first record that still exists."""
    if start < first:
        raise OffsetOutOfRangeError(
            f"topic {topic!r}, partition {partition}: offset {start} was removed by retention; "
            f"the first one still there is {first}"
        )

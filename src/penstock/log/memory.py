"""A log in the memory of one process, for tests. It remembers the order in which all records arrived."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.arrays import Binary, IntArray
from penstock.errors import TopicExistsError, TopicNotFoundError
from penstock.log.base import Log
from penstock.log.contract.reader import check_start, reach
from penstock.log.contract.topics import TopicInfo, check_topic, check_trim
from penstock.log.contract.writer import LastAppend, Segment, SegmentWriter, removed_meanwhile
from penstock.log.records import Records, offsets_from
from penstock.storage.base import FileRef


class MemoryLog(Log):
    """Topics in memory.

    >>> import pyarrow as pa
    >>> log = MemoryLog()
    >>> log.create_topic(TopicInfo("t", partitions=1))
    >>> with log.writer("t", "example") as writer:
    ...     writer.write(0, pa.array([b"a"], pa.binary()), pa.array([b"1"], pa.binary()), np.array([10]))
    >>> log.append("t", writer.segments()), log.end_offsets("t")
    (True, [1])
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self.arrived = 0
        """How many records have arrived in all topics."""

    @property
    def url(self) -> str:
        return "memory:"

    @property
    def place(self) -> None:
        return None

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def create_topic(self, info: TopicInfo) -> None:
        check_topic(info)
        if info.name in self._topics:
            raise TopicExistsError(f"topic {info.name!r} exists already")
        self._topics[info.name] = _Topic(info)

    def delete_topic(self, name: str) -> None:
        self._topic(name)
        del self._topics[name]

    def topic(self, name: str) -> TopicInfo:
        return self._topic(name).info

    def topic_id(self, name: str) -> str:
        return self._topic(name).id

    def start_offsets(self, topic: str) -> list[int]:
        return list(self._topic(topic).starts)

    def end_offsets(self, topic: str) -> list[int]:
        return list(self._topic(topic).ends)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        found = self._topic(topic)
        check_start(topic, partition, start, found.starts[partition])
        for records in found.pieces[partition]:
            if len(some := records.between(start, end)):
                yield some

    def reach(self, topic: str, partition: int, start: int, end: int, nbytes: int) -> int | None:
        pieces = (piece for piece in self._topic(topic).pieces[partition] if piece.end > start)
        return reach(((piece.end, piece.nbytes, int(piece.timestamp.max())) for piece in pieces), end, nbytes)

    def writer(self, topic: str, name: str) -> _MemoryWriter:
        return _MemoryWriter(self._topic(topic).written, f"{topic}-{name}")

    def append(
        self, topic: str, segments: Sequence[Segment], producer: str = "", sequence: int = -1, note: str = ""
    ) -> bool:
        found = self._topic(topic)
        if producer and found.producers.get(producer, -1) >= sequence:
            return False
        if any(segment.file.name not in found.written for segment in segments):
            raise removed_meanwhile(topic)
        found.producers[producer] = sequence
        found.notes[producer] = note
        for segment in segments:
            records = found.written.pop(segment.file.name)
            arrival = np.arange(self.arrived, self.arrived + len(records))
            self.arrived += len(records)
            end = found.ends[segment.partition]
            offsets = offsets_from(end, len(records))
            found.pieces[segment.partition].append(records.with_columns(offsets=offsets, arrival=arrival))
            found.ends[segment.partition] += len(records)
        return True

    def has_lost(self, topic: str, segments: Sequence[Segment]) -> bool:
        return any(segment.file.name not in self._topic(topic).written for segment in segments)

    def trim(self, topic: str, starts: dict[int, int]) -> None:
        found = self._topic(topic)
        check_trim(topic, starts, found.ends)
        for partition, start in starts.items():
            found.starts[partition] = max(start, found.starts[partition])
            found.pieces[partition] = [piece for piece in found.pieces[partition] if piece.end > start]

    def last_sequence(self, topic: str, producer: str) -> int:
        return self._topic(topic).producers.get(producer, -1)

    def last_append(self, topic: str, producer: str) -> LastAppend:
        found = self._topic(topic)
        return LastAppend(found.producers.get(producer, -1), found.notes.get(producer, ""))

    def _topic(self, name: str) -> _Topic:
        if name not in self._topics:
            raise TopicNotFoundError(f"topic {name!r} does not exist; the topics are {self.topics()}")
        return self._topics[name]


@dataclass
class _Topic:
    """One topic, and records that were written for it but not appended yet."""

    info: TopicInfo
    id: str = field(default_factory=lambda: os.urandom(8).hex())
    starts: list[int] = field(init=False)
    ends: list[int] = field(init=False)
    pieces: list[list[Records]] = field(init=False)
    written: dict[str, Records] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.starts = [0] * self.info.partitions
        self.ends = [0] * self.info.partitions
        self.pieces = [[] for _ in range(self.info.partitions)]


class _MemoryWriter(SegmentWriter):
    def __init__(self, written: dict[str, Records], name: str):
        self._written = written
        self._name = name
        self._segments: list[Segment] = []

    def __enter__(self) -> _MemoryWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def write(
        self, partition: int, key: Binary, value: Binary, timestamp: IntArray, headers: Any = None, placed: bool = False
    ) -> None:
        if len(timestamp):
            records = Records(-1, key, value, timestamp, headers, placed)
            ref = FileRef(f"{self._name}-{len(self._segments)}", records.nbytes, 0)
            self._written[ref.name] = records
            newest = int(timestamp.max())
            self._segments.append(
                Segment(partition, ref, [0], len(records), nbytes=records.nbytes, max_timestamp=newest, placed=placed)
            )

    def segments(self) -> list[Segment]:
        return list(self._segments)

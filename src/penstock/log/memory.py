"""A log in memory, for tests: one process, gone with it. It remembers the order in which all records arrived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.arrays import Binary, IntArray
from penstock.errors import TopicExistsError, TopicNotFoundError
from penstock.log.base import Log, Records, Segment, SegmentWriter, TopicInfo, check_topic
from penstock.storage import FileRef


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
        self._infos: dict[str, TopicInfo] = {}
        self._records: dict[str, list[list[Records]]] = {}
        self._written: dict[str, Records] = {}
        self._producers: dict[tuple[str, str], int] = {}
        self.arrived = 0
        """How many records have arrived in all topics."""

    @property
    def url(self) -> str:
        return "memory:"

    def topics(self) -> list[str]:
        return sorted(self._infos)

    def create_topic(self, info: TopicInfo) -> None:
        check_topic(info)
        if info.name in self._infos:
            raise TopicExistsError(f"topic {info.name!r} exists already")
        self._infos[info.name] = info
        self._records[info.name] = [[] for _ in range(info.partitions)]

    def topic(self, name: str) -> TopicInfo:
        if name not in self._infos:
            raise TopicNotFoundError(f"topic {name!r} does not exist; the topics are {self.topics()}")
        return self._infos[name]

    def start_offsets(self, topic: str) -> list[int]:
        return [0] * self.topic(topic).partitions

    def end_offsets(self, topic: str) -> list[int]:
        self.topic(topic)
        return [_end(pieces) for pieces in self._records[topic]]

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        self.topic(topic)
        for records in self._records[topic][partition]:
            if records.offset < end and records.offset + len(records) > start:
                yield records.slice(max(start - records.offset, 0), min(end - records.offset, len(records)))

    def writer(self, topic: str, name: str) -> _MemoryWriter:
        self.topic(topic)
        return _MemoryWriter(self._written, f"{topic}-{name}")

    def append(self, topic: str, segments: Sequence[Segment], producer: str = "", sequence: int = -1) -> bool:
        self.topic(topic)
        if producer and self._producers.get((topic, producer), -1) >= sequence:
            return False
        self._producers[topic, producer] = sequence
        for segment in segments:
            pieces = self._records[topic][segment.partition]
            records = self._written.pop(segment.file.name)
            arrival = np.arange(self.arrived, self.arrived + len(records))
            self.arrived += len(records)
            pieces.append(replace(records, offset=_end(pieces), arrival=arrival))
        return True

    def last_sequence(self, topic: str, producer: str) -> int:
        return self._producers.get((topic, producer), -1)


def _end(pieces: list[Records]) -> int:
    return pieces[-1].offset + len(pieces[-1]) if pieces else 0


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
            self._segments.append(Segment(partition, ref, [0], len(records), records.nbytes, newest, placed))

    def segments(self) -> list[Segment]:
        return list(self._segments)

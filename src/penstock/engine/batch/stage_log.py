"""The log of a task in a batch: it reads topics of the real log, and keeps the task's output until it is taken."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.errors import RefusedRecordError
from penstock.log.base import Log, TopicInfo
from penstock.log.contract.writer import Segment
from penstock.log.memory import MemoryLog
from penstock.log.records import Records


class StageLog(MemoryLog):
    """Topics of one stage.

    Args:
        topics: all topics that the topology reads and writes.
        real: the log from which some of them are read.
        read: those topics.
    """

    def __init__(self, topics: Iterable[TopicInfo], real: Log | None = None, read: Collection[str] = ()):
        super().__init__()
        for info in topics:
            self.create_topic(info)
        self._real, self._read = real, frozenset(read)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        """Return records of the real log; nothing for topics that come as rows."""
        if self._real is not None and topic in self._read:
            return self._real.read(topic, partition, start, end)
        return iter(())

    def take(self, sinks: Mapping[str, Sequence[Segment]]) -> Iterator[tuple[str, int, Records]]:
        """Yield and drop the written records, by topic and partition."""
        for topic, segments in sinks.items():
            self.append(topic, segments)
            for partition, (start, end) in enumerate(
                zip(self.start_offsets(topic), self.end_offsets(topic), strict=True)
            ):
                for records in super().read(topic, partition, start, end):
                    yield topic, partition, records
            self.trim(topic, dict(enumerate(self.end_offsets(topic))))


class TopicsLog(StageLog):
    """A stage's log whose output goes into the topics of the real log."""

    def __init__(self, real: Log, read: Collection[str]):
        super().__init__((), real, read)
        self._topics_of = real

    def writer(self, topic: str, name: str) -> Any:
        return self._topics_of.writer(topic, name)

    def refused(self, topic: str, records: Records) -> dict[int, RefusedRecordError]:
        return self._topics_of.refused(topic, records)

    def topic(self, name: str) -> TopicInfo:
        return self._topics_of.topic(name)

    def create_topic(self, info: TopicInfo) -> None:
        self._topics_of.create_topic(info)

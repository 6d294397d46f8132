"""Topics as seen from outside: how far they are read, and their newest records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifest
from penstock.errors import ConfigError, PenstockError
from penstock.log.base import Log
from penstock.log.records import Records
from penstock.query.plain import decoded
from penstock.serdes import Serde, from_name

_NO_LOG = "the place of the topics is not known; give it with --log-dir"
_MOST_LOOKS = 16
"""The number of a topic's partitions whose lag in time is checked: those with the most records."""


def offsets_of(manifest: Manifest, topics: Iterable[str]) -> dict[str, dict[int, int]]:
    """By topic and partition, the offset of the next record to read; for global tables, the lowest of all tasks."""
    found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    for task, entry in manifest.tasks.items():
        own = TaskId.parse(task).partition
        for place, offset in entry.offsets.items():
            topic, slash, number = place.partition("/")
            if topic in found:
                partition = int(number) if slash else own
                found[topic][partition] = min(offset, found[topic].get(partition, offset))
    return found


class TopicLook:
    """Looks at the topics of a log.

    Args:
        log: the log; None if unknown.
    """

    def __init__(self, log: Log | None):
        self._log = log

    @property
    def log(self) -> Log | None:
        """The log; None if unknown."""
        return self._log

    def lag(self, topic: str, offsets: dict[int, int]) -> dict[str, Any]:
        """The lag of a topic: for each partition, the records that wait, and the time between the oldest and the newest
        of them."""
        if self._log is None:
            return {}
        try:
            ends, starts = self._log.end_offsets(topic), self._log.start_offsets(topic)
            at = [max(offsets.get(partition, 0), start) for partition, start in enumerate(starts)]
            behind = [max(end - place, 0) for end, place in zip(ends, at, strict=True)]
            return {"ends": sum(ends), "lag": behind, "lag_ms": self._lag_ms(topic, at, ends, behind)}
        except (PenstockError, OSError) as error:
            return {"error": str(error)}

    def _lag_ms(self, topic: str, at: list[int], ends: list[int], behind: list[int]) -> int:
        most = sorted((p for p, records in enumerate(behind) if records), key=lambda p: -behind[p])[:_MOST_LOOKS]
        assert self._log is not None
        return max([0, *(self._waiting_ms(topic, partition, at[partition], ends[partition]) for partition in most)])

    def _waiting_ms(self, topic: str, partition: int, at: int, end: int) -> int:
        """The time between the oldest and the newest waiting record of a partition; 0 if none waits."""
        assert self._log is not None
        newest = self._log.newest(topic, partition, at, end, 1)
        return 0 if newest is None else int(newest.timestamp[0]) - self._log.timestamp_at(topic, partition, at)

    def newest(self, topic: str, limit: int) -> dict[str, Any]:
        """The newest records of a topic, the newest first.

        Raises:
            ConfigError: the place of the topics is unknown.
            TopicNotFoundError: there is no such topic.
        """
        if self._log is None:
            raise ConfigError(_NO_LOG)
        info, found = self._log.topic(topic), []
        for records, partition in self.newest_of(topic, limit):
            found += _rows(records, partition, from_name(info.key), from_name(info.value))
        found.sort(key=lambda row: (row["timestamp"], row["offset"]), reverse=True)
        types = {"key": info.key, "value": info.value}
        return {"topic": topic, "records": self.present(topic), "types": types, "rows": found[:limit]}

    def newest_of(self, topic: str, limit: int) -> Iterator[tuple[Records, int]]:
        """The newest records of each partition, with its number."""
        if self._log is None:
            raise ConfigError(_NO_LOG)
        starts, ends = self._log.start_offsets(topic), self._log.end_offsets(topic)
        for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
            records = self._log.newest(topic, partition, start, end, limit)
            if records is not None:
                yield records, partition

    def present(self, topic: str) -> int:
        """How many records a topic has."""
        assert self._log is not None
        return sum(self._log.end_offsets(topic)) - sum(self._log.start_offsets(topic))


def _rows(records: Records, partition: int, key: Serde, value: Serde) -> list[dict[str, Any]]:
    columns = (
        records.offsets.tolist(),
        records.timestamp.tolist(),
        decoded(key, records.key),
        decoded(value, records.value),
    )
    names = ("partition", "offset", "timestamp", "key", "value")
    return [dict(zip(names, (partition, *row), strict=True)) for row in zip(*columns, strict=True)]

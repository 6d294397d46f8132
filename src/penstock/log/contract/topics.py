"""Topics themselves: their names, their descriptions, and how much of them is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import msgspec

from penstock.errors import ConfigError, OffsetOutOfRangeError, TopicNotFoundError
from penstock.values.topic_names import MOST_PARTITIONS, check_topic_name

NO_LIMIT = -1
"""Unlimited retention, in time or in bytes."""


class TopicInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The description of a topic.

    ``key`` and ``value`` name the types in it, for programs that read it without the one that wrote it.
    """

    name: str
    partitions: int
    key: str = "bytes"
    value: str = "bytes"
    retention_ms: int = NO_LIMIT
    retention_bytes: int = NO_LIMIT
    schema: str = ""
    """The types that the keys and values had as columns, as ``log.schema`` packs them; empty where they were none."""


class Topics(ABC):
    """Creates, describes, trims and removes the topics of a log."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL that opens the same log elsewhere."""

    @property
    def keeps_types(self) -> bool:
        """Whether topics know the types of their keys and values."""
        return True

    @abstractmethod
    def topics(self) -> list[str]:
        """Return the names of all topics, sorted."""

    @abstractmethod
    def create_topic(self, info: TopicInfo) -> None:
        """Create a topic. Raise ``TopicExistsError``, or ``ConfigError`` for an invalid name or no partitions."""

    @abstractmethod
    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records; raises ``TopicNotFoundError``.

        A running write into it fails with ``TopicNotFoundError``, even if a new topic of this name exists by then.
        """

    @abstractmethod
    def topic(self, name: str) -> TopicInfo:
        """Return the description of a topic; raises ``TopicNotFoundError``."""

    @abstractmethod
    def topic_id(self, name: str) -> str:
        """Return the id that distinguishes a topic from others of the same name; raises ``TopicNotFoundError``.

        Empty for topics that were created before topics had ids, or by hand.
        """

    def topic_ids(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the ids of several topics, None for those that do not exist."""
        return {name: self.topic_id(name) if self.exists(name) else None for name in names}

    def mark(self, topic: str) -> str:
        """Return a mark of everything that a topic has now, for ``denies``; empty if the log has no marks."""
        return ""

    def denies(self, topic: str, mark: str) -> bool:
        """Return whether a topic certainly lacks what it had at a mark: it was restored from an older copy."""
        return False

    def exists(self, topic: str) -> bool:
        """Return whether a topic of this name exists."""
        try:
            self.topic(topic)
        except TopicNotFoundError:
            return False
        return True

    @abstractmethod
    def trim(self, topic: str, starts: dict[int, int]) -> None:
        """Remove the records of partitions before these offsets. Space is freed by whole segments only.

        Raises:
            OffsetOutOfRangeError: the partition does not exist or ends before the offset.
        """

    def why_not_emptied(self, topic: str) -> str:
        """Return why ``trim`` is impossible for a topic; empty if it is possible."""
        return ""

    def set_retention(self, topic: str, retention_ms: int | None = None, retention_bytes: int | None = None) -> None:
        """Change how long, or how much of each partition, records are kept; -1 for no limit."""
        raise ConfigError(f"the topics of {self.url} keep what they have")

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions; every record stays in its partition.

        Raises:
            ConfigError: this log cannot do that, or the topic would have fewer.
        """
        raise ConfigError(f"the topics of {self.url} get their partitions when they are created; create a new topic")

    def tidy(self, topic: str) -> None:  # noqa: B027 - others do so by themselves
        """Remove expired records at once."""


def check_topic(info: TopicInfo) -> None:
    """Raise ``ConfigError`` for an invalid topic name, or a topic without partitions."""
    check_topic_name(info.name)
    check_partition_count(info.name, info.partitions)


def check_partition_count(topic: str, partitions: int) -> None:
    """Raise ``ConfigError`` for a count of partitions that no topic has. A topic never gets fewer, so a count that was
    mistyped would be there for good.
    """
    if partitions < 1:
        raise ConfigError(f"topic {topic!r}: a topic has at least 1 partition, got {partitions}")
    if partitions >= 1 << 31:
        raise ConfigError(f"topic {topic!r}: a topic has less than 2**31 partitions, got {partitions}")
    if partitions > MOST_PARTITIONS:
        raise ConfigError(
            f"topic {topic!r}: a topic has at most {MOST_PARTITIONS:,} partitions, got {partitions:,}; each one is a "
            "task of the programs that read it"
        )


def check_trim(topic: str, starts: dict[int, int], ends: Sequence[int]) -> None:
    """Raise ``OffsetOutOfRangeError`` for removing records that a topic with these ends does not have."""
    for partition, start in starts.items():
        if not 0 <= partition < len(ends):
            raise OffsetOutOfRangeError(f"topic {topic!r} has no partition {partition} to remove records from")
        if start > ends[partition]:
            raise OffsetOutOfRangeError(
                f"topic {topic!r}, partition {partition}: cannot remove the records before offset {start}; "
                f"the partition ends at offset {ends[partition]}"
            )

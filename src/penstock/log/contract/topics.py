"""Topics as such: which there are, what each one is, and what is kept of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import msgspec

from penstock.errors import ConfigError, OffsetOutOfRangeError, TopicNotFoundError
from penstock.topic_names import check_topic_name

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


class Topics(ABC):
    """The topics of a log, for those who make, describe, trim and remove them."""

    @property
    @abstractmethod
    def url(self) -> str:
        """How to open the same log elsewhere."""

    @property
    def keeps_types(self) -> bool:
        """Whether topics say of which types their keys and values are."""
        return True

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

    def exists(self, topic: str) -> bool:
        """Whether there is a topic of this name."""
        try:
            self.topic(topic)
        except TopicNotFoundError:
            return False
        return True

    @abstractmethod
    def trim(self, topic: str, starts: dict[int, int]) -> None:
        """Remove the records of partitions before these offsets; whole segments only give their space back.

        Raises:
            OffsetOutOfRangeError: the partition does not exist or ends before the offset.
        """

    def why_not_emptied(self, topic: str) -> str:
        """Why ``trim`` is not possible; empty where it is."""
        return ""

    def set_retention(self, topic: str, retention_ms: int | None = None, retention_bytes: int | None = None) -> None:
        """Change how long, or how much of each partition, records are kept; -1 for ever, and for all."""
        raise ConfigError(f"the topics of {self.url} keep what they have")

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions, of which each record keeps its own; raises ``ConfigError`` where that is not
        to be had here, or there would be fewer."""
        raise ConfigError(f"the topics of {self.url} get their partitions where they are made")

    def tidy(self, topic: str) -> None:  # noqa: B027 - others do so by themselves
        """Remove at once what the topic does not keep."""


def check_topic(info: TopicInfo) -> None:
    """Raise ``ConfigError`` for a name that no topic can bear, or a topic without partitions."""
    check_topic_name(info.name)
    if info.partitions < 1:
        raise ConfigError(f"topic {info.name!r}: a topic has at least 1 partition, got {info.partitions}")
    if info.partitions >= 1 << 31:
        raise ConfigError(f"topic {info.name!r}: a topic has less than 2**31 partitions, got {info.partitions}")


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

"""Topics of a cluster: made, described, removed, and where they begin and end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, ConfigResource, NewTopic, OffsetSpec, ResourceType

from penstock.errors import LogError, TopicExistsError, TopicNotFoundError
from penstock.log.base import NO_LIMIT, TopicInfo
from penstock.log.kafka.client import Clients

_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_SETTINGS = {"retention_ms": "retention.ms", "retention_bytes": "retention.bytes"}


class Described(NamedTuple):
    """A topic as the cluster has it now."""

    id: str
    partitions: int
    may_write: bool


class KafkaTopics:
    """The topics of one cluster."""

    def __init__(self, clients: Clients):
        self._clients = clients

    def names(self) -> list[str]:
        """The names of all topics but the cluster's own, sorted."""
        with self._clients.told("cannot list the topics"):
            found = self._clients.admin.list_topics(timeout=self._clients.cluster.timeout)
        return sorted(name for name in found.topics if not name.startswith("__"))

    def create(self, info: TopicInfo) -> None:
        """Make a topic; the cluster chooses how many copies there are."""
        config = {name: str(getattr(info, field)) for field, name in _SETTINGS.items() if getattr(info, field) >= 0}
        config |= {"retention.ms": str(NO_LIMIT)} if info.retention_ms == NO_LIMIT else {}
        new = NewTopic(info.name, info.partitions, -1, config=config)
        try:
            self._clients.admin.create_topics([new])[info.name].result(self._clients.cluster.timeout)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicExistsError(f"topic {info.name!r} exists already in {self._clients.cluster.url}") from None
            raise self._clients.error_of(error.args[0], f"cannot make topic {info.name!r}") from None

    def delete(self, name: str) -> None:
        """Remove a topic."""
        self.describe([name])
        self._clients.ask(self._clients.admin.delete_topics([name])[name], f"cannot remove topic {name!r}")

    def describe(self, names: Iterable[str]) -> dict[str, Described]:
        """What topics are; raises ``TopicNotFoundError`` when one does not exist."""
        found = self.found(names)
        for name, one in found.items():
            if one is None:
                raise self.not_found(name)
        return {name: one for name, one in found.items() if one is not None}

    def found(self, names: Iterable[str]) -> dict[str, Described | None]:
        """What topics are, in one request; None for those that do not exist."""
        wanted = list(names)
        if not wanted:
            return {}
        asked = self._clients.admin.describe_topics(TopicCollection(wanted), include_authorized_operations=True)
        return {name: self._described(name, future) for name, future in asked.items()}

    def _described(self, name: str, future: Any) -> Described | None:
        try:
            found = future.result(self._clients.cluster.timeout + 5)
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN:
                return None
            raise self._clients.error_of(error.args[0], f"cannot look topic {name!r} up") from None
        may = found.authorized_operations
        return Described(str(found.topic_id), len(found.partitions), not may or AclOperation.WRITE in may)

    def not_found(self, name: str) -> TopicNotFoundError:
        """The error for a topic that does not exist."""
        others = self.names()
        there = f"the topics are {', '.join(others)}" if others else "there are no topics yet"
        return TopicNotFoundError(
            f"topic {name!r} does not exist in {self._clients.cluster.url}: {there}; make it with "
            f"`penstock topics create {name}` or Kafka's own tools"
        )

    def config(self, name: str) -> dict[str, str]:
        """A topic's configuration, by Kafka's names."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        asked = self._clients.admin.describe_configs([resource])[resource]
        found = self._clients.ask(asked, f"cannot read the configuration of topic {name!r}")
        return {key: entry.value for key, entry in found.items() if entry.value is not None}

    def offsets(self, name: str, partitions: int, where: OffsetSpec) -> list[int]:
        """For each partition its first or its last offset; the last one is where what is committed ends."""
        wanted = {TopicPartition(name, partition): where for partition in range(partitions)}
        asked = self._clients.admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        found = {place.partition: self._clients.ask(f, f"topic {name!r}") for place, f in asked.items()}
        return [found[partition].offset for partition in range(partitions)]

    def trim(self, name: str, starts: dict[int, int]) -> None:
        """Remove the records of partitions before these offsets."""
        wanted = [TopicPartition(name, partition, offset) for partition, offset in starts.items()]
        for future in self._clients.admin.delete_records(wanted).values():
            self._clients.ask(future, f"cannot remove records of topic {name!r}")

    def check_writable(self, name: str, found: Described) -> None:
        """Raise ``LogError`` when this user may not write into a topic."""
        if not found.may_write:
            raise LogError(
                f"topic {name!r}: this user may not write into it; nothing was written. Grant it WRITE on the topic"
            )

"""Creates, describes and removes topics of a cluster, and finds their first and last offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from penstock.errors import LogError, TopicExistsError, TopicNotFoundError
from penstock.log.contract.topics import NO_LIMIT, TopicInfo
from penstock.log.kafka.client import Clients
from penstock.log.kafka.limits import FOREVER, USUAL_REQUEST_BYTES, Limits, limits_of
from penstock.messages import nearest

_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_SETTINGS = {"retention_ms": "retention.ms", "retention_bytes": "retention.bytes"}


_HEARD_SECONDS = 0.02
_A_MOMENT = 0.02
"""How long topic metadata is cached, in seconds; each step of a commit asks for it."""
_RECENT = 1.0


class Described(NamedTuple):
    """A topic's present description in the cluster."""

    id: str
    partitions: int
    may_write: bool
    is_internal: bool = False
    """Whether it is one of the cluster's internal topics, which no user may write."""


class KafkaTopics:
    """The topics of one cluster."""

    def __init__(self, clients: Clients):
        self._clients = clients
        self._known: dict[str, tuple[float, Described | None]] = {}
        """The cached descriptions of topics, and when they were looked up."""
        self._most_of_requests: int | None = None
        self._together: set[str] = set()
        """The topics of the last request: if one is requested again, the others will be soon."""

    def names(self) -> list[str]:
        """Return the names of all topics but the cluster's own, sorted."""
        found = self._clients.metadata("cannot list the topics")
        return sorted(name for name in found.topics if not name.startswith("__"))

    def create(self, info: TopicInfo) -> None:
        """Create a topic; the cluster chooses the number of replicas."""
        self._known.clear()
        config = {name: str(getattr(info, field)) for field, name in _SETTINGS.items() if getattr(info, field) >= 0}
        config |= {"retention.ms": str(NO_LIMIT)} if info.retention_ms == NO_LIMIT else {}
        config["message.timestamp.after.max.ms"] = str(FOREVER)  # results may have any time, such as a window's end
        new = NewTopic(info.name, info.partitions, -1, config=config)
        try:
            self._clients.admin.create_topics([new])[info.name].result(self._clients.cluster.timeout)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicExistsError(
                    f"topic {info.name!r} exists already in {self._clients.cluster.url}; use it, or choose another name"
                ) from None
            raise self._clients.error_of(error.args[0], f"cannot make topic {info.name!r}") from None
        self._wait_until(info.name, is_there=True)

    def delete(self, name: str) -> None:
        """Remove a topic."""
        self._known.clear()
        self.describe([name])
        self._clients.ask(
            lambda admin, wait: admin.delete_topics([name], request_timeout=wait), f"cannot remove topic {name!r}"
        )
        self._wait_until(name, is_there=False)

    def _wait_until(self, name: str, is_there: bool) -> None:
        """Wait until brokers know of a topic's creation or removal, which takes a moment after the controller's
        answer.
        """
        until = time.monotonic() + self._clients.cluster.timeout
        while (self._ask([name])[name] is not None) != is_there and time.monotonic() < until:
            time.sleep(_HEARD_SECONDS)

    def describe(self, names: Iterable[str]) -> dict[str, Described]:
        """Return the descriptions of topics; raises ``TopicNotFoundError`` if one does not exist."""
        found = self.found(names)
        for name, one in found.items():
            if one is None:
                raise self.not_found(name)
        return {name: one for name, one in found.items() if one is not None}

    def recently(self, name: str) -> Described:
        """Return a topic's description, at most a second old; raises ``TopicNotFoundError`` if it does not exist."""
        found = self._within([name], _RECENT)[name]
        if found is None:
            raise self.not_found(name)
        return found

    def partitions(self, name: str) -> int:
        """Return the last known partition count of a topic."""
        known = self._known.get(name)
        return self.describe([name])[name].partitions if known is None or known[1] is None else known[1].partitions

    def found(self, names: Iterable[str]) -> dict[str, Described | None]:
        """Return the descriptions of topics, in one request; None for those that do not exist."""
        return self._within(list(names), _A_MOMENT)

    def _within(self, names: list[str], seconds: float) -> dict[str, Described | None]:
        """Return descriptions that are at most so many seconds old."""
        since = time.monotonic() - seconds
        if len(names) > 1:
            self._together = set(names)
        if any(name not in self._known or self._known[name][0] < since for name in names):
            self._ask(list(dict.fromkeys([*names, *(self._together if self._together & {*names} else ())])))
        return {name: self._known[name][1] for name in names}

    def _ask(self, wanted: list[str]) -> dict[str, Described | None]:
        if not wanted:
            return {}

        def asking(admin: AdminClient, wait: float) -> dict[str, Any]:
            collection = TopicCollection(wanted)
            asked = admin.describe_topics(collection, include_authorized_operations=True, request_timeout=wait)
            return {name: _OrMissing(asked[name]) for name in wanted}

        began = time.monotonic()
        answers = self._clients.ask(asking, f"cannot look topics up ({', '.join(wanted)})")
        found = {name: self._described(one) for name, one in zip(wanted, answers, strict=True)}
        self._known |= {name: (began, one) for name, one in found.items()}
        return found

    def _described(self, found: Any) -> Described | None:
        if found is None:
            return None
        may = found.authorized_operations
        own_id = str(found.topic_id).replace("+", "-").replace("/", "_")  # the same form as in Kafka
        return Described(own_id, len(found.partitions), not may or AclOperation.WRITE in may, found.is_internal)

    def not_found(self, name: str) -> TopicNotFoundError:
        """Return the error for a topic that does not exist."""
        others = self.names()
        there = f"the topics are {', '.join(others)}{nearest(name, others)}" if others else "there are no topics yet"
        return TopicNotFoundError(
            f"topic {name!r} does not exist in {self._clients.cluster.url}: {there}; make it with "
            f"`penstock topics create {name}` or Kafka's own tools"
        )

    def config(self, name: str) -> dict[str, str]:
        """Return a topic's configuration, by Kafka's names."""
        return self._config(ResourceType.TOPIC, name, f"topic {name!r}")

    def _config(self, kind: ResourceType, name: str, shown: str) -> dict[str, str]:
        resource = ConfigResource(kind, name)
        what = f"cannot read the configuration of {shown}"
        found = self._clients.ask(lambda admin, wait: admin.describe_configs([resource], request_timeout=wait), what)[0]
        return {key: entry.value for key, entry in found.items() if entry.value is not None}

    def configure(self, name: str, config: dict[str, str]) -> None:
        """Change a topic's configuration, by Kafka's names."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        wanted = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)]
        what = f"cannot change the configuration of topic {name!r}"
        self._clients.ask(lambda admin, wait: admin.incremental_alter_configs(wanted, request_timeout=wait), what)

    def limits(self, name: str) -> Limits:
        """Return the limits of a topic; Kafka's defaults if this user may not read its configuration."""
        try:
            config = self.config(name)
        except LogError:
            return Limits()
        of_client = int(self._clients.cluster.options().get("message.max.bytes", FOREVER))
        return limits_of(config, self._request_bytes(), of_client)

    def _request_bytes(self) -> int:
        """Return the request size limit of all brokers; Kafka's default if this user may not read it."""
        if self._most_of_requests is None:
            self._most_of_requests = USUAL_REQUEST_BYTES
            with suppress(LogError):
                brokers = self._clients.metadata("cannot list the brokers").brokers
                found = (self._config(ResourceType.BROKER, str(one), f"broker {one}") for one in brokers)
                option = "socket.request.max.bytes"
                self._most_of_requests = min(int(one.get(option, USUAL_REQUEST_BYTES)) for one in found)
        return self._most_of_requests

    def offsets(self, name: str, partitions: int, where: OffsetSpec, is_committed: bool = True) -> list[int]:
        """Return the first or the last offset of each partition.

        Args:
            is_committed: whether the last offset is the end of committed records, before those of open transactions.
        """
        return self._offsets(name, range(partitions), where, is_committed)

    def offset_at(self, name: str, partition: int, time: int) -> int | None:
        """Return the broker's offset of a partition's first record of a time or later; None if none exists."""
        where = OffsetSpec.for_timestamp(time) if time >= 0 else OffsetSpec.earliest()
        [found] = self._offsets(name, [partition], where)
        return found if found >= 0 else None

    def _offsets(self, name: str, partitions: Iterable[int], where: OffsetSpec, is_committed: bool = True) -> list[int]:
        wanted = {TopicPartition(name, partition): where for partition in partitions}

        def asking(admin: AdminClient, wait: float) -> dict[Any, Any]:
            level = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
            asked = admin.list_offsets(wanted, isolation_level=level, request_timeout=wait)
            return dict(sorted(asked.items(), key=lambda item: int(item[0].partition)))

        return [found.offset for found in self._clients.ask(asking, f"cannot find the ends of topic {name!r}")]

    def trim(self, name: str, starts: dict[int, int]) -> None:
        """Remove the records of partitions before these offsets."""
        wanted = [TopicPartition(name, partition, offset) for partition, offset in starts.items()]
        self._clients.ask(
            lambda admin, wait: admin.delete_records(wanted, request_timeout=wait),
            f"cannot remove records of topic {name!r}",
        )

    def check_writable(self, name: str, found: Described) -> None:
        """Raise ``LogError`` when this user may not write into a topic."""
        if found.is_internal:
            raise LogError(f"topic {name!r} is one of Kafka's own: nobody may write into it. Write into another topic")
        if not found.may_write:
            raise LogError(
                f"topic {name!r}: this user may not write into it; nothing was written. Grant it WRITE on the topic"
            )


class _OrMissing:
    """A future that holds None for a topic that does not exist."""

    def __init__(self, future: Any):
        self._future = future

    def result(self, timeout: float | None = None) -> Any:
        try:
            return self._future.result(timeout)
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN:
                return None
            raise

"""A Kafka broker as tests use it: topics of their own, and what any reader of committed records sees."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from penstock.log.base import TopicInfo
from penstock.log.cluster import Kafka
from penstock.log.consume import consume
from penstock.log.kafka.log import KafkaLog


class Cluster:
    """The broker, seen by one test: its topics have names that no other test uses.

    Args:
        servers: where it is.
    """

    def __init__(self, servers: str):
        self.servers = servers
        self.name = f"t{os.urandom(6).hex()}"
        self.log = self.opened()

    def opened(self, timeout: str = "60 seconds", options: dict[str, str] | None = None) -> KafkaLog:
        """The log of another program."""
        return KafkaLog(Kafka(self.servers, options, timeout=timeout))

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers})

    def topic(self, name: str, partitions: int = 1) -> str:
        """Make a topic; its whole name."""
        full = f"{self.name}-{name}"
        self.log.create_topic(TopicInfo(full, partitions))
        return full

    def made_anew(self, name: str, partitions: int = 1) -> None:
        """Make a topic with just this name, removing what bears it."""
        if self.log.exists(name):
            self.log.delete_topic(name)
            self.wait_for(lambda: not self.log.exists(name))
        self.log.create_topic(TopicInfo(name, partitions))

    def rows(self, topic: str, **types: Any) -> list[tuple[Any, ...]]:
        """Key, value and timestamp of all records in their order, partition by partition."""
        found = sorted(consume(topic, log=self.opened(), **types), key=lambda one: (one.partition, one.offset))
        return [(one.key, one.value, one.timestamp) for one in found]

    def group(self) -> dict[tuple[str, int], int]:
        """Up to where the group with the test's name has committed."""
        return {place: offset for place, (offset, _) in self.notes().items()}

    def notes(self) -> dict[tuple[str, int], tuple[int, Any]]:
        """What that group has committed, with what stands beside it."""
        from penstock.log.kafka.sink import Notes

        return Notes(self.log._clients, self.name).read()

    def go_back_to(self, notes: dict[tuple[str, int], tuple[int, Any]]) -> None:
        """Have the group say what it said before, as when the broker has lost what came since."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": self.name})
        texts = {place: msgspec.json.encode(note).decode() for place, (_, note) in notes.items() if note is not None}
        own = [TopicPartition(*place, offset, metadata=texts.get(place)) for place, (offset, _) in notes.items()]
        consumer.commit(offsets=own, asynchronous=False)
        consumer.close()

    def forget_group(self) -> None:
        """Have the broker forget the group, as it does after a week without a commit."""
        self.admin.delete_consumer_groups([self.name])[self.name].result(30)

    def producer(self, transactional_id: str | None = None) -> Any:
        """A producer of somebody else, in transactions if it has an id."""
        own = {"transactional.id": transactional_id} if transactional_id else {}
        producer = Producer({"bootstrap.servers": self.servers, **own})
        if transactional_id:
            producer.init_transactions(30)
        return producer

    def add_partition(self, topic: str) -> None:
        count = self.log.topic(topic).partitions + 1
        self.admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)
        self.wait_for(lambda: self.log.topic(topic).partitions == count)

    def configure(self, topic: str, config: dict[str, str]) -> None:
        """Change a topic's configuration."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
        ]
        wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for future in self.admin.incremental_alter_configs([wanted]).values():
            future.result(30)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """What the broker does a moment after it said so."""
        until = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < until, "it did not come true"
            time.sleep(0.01)

    def wait_for_records(self, topic: str, count: int) -> None:
        """Until a topic shows so many records."""
        self.wait_for(lambda: len(self.rows(topic)) >= count)

    def close(self) -> None:
        """Remove the topics; nobody waits until they are gone."""
        self.log.close()
        own = [name for name in self.log.topics() if name.startswith(self.name)]
        if own:
            self.admin.delete_topics(own)

"""Waits for new records with a consumer at the ends of the partitions.

It fetches only during a wait, not during other work: at a thousand records a second an unpaused consumer makes as many
requests, which cost the broker a fifth of a core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from penstock.log.kafka.client import Clients
from penstock.log.watch import LookingWatch, TopicWatch

if TYPE_CHECKING:
    from penstock.log.base import Log

_LOOK_SECONDS = 1.0
"""Pause between checks of the topics themselves: no record tells of a removal or new partitions."""
_POLL_SECONDS = 0.05
"""Longest uninterrupted wait for librdkafka: waking the watch cannot interrupt it."""

_OPTIONS = {
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "latest",
    "allow.auto.create.topics": "false",
    "queued.min.messages": "1",
    "fetch.queue.backoff.ms": "10",
    "queued.max.messages.kbytes": "1",
    "fetch.message.max.bytes": "1024",
}
"""Fetch little: only the existence of records matters. The 10 ms back-off replaces the default of a second, in which
the next wait would hear of nothing.
"""


class KafkaWatch(TopicWatch):
    """Waits for records with a consumer of all partitions of some topics.

    Args:
        group: the consumer group that it names; it commits nothing, and joins nothing.
    """

    def __init__(self, log: Log, clients: Clients, group: str, topics: Sequence[str]):
        self._clients = clients
        self._group = group
        self._topics = set(topics)
        self._looks = LookingWatch(log, topics)
        self._woken = threading.Event()
        self._consumer: Any = None
        self._at: dict[tuple[str, int], int] = {}
        """The end of each partition as far as the caller knows it."""

    def has_seen(self, ends: Mapping[str, Sequence[int]]) -> None:
        self._looks.has_seen(ends)
        self._at = {(topic, p): end for topic in self._topics for p, end in enumerate(ends.get(topic, ()))}

    def wait(self, timeout: float) -> None:
        if self._at:
            self._begin()
        try:
            self._wait(timeout)
        finally:
            if self._consumer is not None:
                self._consumer.unassign()
            self._woken.clear()

    def _begin(self) -> None:
        if self._consumer is None:
            self._consumer = self._clients.make(Consumer, {**_OPTIONS, "group.id": self._group})
        with self._clients.told("cannot wait for records"):
            self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._at.items()])

    def _wait(self, timeout: float) -> None:
        deadline, look = time.monotonic() + timeout, time.monotonic() + _LOOK_SECONDS
        while not self._woken.is_set() and (left := deadline - time.monotonic()) > 0:
            if time.monotonic() >= look or self._consumer is None:
                if self._looks.has_more():
                    break
                look = time.monotonic() + _LOOK_SECONDS
            if self._consumer is None:
                self._woken.wait(min(left, _POLL_SECONDS))
            elif self._has_come(min(left, _POLL_SECONDS)):
                break

    def _has_come(self, seconds: float) -> bool:
        found = self._consumer.poll(seconds)
        if found is not None and found.error():  # the caller's next look finds the error
            self._woken.wait(_POLL_SECONDS)
        return found is not None

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

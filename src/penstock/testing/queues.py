"""Queues of records before sources: one for each topic; the lowest head goes first.

Between equal heads Kafka Streams takes the one on top of its priority queue. Cases recorded from it show that order, so
the heap here moves its elements exactly like ``java.util.PriorityQueue``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.columns.column import Column
from penstock.errors import ProcessingError

Topic = TypeVar("Topic", bound=Hashable)


class Queued(NamedTuple):
    """A record on its way into a source."""

    key: Column
    value: Column
    old: Column | None
    timestamp: int
    headers: Any


class Timed(Protocol):
    @property
    def timestamp(self) -> int: ...


class TopicQueues(Generic[Topic]):
    """Queues of records by topic.

    >>> from penstock import Record
    >>> queues = TopicQueues()
    >>> for topic, time in [("a", 5), ("b", 3), ("b", 9), ("a", 1)]:
    ...     queues.add(topic, Record(None, None, time))
    >>> [(topic, record.timestamp) for topic, record in iter(queues.next, None)]
    [('b', 3), ('a', 5), ('a', 1), ('b', 9)]
    """

    def __init__(self) -> None:
        self._queues: dict[Topic, deque[Any]] = {}
        self._heap: list[Topic] = []
        self._ahead: deque[tuple[Topic, Any]] = deque()
        """Records without a time, which Kafka Streams does not have: they go before all others."""

    def add(self, topic: Topic, record: Timed) -> None:
        if record.timestamp < 0:
            self._ahead.append((topic, record))
            return
        queue = self._queues.setdefault(topic, deque())
        queue.append(record)
        if len(queue) == 1:
            self._offer(topic)

    def next(self) -> tuple[Topic, Any] | None:
        """Return the next record and its topic; None when all queues are empty."""
        if self._ahead:
            return self._ahead.popleft()
        if not self._heap:
            return None
        topic = self._poll()
        record = self._queues[topic].popleft()
        if self._queues[topic]:
            self._offer(topic)
        return topic, record

    def _head(self, topic: Topic) -> int:
        return self._queues[topic][0].timestamp  # type: ignore[no-any-return]

    def _offer(self, topic: Topic) -> None:
        heap, place = self._heap, len(self._heap)
        heap.append(topic)
        while place > 0:
            parent = (place - 1) // 2
            if self._head(topic) >= self._head(heap[parent]):
                break
            heap[place], place = heap[parent], parent
        heap[place] = topic

    def _poll(self) -> Topic:
        heap = self._heap
        top, last = heap[0], heap.pop()
        place, size = 0, len(heap)
        if not size:
            return top
        while 2 * place + 1 < size:
            child = 2 * place + 1
            if child + 1 < size and self._head(heap[child]) > self._head(heap[child + 1]):
                child += 1
            if self._head(last) <= self._head(heap[child]):
                break
            heap[place], place = heap[child], child
        heap[place] = last
        return top


def endless(own: str, topic: str, most: int) -> ProcessingError:
    """Return the error for a topology that feeds itself without an end.

    Args:
        own: a topic that the topology both reads and writes.
        topic: the topic in which one input record has made more than ``most`` records.
    """
    return ProcessingError(
        f"the topology reads the topic {own!r} that it writes: one input record has made more than {most:,} records in "
        f"{topic!r} and there is no end. A running application continues forever as well, as in Kafka Streams. Write "
        "into another topic, or filter what goes back; where so many are meant, set the driver's most_fed_back"
    )

"""Reads partitions as columns: one open consumer each, which fetches ahead."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from penstock.log.kafka.client import Clients, bulk_or_none, is_passing
from penstock.log.kafka.taken import Taken, taken_of
from penstock.log.records import Records

if TYPE_CHECKING:
    from penstock.log.kafka.bulk import PartitionQueue

_AT_ONCE = 10_000
"""Messages taken from librdkafka at once, and so in a piece of records."""
_KEPT_RECORDS = 65_536
_KEPT_BYTES = 48 << 20
"""How much of the last output is kept: a commit seldom ends with a piece, and the next one begins in the middle."""
_OPEN_CONSUMERS = 64
_MUCH = 20_000
"""From so many offsets on, records are read in bulk."""
_WAIT_SECONDS = 0.5

_OPTIONS = {
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "allow.auto.create.topics": "false",
}
_AHEAD = {
    "queued.max.messages.kbytes": "16384",
    "queued.min.messages": "50000",
    "fetch.queue.backoff.ms": "10",
    "fetch.wait.max.ms": "100",
    "topic.metadata.propagation.max.ms": "5000",
}
"""How far a consumer fetches ahead by default. After it has stopped fetching, it checks again soon, instead of after
librdkafka's default second.
"""


class Sources:
    """The partitions that this process reads."""

    def __init__(self, clients: Clients, group: str):
        self._clients = clients
        self._group = group
        self._open: OrderedDict[tuple[str, int], PartitionSource] = OrderedDict()

    def reads(self, topic: str, partition: int) -> bool:
        """Return whether a partition is open."""
        return (topic, partition) in self._open

    def of(self, topic: str, partition: int) -> PartitionSource:
        """Return the source of a partition; it stays open until many others are requested."""
        place = topic, partition
        found = self._open.get(place)
        if found is None:
            found = self._open[place] = PartitionSource(self._clients, self._group, topic, partition)
            if len(self._open) > _OPEN_CONSUMERS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(place)
        return found

    def forget(self, topic: str) -> None:
        """Close the sources of a removed topic."""
        for place in [place for place in self._open if place[0] == topic]:
            self._open.pop(place).close()

    def close(self) -> None:
        """Close all of them."""
        for one in self._open.values():
            one.close()
        self._open.clear()


class PartitionSource:
    """One partition, read from any offset on.

    Offsets have gaps: where transactions end or were aborted, and where compaction has removed records. So a range is
    complete when a later record arrives, or when the cluster reports that nothing more exists up to an offset.
    """

    def __init__(self, clients: Clients, group: str, topic: str, partition: int):
        self._clients = clients
        self._group = group
        self._topic = topic
        self._partition = partition
        self._what = f"cannot read topic {topic!r}, partition {partition}"
        self._consumer: Any = None
        self._queue: PartitionQueue | None = None
        """The queue for bulk reads; None while messages come from the consumer one by one."""
        self._next = -1
        """All records with lower offsets were returned."""
        self._seen = -1
        """All records with lower offsets have been received."""
        self._ahead: deque[Records] = deque()
        """Received records that have not been requested yet."""
        self._kept: deque[Records] = deque()
        self._kept_records = self._kept_bytes = 0
        self._rests = False

    def read(self, start: int, end: int) -> Iterator[Records]:
        """Yield the records with ``start <= offset < end``.

        Raises:
            OffsetOutOfRangeError: the records from ``start`` on no longer exist.
            TopicNotFoundError: the topic is gone.
            LogError: the cluster is out of reach, or refuses.
        """
        if start >= end:
            return
        if start < self._next and self._kept and start >= self._kept[0].offsets[0]:
            for piece in list(self._kept):
                if len(some := piece.between(start, end)):
                    yield some
            start = self._next
        is_much = end - start >= _MUCH
        if start != self._next or (is_much and self._queue is None and bulk_or_none() is not None):
            self._begin(start, is_much)
        while self._next < end:
            records = self._more(end)
            if records is not None and len(records):
                self._keep(records)
                yield records
        if not self._ahead:
            self._rest()

    def _rest(self) -> None:
        """Pause fetching until more is requested: at the end of a partition each new record would cost a request."""
        if not self._rests:
            self._consumer.unassign()
            self._rests = True

    def _begin(self, start: int, is_much: bool) -> None:
        """Open a new consumer at an offset: a moved one might still return messages fetched elsewhere."""
        self.close()
        self._consumer = self._clients.make(Consumer, {**_OPTIONS, "group.id": self._group}, _AHEAD)
        bulk = bulk_or_none() if is_much else None
        if bulk is not None:
            self._queue = bulk.PartitionQueue(self._consumer, self._topic, self._partition, _AT_ONCE)
        self._assign(start)

    def _assign(self, start: int) -> None:
        with self._clients.told(self._what):
            self._consumer.assign([TopicPartition(self._topic, self._partition, start)])
        self._next = self._seen = start
        self._rests = False

    def _more(self, end: int) -> Records | None:
        """Return the next records before an offset; None once it is known that no more exist."""
        if not self._ahead and self._seen < end:
            self._fetch(end)
        piece = self._ahead.popleft() if self._ahead else None
        if piece is not None and piece.end > end:
            self._ahead.appendleft(piece.between(end, piece.end))
            piece = piece.between(0, end)
        is_over = self._ahead[0].offsets[0] >= end if self._ahead else self._seen >= end
        self._next = end if is_over or not piece else piece.end
        return piece

    def _fetch(self, end: int) -> None:
        """Wait until records arrive, or it is known that none will."""
        until = time.monotonic() + self._clients.cluster.timeout
        if self._rests:
            self._assign(self._next)
        while not self._ahead and self._seen < end:
            if time.monotonic() > until or self._clients.is_hopeless():
                raise self._clients.unreachable(self._what)
            found = self._consumer.consume(_AT_ONCE, 0)  # with a queue, the consumer only returns side messages
            if found:
                self._take(taken_of(found))
            elif self._queue is not None:
                self._take(self._queue.take(_WAIT_SECONDS))
            else:
                self._take(taken_of([self._consumer.poll(_WAIT_SECONDS)]))

    def _take(self, taken: Taken) -> None:
        records = taken.records
        if records is not None:
            records = records.between(self._seen, records.end)  # others were on their way when the consumer rested
            if len(records):
                self._ahead.append(records)
                self._seen = records.end
        self._seen = max([self._seen, *taken.ends])
        for error in taken.errors:
            if not is_passing(error):
                self.close()
                raise self._clients.error_of(error, self._what)

    def _keep(self, records: Records) -> None:
        self._kept.append(records)
        self._kept_records += len(records)
        self._kept_bytes += records.nbytes
        while len(self._kept) > 1 and self._is_more_than_needed():
            oldest = self._kept.popleft()
            self._kept_records -= len(oldest)
            self._kept_bytes -= oldest.nbytes

    def _is_more_than_needed(self) -> bool:
        return self._kept_records - len(self._kept[0]) >= _KEPT_RECORDS or self._kept_bytes > _KEPT_BYTES

    def close(self) -> None:
        """Close the consumer and its queue."""
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.close()
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
        self._next = self._seen = -1
        self._ahead.clear()
        self._kept.clear()
        self._kept_records = self._kept_bytes = 0
        self._rests = False

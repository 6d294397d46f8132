"""Brings commits to Kafka: outputs and the offsets of the input in one transaction, with the commit's number.

The number is in the metadata of the consumer group's offsets. It is read after ``init_transactions``, which fences the
previous owner of the transactional id and ends its open transaction. So if the process, the broker or the connection
dies in the middle of a commit, the next program reads the number: either the whole commit is there, or it is written
again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.errors import CommitError, LogError
from penstock.faults import crash_point
from penstock.log.kafka.client import Clients, bulk_or_none, is_final, is_of_records
from penstock.log.records import Records
from penstock.values.decoding import from_json

_log = logging.getLogger(__name__)

_PAUSES = (0.0, 0.2, 1.0, 2.0, 5.0)
"""Pauses before a transaction is repeated, in seconds; later ones are as long as the last."""
_POLL_EVERY = 10_000
_MUCH = 5_000
"""From so many records on, pieces are written in bulk."""
_CALL_SECONDS, _LATE_SECONDS = 15.0, 5.0
"""How long librdkafka may take for a step of a transaction, and how much longer until it counts as hanging."""
_REMEMBERED_SECONDS = 86_400.0
"""For so long Kafka certainly keeps the offsets of a group that has just committed (a week by default)."""
_LEARNING_SECONDS, _LEARNING_PAUSE = 5.0, 0.05
"""How long a producer looks for a partition that other clients see, and the pause between two looks."""

_OPTIONS: dict[str, Any] = {
    "enable.idempotence": "true",
    "allow.auto.create.topics": "false",
    "delivery.report.only.error": True,
}
_GIVEN = {
    "message.max.bytes": "1000000000",
    "linger.ms": "5",
    "queue.buffering.max.messages": "200000",
    "retry.backoff.ms": "20",
    "socket.nagle.disable": "true",
}
"""Defaults for options that the user may set; a topic's limits are checked before, and the broker decides."""

_NOT_THERE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError.TOPIC_AUTHORIZATION_FAILED)
"""Errors of partitions without offsets of this group, or whose offsets this user may not see."""

_LOST_COUNT = (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
_OF_THE_PRODUCER = (KafkaError._FENCED, KafkaError._FATAL, *_LOST_COUNT)
"""Errors that do not concern records: a new producer is needed."""

Piece = tuple[str, int, Records]
"""A topic, a partition, and records for it."""


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of the metadata of a group's offsets."""

    penstock: str
    """The committer: the identity of a checkpoint, or the name of a producer."""
    commit: int
    said: str = ""
    """A text that a producer keeps with the number."""


Found = dict[tuple[str, int], tuple[int, Note | None]]
"""For each partition the offset that a group has committed, and the note stored with it."""


class Notes:
    """The commits of a consumer group: its offsets, the committer, and the number of the last commit."""

    def __init__(self, clients: Clients, group: str):
        self._clients = clients
        self._group = group

    def read(self) -> Found:
        """Return the committed offset of each partition, with its note."""
        own = {"group.id": self._group, "enable.auto.commit": "false", "isolation.level": "read_committed"}
        consumer = self._clients.make(Consumer, own)
        try:
            what = f"cannot read the offsets of group {self._group!r}"
            found: Found
            found = self._clients.until_answered(lambda seconds: self._committed(consumer, seconds), what)
            return found
        finally:
            consumer.close()

    def _committed(self, consumer: Any, seconds: float) -> Found:
        """Return the committed offsets through a consumer.

        The admin client's request crashes the process while a coordinator is not ready (librdkafka 2.16, issue 5040).
        """
        there = consumer.list_topics(timeout=seconds).topics.values()
        own = [one for one in there if not one.topic.startswith("__") and one.error is None]
        wanted = [TopicPartition(one.topic, partition) for one in own for partition in one.partitions]
        try:
            found = consumer.committed(wanted, timeout=seconds) if wanted else []
        except KafkaException:
            said = consumer.poll(0)  # a refusal comes as a side message, and the request never ends
            if said is not None and said.error() is not None and is_final(said.error()):
                raise KafkaException(said.error()) from None
            raise
        for one in found:
            if one.error is not None and one.error.code() not in _NOT_THERE:
                raise KafkaException(one.error)
        return {(one.topic, one.partition): (one.offset, _note(one.metadata)) for one in found if one.offset >= 0}


def last_of(notes: Found, who: str) -> int:
    """Return the number of a committer's last commit; -1 if it has made none."""
    return last_note_of(notes, who).commit


def last_note_of(notes: Found, who: str) -> Note:
    """Return the note of a committer's last commit; one with the number -1 if it has made none."""
    own = (note for _, note in notes.values() if note and note.penstock == who)
    return max(own, key=lambda note: note.commit, default=Note(who, -1))


def _note(text: str | None) -> Note | None:
    try:
        return from_json(text or "", Note)
    except msgspec.DecodeError:  # another program's metadata
        return None


class Publisher:
    """Brings the commits of one writer to Kafka, each of them once.

    Args:
        group: the consumer group whose offsets are committed; the transactional id is the same.
        who: the committer in the notes; empty for a writer without notes, whose commits cannot be repeated.
        in_transactions: False for at least once, with possible duplicates.
        way_out: advice for a commit that Kafka refuses, to be appended to a message.
    """

    def __init__(self, clients: Clients, group: str, who: str, in_transactions: bool = True, way_out: str = ""):
        self._clients = clients
        self._way_out = way_out
        self._group = group
        self.who = who
        self._in_transactions = in_transactions
        self._producer: Any = None
        self._batch = 0
        self._member: Any = None
        self._undelivered: KafkaError | None = None
        self._sent: dict[tuple[str, int], int] = {}
        self._acknowledged = 0.0
        self.last = -1
        """The number of the last commit that is in Kafka."""
        self.said = ""
        """The text that was kept with it."""

    def open(self, largest_batch: int) -> None:
        """Fence the previous program, and find the number of the last commit; retried until it is known."""
        self._until_done("take the application over", lambda: self._opened(largest_batch))

    def publish(
        self,
        number: int,
        pieces: Callable[[], Iterable[Piece]],
        offsets: Mapping[tuple[str, int], int],
        largest: int,
        said: str = "",
    ) -> bool:
        """Bring a commit to Kafka. Return False if it is there already.

        Args:
            pieces: returns its records, from the first one on, at each call.
            offsets: the offsets up to which partitions are read.
            largest: the most bytes of a batch in all of the topics.
            said: a text to keep with the number.

        Raises:
            LogError: Kafka refuses it, or is out of reach.
        """

        def attempt() -> bool:
            self._opened(largest)
            if self.last >= number:
                return False
            self._transact(number, pieces(), offsets, said)
            return True

        return bool(self._until_done(f"publish commit {number}", attempt, self._way_out))

    def tried(self, pieces: list[Piece], largest: int) -> KafkaError | None:
        """Return Kafka's error for these records, None if it accepts them. Nothing becomes visible or is committed."""

        def attempt() -> KafkaError | None:
            self._opened(largest)
            return self._try_out(pieces)

        found: KafkaError | None = self._until_done("try which records Kafka takes", attempt)
        return found

    def _try_out(self, pieces: list[Piece]) -> KafkaError | None:
        producer, refused = self._producer, None
        producer.begin_transaction()
        try:
            for topic, partition, records in pieces:
                self._send_one_by_one(topic, partition, records)
            self._deliver()
        except KafkaException as error:
            refused = error.args[0]
            if refused.code() not in _OF_THE_PRODUCER:
                self._flush()  # errors of records are reported only here
        refused = self._undelivered or refused
        if refused is None:
            _within(self._call_seconds, producer.abort_transaction)
        elif is_of_records(refused):
            self.close()  # it has lost count of arrivals; the next producer ends the transaction
        else:
            raise KafkaException(refused)
        return refused

    def _until_done(self, what: str, attempt: Callable[[], Any], way_out: str = "") -> Any:
        until = time.monotonic() + self._clients.cluster.timeout
        tried = 0
        while True:
            try:
                return attempt()
            except KafkaException as error:
                self._failed(error.args[0], what, time.monotonic() > until, way_out)
            except BaseException:
                self.close()
                raise
            time.sleep(_PAUSES[min(tried, len(_PAUSES) - 1)])
            tried += 1

    def _failed(self, error: KafkaError, what: str, is_over: bool, way_out: str) -> None:
        """Drop the producer, whose transaction may or may not have been committed. Raise if a retry is useless."""
        self.close()
        if is_final(error):
            told = self._clients.error_of(error, f"cannot {what}")
            raise type(told)(f"{told}{way_out}")
        if not self.who:
            raise LogError(
                f"cannot {what}: {error.str()}{self._clients.trouble()}; some or all may have been written. Read the "
                "topic before you write the records again"
            )
        if self._clients.is_hopeless() or is_over:
            raise CommitError(
                f"cannot {what} of {self._group!r} in {self._clients.cluster.url}: {error.str()}"
                f"{self._clients.trouble()}; its records are safe in the checkpoint, and go to Kafka at the next start"
            )
        _log.warning("%s: %s; it is tried again", what, error.str())

    # --- one transaction -----------------------------------------------------------------------------------------

    def _opened(self, largest_batch: int) -> None:
        if self._producer is not None and largest_batch >= self._batch:
            return
        self.close()
        producer = self._clients.make(Producer, self._options(largest_batch), _GIVEN)
        if self._in_transactions:
            _within(self._call_seconds, producer.init_transactions)
        if self.who:
            notes = Notes(self._clients, self._group).read()
            self._sent = {place: offset for place, (offset, _) in notes.items()}
            self._found(last_note_of(notes, self.who))
            self._member = self._member or self._membership()
        self._producer, self._batch = producer, largest_batch

    def _found(self, note: Note) -> None:
        """Note the last commit in Kafka. Raise ``CommitError`` if Kafka had acknowledged a later one."""
        last = note.commit
        is_forgotten = last < 0 and time.monotonic() - self._acknowledged > _REMEMBERED_SECONDS
        if last < self.last and not is_forgotten:
            raise self._lost(self.last, last)
        self.last, self.said = last, note.said

    def _lost(self, number: int, last: int) -> CommitError:
        return CommitError(
            f"{self._clients.cluster.url} has lost commit {number} of {self._group!r}, and had acknowledged it: "
            f"its last one is {last}. A broker that is killed right after a commit may end the transaction "
            "without showing its records. The checkpoint is safe, and has what commit "
            f"{number} made of its input, but its records are not in the output topics: to write them, start over with "
            f"`penstock reset --empty-outputs`; to continue without them, remove the group "
            f"(kafka-consumer-groups --delete --group {self._group}), and start again"
        )

    def check_has(self, number: int, offsets: Mapping[tuple[str, int], int]) -> None:
        """Raise ``CommitError`` if Kafka has lost a commit that it had acknowledged to an earlier program.

        Args:
            offsets: the offsets up to which that commit has read, if known. Removing a topic also removes the commit
                numbers stored with its offsets.
        """
        if self._lacks(number, offsets):
            self.close()
            self.open(self._batch)  # a rival may have published it since the last look
            if self._lacks(number, offsets):
                raise self._lost(number, self.last)

    def _lacks(self, number: int, offsets: Mapping[tuple[str, int], int]) -> bool:
        if not 0 <= self.last < number:  # a group without any notes was forgotten
            return False
        return not offsets or any(self._sent.get(place, offset) < offset for place, offset in offsets.items())

    @property
    def _call_seconds(self) -> float:
        return min(_CALL_SECONDS, self._clients.cluster.timeout)

    def _options(self, largest_batch: int) -> dict[str, Any]:
        given = int(self._clients.cluster.options().get("batch.size", 1_000_000))
        own = {**_OPTIONS, "batch.size": min(given, largest_batch), "on_delivery": self._told}
        return own | ({"transactional.id": self._group} if self._in_transactions else {})

    def _told(self, error: KafkaError | None, _: Any) -> None:
        self._undelivered = self._undelivered or error  # later records fail together with it

    def _membership(self) -> Any:
        """Return the identity for committing offsets: a group without members, as for programs with assigned
        partitions.
        """
        consumer = self._consumer()
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _consumer(self) -> Any:
        return self._clients.make(Consumer, {"group.id": self._group, "enable.auto.commit": "false"})

    def _transact(
        self, number: int, pieces: Iterable[Piece], offsets: Mapping[tuple[str, int], int], said: str
    ) -> None:
        producer = self._producer
        moved = {place: offset for place, offset in offsets.items() if self._sent.get(place) != offset}
        note = msgspec.json.encode(Note(self.who, number, said)).decode()
        noted = [TopicPartition(*place, offset, metadata=note) for place, offset in (moved or _any_of(offsets)).items()]
        crash_point("before-transaction")
        if not self._in_transactions:
            self._send_plainly(pieces, noted)
        else:
            producer.begin_transaction()
            try:
                for piece in pieces:
                    self._send(*piece)
                crash_point("in-transaction")
                self._deliver()
                if noted:
                    _within(self._call_seconds, producer.send_offsets_to_transaction, noted, self._member)
                _within(self._call_seconds, producer.commit_transaction)
            except KafkaException:
                raise
            except BaseException:  # an error of the checkpoint, or an interrupt
                producer.purge()
                _within(self._call_seconds, producer.abort_transaction)
                raise
        crash_point("after-transaction")
        self._sent |= moved
        self.last, self.said, self._acknowledged = number, said, time.monotonic()

    def _send(self, topic: str, partition: int, records: Records) -> None:
        is_much = len(records) >= _MUCH and records.headers is None
        bulk = bulk_or_none() if is_much and self._in_transactions else None
        if bulk is None:
            self._send_one_by_one(topic, partition, records)
            return
        with closing(bulk.Sending(self._producer, topic, partition, records)) as sending:
            until = 0.0
            while not sending.is_over:
                until = self._go_on(sending.go_on(_POLL_EVERY), topic, partition, until)

    def _send_one_by_one(self, topic: str, partition: int, records: Records) -> None:
        produce, poll = self._producer.produce, self._producer.poll
        headers = [None] * len(records) if records.headers is None else map(_pairs, records.headers.to_pylist())
        rows = zip(records.key.to_pylist(), records.value.to_pylist(), records.timestamp.tolist(), headers, strict=True)
        for number, (key, value, timestamp, pairs) in enumerate(rows, 1):
            until = 0.0
            while True:
                try:
                    # librdkafka takes 0 as the present time
                    produce(topic, value, key, partition, timestamp=timestamp or 1, headers=pairs)
                    break
                except BufferError:
                    refused = KafkaError(KafkaError._QUEUE_FULL)
                except KafkaException as error:
                    refused = error.args[0]
                until = self._go_on(refused, topic, partition, until)
            if number % _POLL_EVERY == 0:
                poll(0)

    def _go_on(self, refused: KafkaError | None, topic: str, partition: int, until: float) -> float:
        """Let the producer make room for a refused record. Return until when it may keep refusing."""
        if refused is None or refused.code() == KafkaError._QUEUE_FULL:
            self._producer.poll(0 if refused is None else 0.1)
            return 0.0
        until = until or time.monotonic() + _LEARNING_SECONDS
        if refused.code() != KafkaError._UNKNOWN_PARTITION or time.monotonic() > until:
            raise KafkaException(refused)
        self._learn_of(topic, partition)
        return until

    def _learn_of(self, topic: str, partition: int) -> None:
        """Refresh the producer's metadata of a topic, which may have got partitions; by itself it takes minutes."""
        found = self._producer.list_topics(topic, timeout=self._call_seconds).topics[topic]
        if partition not in found.partitions:
            time.sleep(_LEARNING_PAUSE)

    def _deliver(self) -> None:
        """Wait until all records have arrived, as long as there is progress."""
        before, until = len(self._producer), time.monotonic() + self._clients.cluster.timeout
        while left := self._flush():
            if left < before:
                before, until = left, time.monotonic() + self._clients.cluster.timeout
            if time.monotonic() > until:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _flush(self) -> int:
        """Wait a second for records to arrive. Return how many are left."""
        try:
            return int(self._producer.flush(1.0))
        except SystemError:  # the client raises twice when it is fenced with records on their way
            raise KafkaException(KafkaError(KafkaError._FENCED)) from None

    def _send_plainly(self, pieces: Iterable[Piece], noted: list[TopicPartition]) -> None:
        """At least once: commit the offsets after all records have arrived."""
        for piece in pieces:
            self._send(*piece)
        self._deliver()
        failed, self._undelivered = self._undelivered, None
        if failed:
            raise KafkaException(failed)
        consumer = self._consumer()
        try:
            consumer.commit(offsets=noted, asynchronous=False)
        finally:
            consumer.close()

    def close(self) -> None:
        """Close the producer; the next ``init_transactions`` ends its open transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
        self._undelivered = None


def _within(seconds: float, call: Callable[..., Any], *arguments: Any) -> None:
    """Call librdkafka in a separate thread: when a broker restarts during the call it may never return, despite its
    time-out.

    Such a thread is abandoned; the next ``init_transactions`` makes it harmless.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            call(*arguments, seconds)
        except BaseException as error:  # for the waiting caller
            failed.append(error)

    thread = threading.Thread(target=run, name="penstock kafka", daemon=True)
    thread.start()
    thread.join(seconds + _LATE_SECONDS)
    if thread.is_alive():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    for error in failed:
        raise error


def _any_of(offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Return one of them, to carry the number."""
    return dict([min(offsets.items())]) if offsets else {}


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes]] | None:
    return [(one["key"], one["value"]) for one in headers] if headers else None

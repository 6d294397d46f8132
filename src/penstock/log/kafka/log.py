"""The topics of a Kafka cluster as a log.

A program's output waits in its outbox, files of its checkpoint, until a transaction brings it to Kafka (``sink.py``).
Input comes from consumers with assigned partitions (``source.py``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.util import Finalize
from pathlib import Path
from shlex import quote

import msgspec
import pyarrow as pa
from confluent_kafka.admin import OffsetSpec

from penstock.errors import CommitError, ConfigError, LogError, OffsetOutOfRangeError, RefusedRecordError
from penstock.files import temporary
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.log.contract.publishing import Judged
from penstock.log.contract.reader import check_start
from penstock.log.contract.topics import TopicInfo, check_topic, check_trim
from penstock.log.contract.writer import LastAppend, Segment, removed_meanwhile
from penstock.log.kafka.client import Clients
from penstock.log.kafka.judging import Judging
from penstock.log.kafka.limits import Limits, refused
from penstock.log.kafka.outbox import FOLDER, OutboxWriter, read_segment, topic_id_of
from penstock.log.kafka.sink import Notes, Piece, Publisher, last_of
from penstock.log.kafka.source import Sources
from penstock.log.kafka.topics import Described, KafkaTopics
from penstock.log.kafka.watch import KafkaWatch
from penstock.log.records import Records, first_at
from penstock.log.watch import TopicWatch
from penstock.storage.base import LocalStorage, Storage
from penstock.values.decoding import from_msgpack
from penstock.values.times import wall_clock_ms
from penstock.values.topic_names import check_topic_name

_USUAL_LIMIT = Limits().bytes
_BATCH_FRAME = 500
_LIMITS_SECONDS = 5.0
_VISIBLE_SECONDS, _VISIBLE_PAUSE = 2.0, 0.005
_PUBLISHED = f"{FOLDER}/published"
"""Marks an outbox that has published something: from then on Kafka must have its offsets."""

_PACKED = "zstd"
"""The compression of the outbox's files that are sent to another process."""

Offsets = Mapping[str, Sequence[int]]
Handed = tuple[list[Segment], dict[str, tuple[int, bytes]]]
"""Segments, and their files: the size of each, and its compressed bytes."""


class KafkaLog(Log):
    """The topics of a Kafka cluster.

    Args:
        cluster: the cluster.
        outbox: where output waits; by default a folder that is removed with this process.
        group: the consumer group under which offsets are committed, and the transactional id: an application's id.
        in_transactions: whether commits are transactions, which happen once.
        unseen: topics with records that may not be visible yet; logs that share it wait for each other's.
    """

    def __init__(
        self,
        cluster: Kafka,
        outbox: Storage | None = None,
        group: str | None = None,
        in_transactions: bool = True,
        unseen: set[str] | None = None,
    ):
        self.cluster = cluster
        self._own_outbox = outbox
        self._removal: Finalize | None = None
        """Removes an outbox that ends with this process."""
        self._group = group
        self._in_transactions = in_transactions
        self._clients = Clients(cluster)
        self._topics = KafkaTopics(self._clients)
        self._sources = Sources(self._clients, group or "penstock")
        self._publishers: dict[str, Publisher] = {}
        self._unseen = set() if unseen is None else unseen
        self._limits: dict[str, tuple[float, Limits]] = {}
        """The limits of topics, and when they were looked up."""
        self._open: _Commit | None = None
        self._has_published = False
        self._is_known = False
        """Whether the commit at which this program began is known to be published; another program may have done it."""

    @property
    def url(self) -> str:
        return self.cluster.url

    @property
    def place(self) -> Kafka:
        return self.cluster

    @property
    def keeps_types(self) -> bool:
        return False

    # --- topics --------------------------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        return self._topics.names()

    def create_topic(self, info: TopicInfo) -> None:
        check_topic(info)
        self._topics.create(info)

    def delete_topic(self, name: str) -> None:
        check_topic_name(name)
        self._topics.delete(name)
        self._sources.forget(name)

    def topic(self, name: str) -> TopicInfo:
        found = self._topics.describe([name])[name]
        try:
            config = self._topics.config(name)
        except LogError:  # this user may not read its settings
            config = {}
        retention = int(config.get("retention.ms", -1)), int(config.get("retention.bytes", -1))
        return TopicInfo(name, found.partitions, retention_ms=retention[0], retention_bytes=retention[1])

    def exists(self, topic: str) -> bool:
        return self._topics.found([topic])[topic] is not None

    def topic_id(self, name: str) -> str:
        return self._topics.describe([name])[name].id

    def topic_ids(self, names: Iterable[str]) -> dict[str, str | None]:
        return {name: None if one is None else one.id for name, one in self._topics.found(names).items()}

    def start_offsets(self, topic: str) -> list[int]:
        return self._topics.offsets(topic, self._topics.partitions(topic), OffsetSpec.earliest())

    def end_offsets(self, topic: str) -> list[int]:
        count = self._topics.describe([topic])[topic].partitions
        if topic in self._unseen:
            self._unseen.discard(topic)
            self._until_visible(topic, count)
        return self._topics.offsets(topic, count, OffsetSpec.latest())

    def add_partitions(self, topic: str, partitions: int) -> None:
        raise ConfigError(
            f"topic {topic!r} is Kafka's: `kafka-topics --alter --topic {topic} --partitions {partitions}` gives it "
            "more partitions"
        )

    def arrived_at(self, topic: str, partition: int, offset: int) -> float | None:
        """Return the record's timestamp: Kafka knows no more."""
        return self.timestamp_at(topic, partition, offset) / 1000

    def offset_at(self, topic: str, partition: int, time: int) -> int | None:
        """Search from the broker's answer, which is only exact to a batch; transaction markers have times of their
        own.
        """
        self._topics.describe([topic])
        first, [end] = (
            self._topics.offset_at(topic, partition, time),
            self.end_offsets(topic)[partition : partition + 1],
        )
        return None if first is None else first_at(self.read(topic, partition, first, end), time)

    def _until_visible(self, topic: str, partitions: int) -> None:
        """Wait until this process's output is visible, which happens a moment after its transaction is committed."""
        written = self._topics.offsets(topic, partitions, OffsetSpec.latest(), is_committed=False)
        until = time.monotonic() + _VISIBLE_SECONDS  # other programs' transactions are not waited for
        while time.monotonic() < until:
            seen = self._topics.offsets(topic, partitions, OffsetSpec.latest())
            if all(one >= wanted for one, wanted in zip(seen, written, strict=True)):
                return
            time.sleep(_VISIBLE_PAUSE)

    def trim(self, topic: str, starts: dict[int, int]) -> None:
        check_trim(topic, starts, self.end_offsets(topic))
        self._topics.trim(topic, starts)

    def why_not_emptied(self, topic: str) -> str:
        is_compacted = self._topics.config(topic).get("cleanup.policy", "delete") == "compact"
        return "it is compacted, and Kafka removes records of no such topic (cleanup.policy)" if is_compacted else ""

    def set_retention(self, topic: str, retention_ms: int | None = None, retention_bytes: int | None = None) -> None:
        changed = {"retention.ms": retention_ms, "retention.bytes": retention_bytes}
        self._topics.configure(topic, {name: str(value) for name, value in changed.items() if value is not None})

    # --- reading -------------------------------------------------------------------------------------------------

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        if not self._sources.reads(topic, partition):
            self._topics.describe([topic])
        try:
            yield from self._sources.of(topic, partition).read(start, end)
        except OffsetOutOfRangeError:
            check_start(topic, partition, start, self.start_offsets(topic)[partition])
            raise

    def watch(self, topics: Sequence[str]) -> TopicWatch:
        return KafkaWatch(self, self._clients, self._group or "penstock", topics)

    # --- writing -------------------------------------------------------------------------------------------------

    def with_outbox(self, outbox: Storage, application_id: str, at_least_once: bool = False) -> KafkaLog:
        return KafkaLog(self.cluster, outbox, application_id, not at_least_once, self._unseen)

    @property
    def _outbox(self) -> Storage:
        if self._own_outbox is None:
            folder = temporary.folder("outbox")
            self._removal = Finalize(None, temporary.remove, [folder], exitpriority=0)
            self._own_outbox = LocalStorage(folder)
        return self._own_outbox

    def writer(self, topic: str, name: str) -> OutboxWriter:
        found = self._topics.recently(topic)  # a missing topic is refused at the append
        self._topics.check_writable(topic, found)
        return OutboxWriter(self._outbox, topic, found.id, name, lambda: self._limits_of(topic))

    def refused(self, topic: str, records: Records) -> dict[int, RefusedRecordError]:
        return refused(topic, records, self._limits_of(topic), wall_clock_ms())

    def _limits_of(self, topic: str) -> Limits:
        """Return a topic's limits, at most some seconds old: they may be changed while a program runs."""
        asked, found = self._limits.get(topic, (float("-inf"), Limits()))
        if time.monotonic() - asked > _LIMITS_SECONDS:
            asked, found = time.monotonic(), self._topics.limits(topic)
            self._limits[topic] = asked, found
        return found

    def append(
        self, topic: str, segments: Sequence[Segment], producer: str = "", sequence: int = -1, note: str = ""
    ) -> bool:
        found = self._topics.describe([topic])[topic]
        commit = self._open
        publisher = self._publisher(producer) if commit is None else commit.publisher
        if commit is None and producer:
            publisher.open(_USUAL_LIMIT)
        if producer and publisher.last >= sequence:
            return False
        if any(topic_id_of(segment) != found.id for segment in segments):
            raise removed_meanwhile(topic)
        if commit is not None:
            commit.sinks[topic] = segments
            return True
        number = sequence if producer else publisher.last + 1
        self._publish(publisher, number, {topic: segments}, {(topic, 0): sequence + 1} if producer else {}, note)
        return publisher.said == note  # else another process was faster with this number

    @contextmanager
    def publishing(self, producer: str, sequence: int, offsets: Offsets, known: int | None = None) -> Iterator[None]:
        publisher = self._publisher(producer)
        publisher.open(_USUAL_LIMIT)
        self._open = commit = _Commit(publisher)
        try:
            yield
        finally:
            self._open = None
        is_repeated, self._is_known = not self._is_known, True
        is_gone = is_repeated and self._is_gone(commit.sinks)
        flat = {(topic, p): offset for topic, ends in offsets.items() for p, offset in enumerate(ends)}
        if is_repeated and known is not None:
            publisher.check_has(sequence if is_gone else known, flat if is_gone else {})
        if sequence >= 0 and publisher.last < sequence and not is_gone:
            if is_repeated:
                self._check_is_known(publisher, sequence)
            self._publish(publisher, sequence, commit.sinks, flat)

    def _is_gone(self, sinks: Mapping[str, Sequence[Segment]]) -> bool:
        """Return whether a commit's records, or some of them, have left the outbox, as they do when they are
        published.
        """
        files = {segment.file.name for segments in sinks.values() for segment in segments}
        return not files <= set(self._outbox.list(FOLDER))

    def _check_is_known(self, publisher: Publisher, sequence: int) -> None:
        """Raise ``CommitError`` if the group's offsets have expired: whether this commit was already published is then
        unknown.
        """
        if publisher.last < 0 and (was := [name for name in self._outbox.list(FOLDER) if name == _PUBLISHED]):
            raise CommitError(
                f"group {self._group!r} of {self.url} no longer has offsets, though results were published: Kafka "
                "forgets those of a group that is still for long (offsets.retention.minutes), or somebody removed "
                f"them. Whether commit {sequence} was published is not known. Everything is safe; if the topics have "
                f"its results, remove the other files of {self._outbox.shown}/{FOLDER}; then remove "
                f"{self._outbox.shown}/{was[0]} and start again: the records there are published"
            )

    def _publisher(self, producer: str) -> Publisher:
        found = self._publishers.get(producer)
        if found is None:
            if producer:
                group, way_out = self._group_of(producer), self._way_out()
                found = Publisher(self._clients, group, producer, self._in_transactions, way_out)
            else:
                found = Publisher(self._clients, f"penstock-{os.urandom(8).hex()}", "")
            self._publishers[producer] = found
        return found

    def _way_out(self) -> str:
        """Return the way out for a commit that the cluster never accepts; empty outside of applications."""
        if self._group is None:
            return ""
        application, usual = self._outbox.shown, Path(".penstock") / self._group / "checkpoint"
        if Path(application).absolute() == usual.absolute():
            application = self._group
        return (
            f". The commit is certain, and everything is safe. `penstock publish {quote(application)}` tells which of "
            "its records are refused and why; with --execute it makes dead letters of them, and publishes the "
            "others. Then start again"
        )

    def last_published(self, producer: str) -> int:
        return last_of(Notes(self._clients, self._group_of(producer)).read(), producer)

    def judged(self, producer: str, sinks: Mapping[str, Sequence[Segment]]) -> list[Judged]:
        publisher, largest = self._publisher(producer), self._largest_batch(sinks)
        publisher.open(largest)
        pieces = list(_pieces(self._outbox, sinks)())
        gone = self._gone(sinks)
        return Judging(
            pieces,
            lambda topic, partition: gone[topic][partition],
            self.refused,
            lambda some: publisher.tried(some, largest),
        ).judged()

    def _gone(self, sinks: Mapping[str, Sequence[Segment]]) -> dict[str, dict[int, str]]:
        """Return why partitions that a commit writes into no longer accept records; empty texts if they do."""
        reasons: dict[str, dict[int, str]] = {}
        for topic, segments in sinks.items():
            found = self._topics.found([topic])[topic]
            for one in segments:
                reasons.setdefault(topic, {})[one.partition] = self._why_gone(topic, found, one)
        return reasons

    def _why_gone(self, topic: str, found: Described | None, segment: Segment) -> str:
        if found is None:
            return f"topic {topic!r} was removed"
        if found.id != topic_id_of(segment):
            return f"topic {topic!r} was removed and created again since"
        if segment.partition >= found.partitions:
            return f"topic {topic!r} has no partition {segment.partition}"
        try:
            self._topics.check_writable(topic, found)
        except LogError as error:
            return str(error)
        return ""

    def _group_of(self, producer: str) -> str:
        return self._group or f"penstock-{producer}"

    def _publish(
        self,
        publisher: Publisher,
        number: int,
        sinks: Mapping[str, Sequence[Segment]],
        offsets: Mapping[tuple[str, int], int],
        said: str = "",
    ) -> None:
        files = {segment.file.name for segments in sinks.values() for segment in segments}
        publisher.publish(number, _pieces(self._outbox, sinks), offsets, self._largest_batch(sinks), said)
        self._unseen.update(topic for topic, segments in sinks.items() if segments)
        if publisher.who and not self._has_published:
            self._outbox.create(_PUBLISHED, b"")
            self._has_published = True
        for name in files:
            self._outbox.delete(name)

    def _largest_batch(self, topics: Iterable[str]) -> int:
        """Return the most bytes that a batch of several records may have in all of these topics."""
        return max(min((self._limits_of(topic).bytes for topic in topics), default=_USUAL_LIMIT) - _BATCH_FRAME, 1)

    def hand_over(self, segments: Sequence[Segment]) -> bytes:
        files = {}
        for name in {segment.file.name for segment in segments}:
            data = self._outbox.read(name)
            files[name] = len(data), pa.compress(data, _PACKED, asbytes=True)
            self._outbox.delete(name)
        return msgspec.msgpack.encode((list(segments), files))

    def take_over(self, handed: bytes) -> list[Segment]:
        segments: list[Segment]
        found: Handed = from_msgpack(handed, Handed)  # type: ignore[arg-type]
        segments, files = found
        for name, (size, data) in files.items():
            self._outbox.put(name, pa.decompress(data, size, _PACKED))
        return segments

    def last_sequence(self, topic: str, producer: str) -> int:
        self._topics.describe([topic])
        notes = Notes(self._clients, self._group_of(producer)).read()
        others = {note.penstock for _, note in notes.values() if note is not None} - {producer}
        if others and self._group:
            raise ConfigError(
                f"application {self._group!r} writes into {self.url} from another checkpoint than this one: its "
                f"offsets there, of the group {self._group!r}, were committed by it, and this start would process "
                "everything and write all results a second time. Start it with the previous checkpoint, or give this "
                "program another application id. If that checkpoint is lost, remove the group (kafka-consumer-groups "
                f"--delete --group {self._group}) to write all results again after the present ones"
            )
        return last_of(notes, producer)

    def last_append(self, topic: str, producer: str) -> LastAppend:
        publisher = self._publisher(producer)
        publisher.close()  # the next one ends whatever transaction is open, so the answer is final
        publisher.open(_USUAL_LIMIT)
        return LastAppend(publisher.last, publisher.said)

    @property
    def forgets_appends(self) -> bool:
        """Kafka forgets the offsets of a group that was still for a week (``offsets.retention.minutes``)."""
        return True

    def sweep(self, topic: str, is_meant: Callable[[str], bool]) -> None:
        """Remove files of the outbox with such names, whichever topic they are for."""
        for name in self._outbox.list(FOLDER):
            if is_meant(name):
                self._outbox.delete(name)

    def close(self) -> None:
        for topic in [topic for topic in self._unseen if self.exists(topic)]:
            self.end_offsets(topic)
        self._sources.close()
        for one in self._publishers.values():
            one.close()
        self._publishers.clear()
        if self._removal is not None:
            self._removal()
            self._own_outbox = self._removal = None


class _Commit:
    """A commit about to be published: its segments by topic."""

    def __init__(self, publisher: Publisher):
        self.publisher = publisher
        self.sinks: dict[str, Sequence[Segment]] = {}


def _pieces(outbox: Storage, sinks: Mapping[str, Sequence[Segment]]) -> Callable[[], Iterator[Piece]]:
    def pieces() -> Iterator[Piece]:
        for topic, segments in sinks.items():
            for segment in segments:
                for records in read_segment(outbox, segment):
                    yield topic, segment.partition, records

    return pieces

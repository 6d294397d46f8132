"""The file log: topics as folders of Arrow files, for any number of producers and readers, with no broker.

<log>/<topic>/topic.json        what the topic is
<log>/<topic>/commits/<n>.json  one entry for each append, which makes it visible
<log>/<topic>/data/*.arrow      the records
<log>/@applications/<id>.json   which checkpoint writes under an application id; no topic can bear such a name
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from penstock.errors import CorruptDataError, StoreError, TopicExistsError, TopicNotFoundError
from penstock.log.base import (
    Log,
    Records,
    Segment,
    TopicInfo,
    check_start,
    check_topic,
    check_topic_name,
    check_trim,
    is_topic_name,
    removed_meanwhile,
)
from penstock.log.file.segments import FileSegmentWriter, SegmentFiles
from penstock.log.file.state import Entry, EntryFiles, TopicState
from penstock.log.file.topic_file import create_topic_file, file_identity, held, read_topic_file
from penstock.storage import LocalStorage, Storage


class TopicStats(NamedTuple):
    """How much a topic holds; bytes and the newest timestamp are those of whole segments."""

    records: int
    nbytes: int
    newest: int | None


class FileLog(Log):
    """Topics in a folder.

    >>> import tempfile, numpy as np, pyarrow as pa
    >>> log = FileLog(Path(tempfile.mkdtemp()))
    >>> log.create_topic(TopicInfo("greetings", partitions=1))
    >>> with log.writer("greetings", "example") as writer:
    ...     writer.write(0, pa.array([b"a"], pa.binary()), pa.array([b"hello"], pa.binary()), np.array([10]))
    >>> log.append("greetings", writer.segments())
    True
    >>> [records.value.to_pylist() for records in log.read("greetings", 0, 0, 1)], log.end_offsets("greetings")
    ([[b'hello']], [1])
    """

    def __init__(self, root: Path | str):
        self.root = Path(root)
        self._topics: dict[str, _Topic] = {}

    @property
    def url(self) -> str:
        return str(self.root)

    @property
    def claims(self) -> Storage:
        return LocalStorage(self.root / "@applications")

    def topics(self) -> list[str]:
        names = {path.parent.name for of in ("topic.json", "commits") for path in self.root.glob(f"*/{of}")}
        return sorted(
            name for name in names if is_topic_name(name) and (self._file(name).exists() or self._is_half(name))
        )

    def create_topic(self, info: TopicInfo) -> None:
        check_topic(info)
        if self._is_half(info.name):
            raise self._half(info.name)
        if not create_topic_file(self._file(info.name), info):
            raise TopicExistsError(f"topic {info.name!r} exists already in {self.root}")

    def delete_topic(self, name: str) -> None:
        check_topic_name(name)
        grave = self.root / f"~{os.urandom(8).hex()}"  # a name that no topic can bear
        try:
            with held(self._file(name), alone=True):
                (self.root / name).rename(grave)
        except FileNotFoundError:
            if not self._is_half(name):
                raise self._not_found(name) from None
            (self.root / name).rename(grave)
        self._topics.pop(name, None)
        for left in self.root.glob("~*"):  # also those of programs that were killed here
            shutil.rmtree(left, ignore_errors=True)

    def topic(self, name: str) -> TopicInfo:
        return self._topic(name).info

    def topic_id(self, name: str) -> str:
        return self._topic(name).id

    def start_offsets(self, topic: str) -> list[int]:
        return list(self._topic(topic).fresh().starts)

    def end_offsets(self, topic: str) -> list[int]:
        return list(self._topic(topic).fresh().ends)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        found = self._topic(topic)
        state = found.state if found.state.ends[partition] >= end else found.fresh()
        check_start(topic, partition, start, state.starts[partition])
        for segment in state.segments_from(partition, start):
            if segment.base >= end:
                return
            try:
                yield from found.segments.read(segment, start, end)
            except CorruptDataError as error:
                found.check_is_there()
                check_start(topic, partition, start, found.fresh().starts[partition])  # retention may have removed it
                place = f"partition {partition}, offsets {segment.base} to {segment.end - 1}"
                raise CorruptDataError(f"topic {topic!r}, {place}: {error}") from None

    def stats(self, topic: str) -> TopicStats:
        """How much a topic holds."""
        state = self._topic(topic).fresh()
        segments = [segment for part in state.segments for segment in part]
        newest = max((segment.max_timestamp for segment in segments), default=None)
        return TopicStats(sum(state.ends) - sum(state.starts), sum(segment.nbytes for segment in segments), newest)

    def writer(self, topic: str, name: str) -> AbstractContextManager[FileSegmentWriter]:
        return self._topic(topic).writer(name)

    def append(self, topic: str, segments: Sequence[Segment], producer: str = "", sequence: int = -1) -> bool:
        found = self._topic(topic)
        with found.held():
            while True:
                state = found.fresh()
                if producer and state.producers.get(producer, -1) >= sequence:
                    return False
                found.check_written(segments)
                entry = Entry(state.place(list(segments)), producer, sequence, at=time.time_ns() // 1_000_000)
                if found.entries.create(state, entry):
                    return True

    def last_sequence(self, topic: str, producer: str) -> int:
        return self._topic(topic).fresh().producers.get(producer, -1)

    def trim(self, topic: str, starts: dict[int, int]) -> None:
        found = self._topic(topic)
        with found.held():
            while True:
                state = found.fresh()
                check_trim(topic, starts, state.ends)
                before = state.files()
                if found.entries.create(state, Entry(starts=starts, at=time.time_ns() // 1_000_000)):
                    break
            for name in before - state.files():
                (found.folder / "data" / name).unlink(missing_ok=True)

    def apply_retention(self, topic: str, now_ms: int | None = None) -> dict[int, int]:
        """Remove what the topic's retention by time and by size lets go; the new starts of the partitions it moved."""
        found = self._topic(topic)
        info, state = found.info, found.fresh()
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        starts = {}
        for partition, segments in enumerate(state.segments):
            size = sum(segment.nbytes for segment in segments)
            for segment in segments:
                too_old = info.retention_ms >= 0 and segment.max_timestamp < now_ms - info.retention_ms
                too_much = info.retention_bytes >= 0 and size > info.retention_bytes
                if not (too_old or too_much):
                    break
                starts[partition] = segment.end
                size -= segment.nbytes
        if starts:
            self.trim(topic, starts)
        return starts

    def sweep(self, topic: str, writer_prefix: str) -> None:
        """Remove files that writers of this name left behind without appending them."""
        found = self._topic(topic)
        known = found.fresh().files()
        for path in (found.folder / "data").glob(f"{writer_prefix}*"):
            if path.name not in known:
                path.unlink(missing_ok=True)

    def _topic(self, name: str) -> _Topic:
        check_topic_name(name)
        topic = self._topics.get(name)
        if topic is None or not topic.is_there:
            self._topics.pop(name, None)
            try:
                topic = self._topics[name] = _Topic(self._file(name))
            except FileNotFoundError:
                raise self._half(name) if self._is_half(name) else self._not_found(name) from None
        return topic

    def _file(self, name: str) -> Path:
        return self.root / name / "topic.json"

    def _is_half(self, name: str) -> bool:
        """Whether there are entries of a topic that has no description."""
        return not self._file(name).exists() and any((self.root / name / "commits").glob("[0-9]*"))

    def _half(self, name: str) -> CorruptDataError:
        return CorruptDataError(
            f"{self._file(name)} is missing though the topic's records are there; restore it from a backup, or remove "
            f"what is left of the topic with `penstock topics rm {name}`"
        )

    def _not_found(self, name: str) -> TopicNotFoundError:
        others = self.topics()
        there = f"the topics are {', '.join(others)}" if others else "there are no topics yet"
        return TopicNotFoundError(
            f"topic {name!r} does not exist in {self.root}: {there}; make it with "
            f"`penstock topics create {name}` or by producing into it"
        )


class _Topic:
    """One topic as this process knows it."""

    def __init__(self, path: Path):
        self.folder = path.parent
        self._path = path
        self._identity = file_identity(path)
        stored = read_topic_file(path)
        self.info = stored.info()
        self.id = stored.id
        if self.info.name != self.folder.name:
            raise CorruptDataError(f"{path} is of topic {self.info.name!r}; restore it from a backup")
        self.entries = EntryFiles(self.folder / "commits")
        self.segments = SegmentFiles(self.folder / "data")
        self.state: TopicState = self.entries.load(self.info.partitions)

    def fresh(self) -> TopicState:
        """The state with everything appended by now."""
        self.state = self.entries.refresh(self.state)
        return self.state

    @property
    def is_there(self) -> bool:
        """Whether it has not been removed."""
        return self._identity == file_identity(self._path)

    def check_is_there(self) -> None:
        """Raise ``TopicNotFoundError`` when it has been removed."""
        if not self.is_there:
            raise TopicNotFoundError(f"topic {self.folder.name!r} was removed while it was used")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep it from being removed; raises ``TopicNotFoundError`` when it has been."""
        try:
            with held(self._path) as identity:
                if identity != self._identity:
                    raise removed_meanwhile(self.folder.name)
                yield
        except FileNotFoundError:
            if self.is_there:
                raise
            raise removed_meanwhile(self.folder.name) from None

    @contextmanager
    def writer(self, name: str) -> Iterator[FileSegmentWriter]:
        """A writer of segments; it fails with ``TopicNotFoundError`` when the topic is removed meanwhile."""
        try:
            with FileSegmentWriter(self.folder / "data", name) as writer:
                yield writer
        except (StoreError, FileNotFoundError):
            if self.is_there:
                raise
            raise removed_meanwhile(self.folder.name) from None

    def check_written(self, segments: Sequence[Segment]) -> None:
        """Raise ``TopicNotFoundError`` for segments whose files are not there: they were for another topic."""
        if not all((self.folder / "data" / name).exists() for name in {segment.file.name for segment in segments}):
            raise removed_meanwhile(self.folder.name)

"""The file log: topics as folders of Arrow files, for any number of producers and readers, with no broker.

<log>/<topic>/topic.json        what the topic is
<log>/<topic>/commits/<n>.json  one entry for each append, which makes it visible
<log>/<topic>/data/*.arrow      the records
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.errors import (
    CorruptDataError,
    OffsetOutOfRangeError,
    TopicExistsError,
    TopicNotFoundError,
)
from penstock.log.base import Log, Records, Segment, TopicInfo, check_topic, is_topic_name
from penstock.log.file.segments import FileSegmentWriter, SegmentFiles
from penstock.log.file.state import Entry, EntryFiles, TopicState
from penstock.log.file.topic_file import create_topic_file, read_topic_file


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

    def topics(self) -> list[str]:
        names = (path.parent.name for path in self.root.glob("*/topic.json"))
        return sorted(name for name in names if is_topic_name(name))

    def create_topic(self, info: TopicInfo) -> None:
        check_topic(info)
        if not create_topic_file(self.root / info.name / "topic.json", info):
            raise TopicExistsError(f"topic {info.name!r} exists already in {self.root}")

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records."""
        self.topic(name)
        (self.root / name).rename(self.root / f"~{os.urandom(8).hex()}")  # a name that no topic can bear
        self._topics.pop(name, None)
        for grave in self.root.glob("~*"):  # also those of programs that were killed here
            shutil.rmtree(grave, ignore_errors=True)

    def topic(self, name: str) -> TopicInfo:
        return self._topic(name).info

    def start_offsets(self, topic: str) -> list[int]:
        return list(self._topic(topic).fresh().starts)

    def end_offsets(self, topic: str) -> list[int]:
        return list(self._topic(topic).fresh().ends)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        found = self._topic(topic)
        state = found.state if found.state.ends[partition] >= end else found.fresh()
        _check_start(state, topic, partition, start)
        for segment in state.segments_from(partition, start):
            if segment.base >= end:
                return
            try:
                yield from found.segments.read(segment, start, end)
            except CorruptDataError as error:
                _check_start(found.fresh(), topic, partition, start)  # retention may have removed the file
                place = f"partition {partition}, offsets {segment.base} to {segment.end - 1}"
                raise CorruptDataError(f"topic {topic!r}, {place}: {error}") from None

    def stats(self, topic: str) -> TopicStats:
        """How much a topic holds."""
        state = self._topic(topic).fresh()
        segments = [segment for part in state.segments for segment in part]
        newest = max((segment.max_timestamp for segment in segments), default=None)
        return TopicStats(sum(state.ends) - sum(state.starts), sum(segment.nbytes for segment in segments), newest)

    def writer(self, topic: str, name: str) -> FileSegmentWriter:
        return FileSegmentWriter(self._topic(topic).folder / "data", name)

    def append(self, topic: str, segments: Sequence[Segment], producer: str = "", sequence: int = -1) -> bool:
        found = self._topic(topic)
        while True:
            state = found.fresh()
            if producer and state.producers.get(producer, -1) >= sequence:
                return False
            entry = Entry(state.place(list(segments)), producer, sequence, at=time.time_ns() // 1_000_000)
            if found.entries.create(state, entry):
                return True

    def last_sequence(self, topic: str, producer: str) -> int:
        return self._topic(topic).fresh().producers.get(producer, -1)

    def trim(self, topic: str, starts: dict[int, int]) -> None:
        """Remove the records of partitions before these offsets; whole segments only give their space back.

        Raises:
            OffsetOutOfRangeError: the partition does not exist or ends before the offset.
        """
        found = self._topic(topic)
        while True:
            state = found.fresh()
            _check_trim(state, topic, starts)
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
        topic = self._topics.get(name)
        if topic is None or topic.identity != _identity(topic.path):
            self._topics.pop(name, None)
            topic = self._topics[name] = _Topic(self.root, name, self.topics())
        return topic


class _Topic:
    """One topic as this process knows it."""

    def __init__(self, root: Path, name: str, others: list[str]):
        self.folder = root / name
        self.path = self.folder / "topic.json"
        self.identity = _identity(self.path)
        try:
            self.info = read_topic_file(self.path)
        except FileNotFoundError:
            there = f"the topics are {', '.join(others)}" if others else "there are no topics yet"
            raise TopicNotFoundError(
                f"topic {name!r} does not exist in {root}: {there}; make it with "
                f"`penstock topics create {name}` or by producing into it"
            ) from None
        self.entries = EntryFiles(self.folder / "commits")
        self.segments = SegmentFiles(self.folder / "data")
        self.state: TopicState = self.entries.load(self.info.partitions)

    def fresh(self) -> TopicState:
        """The state with everything appended by now."""
        self.state = self.entries.refresh(self.state)
        return self.state


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from one that was later made in its place; None when there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _check_start(state: TopicState, topic: str, partition: int, start: int) -> None:
    if start < state.starts[partition]:
        raise OffsetOutOfRangeError(
            f"topic {topic!r}, partition {partition}: offset {start} was removed by retention; "
            f"the first one still there is {state.starts[partition]}"
        )


def _check_trim(state: TopicState, topic: str, starts: dict[int, int]) -> None:
    for partition, start in starts.items():
        if not 0 <= partition < len(state.ends):
            raise OffsetOutOfRangeError(f"topic {topic!r} has no partition {partition} to remove records from")
        if start > state.ends[partition]:
            raise OffsetOutOfRangeError(
                f"topic {topic!r}, partition {partition}: cannot remove the records before offset {start}; "
                f"the partition ends at offset {state.ends[partition]}"
            )

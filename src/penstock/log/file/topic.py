"""One topic as this process knows it: its files, and what its entries add up to so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from penstock.errors import CorruptDataError, StoreError, TopicNotFoundError
from penstock.log.contract.topics import TopicInfo
from penstock.log.contract.writer import Segment, removed_meanwhile
from penstock.log.file.entries import EntryFiles
from penstock.log.file.newest import NewestEntry
from penstock.log.file.nodes import NodeFiles
from penstock.log.file.segments import FileSegmentWriter, SegmentFiles
from penstock.log.file.state import TopicState
from penstock.log.file.topic_file import file_identity, held, read_topic_file
from penstock.log.records import Records


class OpenTopic:
    """One topic as this process knows it."""

    def __init__(self, path: Path):
        self.folder = path.parent
        self._path = path
        self._identity = file_identity(path)
        stored = read_topic_file(path)
        self._info = stored.info()
        self.id = stored.id
        if self._info.name != self.folder.name:
            raise CorruptDataError(f"{path} is of topic {self._info.name!r}; restore it from a backup")
        self.segments = SegmentFiles(self.folder / "data")
        self.nodes = NodeFiles(self.folder / "index")
        self.entries = EntryFiles(self.folder / "commits", self.segments.folder, self.nodes.folder, self.id)
        self.newest = NewestEntry(self.folder / "newest", self.id)
        known = self.newest.read()  # before the entries are: others may add some meanwhile
        self.state: TopicState = self.entries.load(self._info.partitions)
        self._check_newest(self.state, known)

    @property
    def info(self) -> TopicInfo:
        """What the topic is, with the retention and the partitions that were set last."""
        set_later: dict[str, int] = {} if self.state.retention is None else msgspec.structs.asdict(self.state.retention)
        if self.state.grown:
            set_later["partitions"] = len(self.state.ends)
        return msgspec.structs.replace(self._info, **set_later) if set_later else self._info

    def fresh(self) -> TopicState:
        """The state with everything appended by now."""
        known = self.state.next
        state = self.entries.refresh(self.state)
        self._check_newest(state, known)
        self.state = state
        return self.state

    def _check_newest(self, state: TopicState, known: int) -> None:
        if state.next < known:
            self.check_is_there()
            self.newest.refuse(self.entries.path(known - 1))

    def read(self, state: TopicState, partition: int, start: int, end: int) -> Iterator[Records]:
        """The records between two offsets, as a state says where they are."""
        for segment in self.nodes.segments_from(state, partition, start):
            if segment.base >= end:
                return
            try:
                yield from self.segments.read(segment, start, end)
            except CorruptDataError as error:
                place = f"partition {partition}, offsets {segment.base} to {segment.end - 1}"
                raise CorruptDataError(f"topic {self.folder.name!r}, {place}: {error}") from None

    def timestamp_at(self, state: TopicState, partition: int, offset: int) -> int:
        """The timestamp of a record."""
        return self.segments.timestamp_at(next(iter(self.nodes.segments_from(state, partition, offset))), offset)

    @property
    def is_there(self) -> bool:
        """Whether it has not been removed."""
        return self._identity == file_identity(self._path)

    def check_is_there(self) -> None:
        """Raise ``TopicNotFoundError`` when it has been removed."""
        if not self.is_there:
            raise TopicNotFoundError(f"topic {self.folder.name!r} was removed while it was used")

    @contextmanager
    def held(self, alone: bool = False) -> Iterator[None]:
        """Keep it from being removed, or from all others; raises ``TopicNotFoundError`` when it has been removed."""
        try:
            with held(self._path, alone) as identity:
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
            with FileSegmentWriter(self.segments.folder, name) as writer:
                yield writer
        except (StoreError, FileNotFoundError):
            if self.is_there:
                raise
            raise removed_meanwhile(self.folder.name) from None

    def check_written(self, segments: Sequence[Segment]) -> None:
        """Raise ``TopicNotFoundError`` for segments whose files are not there: they were for another topic."""
        if not self.has_written(segments):
            raise removed_meanwhile(self.folder.name)

    def has_written(self, segments: Sequence[Segment]) -> bool:
        """Whether the files of segments are there."""
        return all((self.segments.folder / name).exists() for name in {segment.file.name for segment in segments})

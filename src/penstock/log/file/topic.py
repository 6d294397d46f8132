"""One topic as this process knows it: its files, and the sum of its entries so far."""

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
        known = self.newest.read()  # read before the entries: others may add some meanwhile
        self.state: TopicState = self.entries.load(self._info.partitions)
        self._check_newest(self.state, known)

    @property
    def info(self) -> TopicInfo:
        """The topic's description, with the newest retention and partition count."""
        set_later: dict[str, int] = {} if self.state.retention is None else msgspec.structs.asdict(self.state.retention)
        if self.state.grown:
            set_later["partitions"] = len(self.state.ends)
        return msgspec.structs.replace(self._info, **set_later) if set_later else self._info

    def fresh(self) -> TopicState:
        """Return the state with everything appended so far."""
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
        """Yield the records between two offsets, from the places given by a state."""
        for segment in self.nodes.segments_from(state, partition, start):
            if segment.base >= end:
                return
            try:
                yield from self.segments.read(segment, start, end)
            except CorruptDataError as error:
                place = f"partition {partition}, offsets {segment.base} to {segment.end - 1}"
                raise CorruptDataError(f"topic {self.folder.name!r}, {place}: {error}") from None

    def timestamp_at(self, state: TopicState, partition: int, offset: int) -> int:
        """Return the timestamp of a record."""
        return self.segments.timestamp_at(next(iter(self.nodes.segments_from(state, partition, offset))), offset)

    @property
    def is_there(self) -> bool:
        """Whether it has not been removed."""
        return self._identity == file_identity(self._path)

    def check_is_there(self) -> None:
        """Raise ``TopicNotFoundError`` if it has been removed."""
        if not self.is_there:
            raise TopicNotFoundError(f"topic {self.folder.name!r} was removed while it was used")

    @contextmanager
    def held(self, alone: bool = False) -> Iterator[None]:
        """Protect the topic from removal, or with `alone` from all other programs. Raise ``TopicNotFoundError`` if it
        is removed.
        """
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
        """Return a writer of segments; it fails with ``TopicNotFoundError`` when the topic is removed meanwhile."""
        try:
            with FileSegmentWriter(self.segments.folder, name) as writer:
                yield writer
        except (StoreError, FileNotFoundError):
            if self.is_there:
                raise
            raise removed_meanwhile(self.folder.name) from None

    def check_written(self, segments: Sequence[Segment]) -> None:
        """Raise ``TopicNotFoundError`` for segments whose files are missing: they were written for another topic."""
        if not self.has_written(segments):
            raise removed_meanwhile(self.folder.name)

    def has_written(self, segments: Sequence[Segment]) -> bool:
        """Return whether the files of segments exist."""
        return all((self.segments.folder / name).exists() for name in {segment.file.name for segment in segments})

"""The commit entries of a topic, and what they add up to.

Every append is one small file, numbered without gaps and created at most once; that file makes the append visible.
Each entry begins with a checksum of the rest, and every so often a checkpoint sums up all entries before it.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.errors import CorruptDataError
from penstock.log.base import Segment
from penstock.storage import create_file, seal, unseal

CHECKPOINT_EVERY = 256
_DIGITS = 16

T = TypeVar("T")


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One append: new segments, or the new starts of partitions when old records go."""

    segments: list[Segment] = []
    producer: str = ""
    sequence: int = -1
    starts: dict[int, int] = {}
    at: int = 0
    """Wall-clock time in ms."""


class TopicState(msgspec.Struct):
    """What the entries before ``next`` add up to."""

    next: int
    starts: list[int]
    ends: list[int]
    segments: list[list[Segment]]
    producers: dict[str, int]

    @classmethod
    def empty(cls, partitions: int) -> TopicState:
        return cls(0, [0] * partitions, [0] * partitions, [[] for _ in range(partitions)], {})

    def check(self, partitions: int) -> None:
        """Raise ``ValueError`` unless this is the state of a topic with so many partitions."""
        lengths = {len(self.starts), len(self.ends), len(self.segments)}
        if lengths != {partitions}:
            raise ValueError(f"it sums up {len(self.ends)} partitions and not {partitions}")
        for partition, segments in enumerate(self.segments):
            base = segments[0].base if segments else self.ends[partition]
            for segment in segments:
                if segment.partition != partition or segment.base != base:
                    raise ValueError(f"its segments of partition {partition} do not follow one another")
                base = segment.end
            if base != self.ends[partition]:
                raise ValueError(f"its segments of partition {partition} do not reach offset {self.ends[partition]}")

    def apply(self, entry: Entry) -> None:
        """Add what an entry says; raises ``ValueError``, and adds nothing, when it does not fit what is there."""
        self._check(entry)
        for segment in entry.segments:
            self.segments[segment.partition].append(segment)
            self.ends[segment.partition] = segment.end
        for partition, start in entry.starts.items():
            start = max(start, self.starts[partition])  # two programs may apply retention at once
            self.starts[partition] = start
            self.segments[partition] = [segment for segment in self.segments[partition] if segment.end > start]
        if entry.producer:
            self.producers[entry.producer] = entry.sequence
        self.next += 1

    def _check(self, entry: Entry) -> None:
        ends = list(self.ends)
        for segment in entry.segments:
            if segment.partition >= len(ends) or segment.base != ends[segment.partition]:
                raise ValueError(f"its segment at offset {segment.base} of partition {segment.partition} has no place")
            ends[segment.partition] = segment.end
        for partition, start in entry.starts.items():
            if not (0 <= partition < len(ends) and start <= ends[partition]):
                raise ValueError(f"it removes the records before offset {start} of partition {partition}")

    def place(self, segments: list[Segment]) -> list[Segment]:
        """The segments with the offsets they get when they are appended next."""
        ends = list(self.ends)
        placed = []
        for segment in segments:
            placed.append(msgspec.structs.replace(segment, base=ends[segment.partition]))
            ends[segment.partition] += segment.records
        return placed

    def segments_from(self, partition: int, offset: int) -> list[Segment]:
        """The segments that hold this offset and all later ones."""
        every = self.segments[partition]
        first = bisect_right(every, offset, key=lambda segment: segment.end)
        return every[first:]

    def files(self) -> set[str]:
        return {segment.file.name for part in self.segments for segment in part}


class EntryFiles:
    """The folder of a topic's entries."""

    def __init__(self, folder: Path):
        self.folder = folder

    def load(self, partitions: int) -> TopicState:
        """The newest state: the last checkpoint and all entries behind it."""
        while True:
            newest = self._newest_checkpoint()
            missing = None
            try:
                state = self._load_from(newest, partitions)
            except FileNotFoundError as error:
                missing = error.filename
            if self._newest_checkpoint() == newest:  # else entries were summed up meanwhile, and removed perhaps
                if missing is not None:
                    raise CorruptDataError(
                        f"{missing} is missing though later entries are there; restore it from a backup"
                    )
                return state

    def refresh(self, state: TopicState) -> TopicState:
        """The state with all entries that have come since.

        It is another object when entries that it lacks have been summed up and removed.
        """
        try:
            while (self.folder / _entry(state.next)).exists():
                entry = self._read(_entry(state.next), Entry)
                if not self._is_near(state):  # then this may be what ``create`` is about to take back
                    break
                self._apply(state, entry)
        except FileNotFoundError:
            pass
        return state if self._is_near(state) else self.load(len(state.ends))

    def create(self, state: TopicState, entry: Entry) -> bool:
        """Add an entry behind the state; False when somebody else was faster."""
        path = self.folder / _entry(state.next)
        if not create_file(path, seal(entry)):
            return False
        if not self._is_near(state):
            if self._is_summed_up(entry, len(state.ends)):  # since it was created, while this process slept
                return True
            path.unlink(missing_ok=True)  # the number was free because its entry had been summed up
            return False
        state.apply(entry)
        if state.next % CHECKPOINT_EVERY == 0:
            self.checkpoint(state)
        return True

    def checkpoint(self, state: TopicState) -> None:
        """Sum up all entries so far, and remove those that the checkpoint before this one summed up."""
        name = f"{state.next:0{_DIGITS}d}.checkpoint"
        older = sorted(path.name for path in self.folder.glob("[0-9]*.checkpoint") if path.name < name)
        create_file(self.folder / name, seal(state))
        for before in older[:-1]:
            (self.folder / before).unlink(missing_ok=True)
        summed_up = int(older[-1][:_DIGITS]) if older else 0
        for path in sorted(self.folder.glob("[0-9]*.json")):  # the oldest goes first: see _is_near
            if int(path.name[:_DIGITS]) < summed_up:
                path.unlink(missing_ok=True)

    def _is_near(self, state: TopicState) -> bool:
        """Whether no entry behind the state can have been removed: the last one that it knows is still there."""
        if state.next == 0:
            return self._newest_checkpoint() is None
        return (self.folder / _entry(state.next - 1)).exists()

    def _is_summed_up(self, entry: Entry, partitions: int) -> bool:
        """Whether the segments of an entry are in the newest state at the offsets that the entry gives them."""
        if not entry.segments:  # setting starts twice does no harm
            return False
        first = entry.segments[0]
        return first in self.load(partitions).segments[first.partition]

    def _newest_checkpoint(self) -> str | None:
        return max((path.name for path in self.folder.glob("[0-9]*.checkpoint")), default=None)

    def _load_from(self, checkpoint: str | None, partitions: int) -> TopicState:
        state = TopicState.empty(partitions) if checkpoint is None else self._read_checkpoint(checkpoint, partitions)
        newest = max((path.name for path in self.folder.glob("[0-9]*.json")), default="")
        while _entry(state.next) <= newest:
            self._apply(state, self._read(_entry(state.next), Entry))
        if state.next:
            self._read(_entry(state.next - 1), Entry)  # it must be there: see _is_near
        return state

    def _read_checkpoint(self, name: str, partitions: int) -> TopicState:
        state = self._read(name, TopicState)
        try:
            state.check(partitions)
        except ValueError as error:
            raise does_not_fit(self.folder / name, error) from None
        return state

    def _apply(self, state: TopicState, entry: Entry) -> None:
        try:
            state.apply(entry)
        except ValueError as error:
            raise does_not_fit(self.folder / _entry(state.next), error) from None

    def _read(self, name: str, type_: type[T]) -> T:
        path = self.folder / name
        return unseal(path.read_bytes(), type_, str(path))


def does_not_fit(path: Path, reason: ValueError) -> CorruptDataError:
    """The error for a file that is whole and contradicts the others."""
    return CorruptDataError(f"{path} does not fit the topic: {reason}; restore the topic from a backup")


def _entry(number: int) -> str:
    return f"{number:0{_DIGITS}d}.json"

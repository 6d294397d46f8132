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

    def apply(self, entry: Entry) -> None:
        for segment in entry.segments:
            self.segments[segment.partition].append(segment)
            self.ends[segment.partition] = segment.end
        for partition, start in entry.starts.items():
            self.starts[partition] = start
            kept = [segment for segment in self.segments[partition] if segment.end > start]
            self.segments[partition] = kept
        if entry.producer:
            self.producers[entry.producer] = entry.sequence
        self.next += 1

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
        names = sorted(path.name for path in self.folder.iterdir()) if self.folder.is_dir() else []
        checkpoints = [name for name in names if name.endswith(".checkpoint")]
        state = TopicState.empty(partitions)
        if checkpoints:
            state = self._read(checkpoints[-1], TopicState)
        numbers = [int(name[:_DIGITS]) for name in names if name.endswith(".json")]
        for number in range(state.next, numbers[-1] + 1 if numbers else 0):
            state.apply(self._read(_entry(number), Entry))
        return state

    def refresh(self, state: TopicState) -> None:
        """Take up entries that have come since."""
        while (self.folder / _entry(state.next)).exists():
            state.apply(self._read(_entry(state.next), Entry))

    def create(self, state: TopicState, entry: Entry) -> bool:
        """Add an entry behind the state; False when somebody else was faster."""
        if not create_file(self.folder / _entry(state.next), seal(entry)):
            return False
        state.apply(entry)
        if state.next % CHECKPOINT_EVERY == 0:
            self.checkpoint(state)
        return True

    def checkpoint(self, state: TopicState) -> None:
        """Sum up all entries so far, and remove those that the checkpoint before this one summed up."""
        older = sorted(path.name for path in self.folder.glob("*.checkpoint"))
        create_file(self.folder / f"{state.next:0{_DIGITS}d}.checkpoint", seal(state))
        for name in older[:-1]:
            (self.folder / name).unlink(missing_ok=True)
        summed_up = int(older[-1][:_DIGITS]) if older else 0
        for path in self.folder.glob("*.json"):
            if int(path.name[:_DIGITS]) < summed_up:
                path.unlink(missing_ok=True)

    def _read(self, name: str, type_: type[T]) -> T:
        path = self.folder / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise CorruptDataError(
                f"{path} is missing though later entries are there; restore it from a backup"
            ) from None
        return unseal(data, type_, str(path))


def _entry(number: int) -> str:
    return f"{number:0{_DIGITS}d}.json"

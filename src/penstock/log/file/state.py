"""The sum of a topic's entries: its newest segments themselves, and references to earlier ones.

Every change of a topic is an entry, and entries are numbered without gaps, so all programs see the same states in the
same order. A state stays small however long the history is: neighbouring small appends are merged, and the oldest
merged ones go into nodes of the index (``nodes.py``), of which the state knows the topmost.

    nodes[1]  [ node of nodes | node of nodes ]
    nodes[0]                                   [ node of segments | node of segments ]
    segments                                                                          [ merged | merged | new | new ]
    offsets   0 --------------------------------------------------------------------------------------------> end
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

import msgspec

from penstock.files.untrusted import file_name
from penstock.log.contract.writer import Segment
from penstock.storage.base import FileRef

VERSION = 2
"""The format of entries and states. Version 1 had no merges and no nodes."""
GROWN = 3
"""The format of an entry that adds partitions, and of later states."""

RECENT = 1024
"""How many of the newest entries are remembered by their checksums."""
MAX_PRODUCERS = 4096
"""How many producers are remembered with the number of their last append; beyond it, the longest silent is
forgotten.
"""


class NodeRef(msgspec.Struct, frozen=True, array_like=True):
    """A node of the index."""

    file: FileRef
    ends: list[int]
    """For each partition the offset after this node's records and those of all earlier nodes. Partitions that the topic
    got later are missing.
    """

    def end(self, partition: int) -> int:
        """Return the offset after a partition's records in this node and all earlier nodes."""
        return self.ends[partition] if partition < len(self.ends) else 0


class Unit(msgspec.Struct, frozen=True, array_like=True):
    """One append, or several merged ones: units are merged and indexed as a whole."""

    files: list[str]
    nbytes: int
    oldest: int
    """The topic's newest timestamp as of the unit's first append: until it is old, no part of the unit is removed."""
    newest: int
    """The topic's newest timestamp as of the unit's last append."""
    level: int = 0
    """How often it was merged."""


class Merge(msgspec.Struct, frozen=True, tag="merge"):
    """Segments that replace those whose files are removed."""

    segments: list[Segment]
    level: int


class Seal(msgspec.Struct, frozen=True, tag="seal"):
    """The oldest units move into a node of the index."""

    node: NodeRef
    units: int


class Fold(msgspec.Struct, frozen=True, tag="fold"):
    """The oldest nodes of a level move into a node of the next level."""

    node: NodeRef
    level: int
    nodes: int


class Retention(msgspec.Struct, frozen=True, tag="retention"):
    """New limits of how long, and how much of each partition, records are kept; -1 for no limit."""

    retention_ms: int
    retention_bytes: int


class Grow(msgspec.Struct, frozen=True, tag="grow"):
    """The topic gets this many partitions; existing ones stay unchanged."""

    partitions: int


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of a topic: new segments, new starts of partitions after a removal, or a reorganisation of existing
    data.
    """

    segments: list[Segment] = []
    producer: str = ""
    sequence: int = -1
    starts: dict[int, int] = {}
    at: int = 0
    """Wall-clock time in ms."""
    gone: list[str] = []
    """Files of segments that become unneeded with this entry."""
    gone_nodes: list[str] = []
    """Files of nodes that become unneeded with this entry."""
    freed: dict[int, int] = {}
    """By partition, the bytes of indexed segments that ``starts`` removes."""
    change: Merge | Seal | Fold | Retention | Grow | None = None
    version: int = 1
    topic: str = ""
    """The id of the topic."""
    number: int = -1
    """The number of the entry; -1 in entries of earlier releases."""
    note: str = ""
    """The producer's note with its number."""

    def __post_init__(self) -> None:
        for name in (*self.gone, *self.gone_nodes):
            file_name(name)


class TopicState(msgspec.Struct):
    """The sum of the entries before ``next``."""

    next: int
    starts: list[int]
    ends: list[int]
    segments: list[list[Segment]]
    """By partition, the segments that are not in the index yet."""
    producers: dict[str, int]
    """The number of each producer's last append, ordered by the time of that append."""
    units: list[Unit] = []
    """The units of the segments, oldest first."""
    nodes: list[list[NodeRef]] = []
    """The topmost nodes of the index by level; those of a higher level are older."""
    nbytes: list[int] = []
    """By partition, the bytes of all its segments, in the index or not."""
    newest: list[int] = []
    """By partition, the newest timestamp; -1 if it is empty."""
    retention: Retention | None = None
    """The retention set after the topic was created."""
    recent: list[int] = []
    """The checksums of the newest entries."""
    grown: int = 0
    """How many partitions were added after the topic was created."""
    version: int = 1
    topic: str = ""
    """The id of the topic."""
    notes: dict[str, str] = {}
    """The notes of producers that write some, with the numbers of their last appends."""

    @property
    def made_with(self) -> int:
        """The number of partitions that the topic was created with."""
        return len(self.ends) - self.grown

    @classmethod
    def empty(cls, partitions: int) -> TopicState:
        zeros = [0] * partitions
        lists: list[list[Segment]] = [[] for _ in zeros]
        newest = [-1] * partitions
        return cls(0, zeros, [*zeros], lists, {}, nbytes=[*zeros], newest=newest, version=VERSION)

    def upgraded(self) -> TopicState:
        """Return the state in the present format, if a version without units and nodes wrote it."""
        if self.version < VERSION:
            self.units = _units_of(self.segments)
            self.nbytes = [sum(segment.nbytes for segment in part) for part in self.segments]
            self.newest = [max((segment.max_timestamp for segment in part), default=-1) for part in self.segments]
            self.version = VERSION
        return self

    def check(self, partitions: int) -> None:
        """Raise ``ValueError`` unless this is the state of a topic that was created with so many partitions."""
        partitions += self.grown
        lengths = {len(self.starts), len(self.ends), len(self.segments), len(self.nbytes), len(self.newest)}
        nodes = {len(ref.ends) for ref in self.topmost()}
        wrong = min(nodes, default=partitions) < partitions - self.grown or max(nodes, default=0) > partitions
        if lengths != {partitions} or self.grown < 0 or wrong:
            raise ValueError(f"it sums up {len(self.ends)} partitions and not {partitions}")
        for partition, segments in enumerate(self.segments):
            base = segments[0].base if segments else self.ends[partition]
            if base < self.sealed_end(partition):
                raise ValueError(f"its segments of partition {partition} are in the index already")
            for segment in segments:
                if segment.partition != partition or segment.base != base:
                    raise ValueError(f"its segments of partition {partition} do not follow one another")
                base = segment.end
            if base != self.ends[partition]:
                raise ValueError(f"its segments of partition {partition} do not reach offset {self.ends[partition]}")

    # --- what entries do ------------------------------------------------------------------------------------------

    def apply(self, entry: Entry, checksum: int = 0) -> None:
        """Apply an entry. If it does not fit the state, raise ``ValueError`` and apply nothing."""
        self._check(entry)
        self._append(entry)
        self._trim(entry)
        match entry.change:
            case Merge():
                self._merge(entry.change, set(entry.gone))
            case Seal():
                self._seal(entry.change)
            case Fold():
                self._fold(entry.change)
            case Retention():
                self.retention = entry.change
            case Grow():
                self._grow(entry.change.partitions - len(self.ends))
        if entry.producer:
            self.producers.pop(entry.producer, None)
            self.producers[entry.producer] = entry.sequence
            self._note(entry.producer, entry.note)
            while len(self.producers) > MAX_PRODUCERS:
                oldest = next(iter(self.producers))
                del self.producers[oldest]
                self._note(oldest, "")
        self.recent.append(checksum)
        del self.recent[:-RECENT]
        self.next += 1

    def _note(self, producer: str, note: str) -> None:
        """Replace the note of a producer."""
        others = {name: kept for name, kept in self.notes.items() if name != producer}
        self.notes = others | ({producer: note} if note else {})

    def _check(self, entry: Entry) -> None:
        ends = list(self.ends)
        for segment in entry.segments:
            if segment.partition >= len(ends) or segment.base != ends[segment.partition]:
                raise ValueError(f"its segment at offset {segment.base} of partition {segment.partition} has no place")
            ends[segment.partition] = segment.end
        for partition, start in entry.starts.items():
            if not (0 <= partition < len(ends) and start <= ends[partition]):
                raise ValueError(f"it removes the records before offset {start} of partition {partition}")
        change = entry.change
        if isinstance(change, Grow) and change.partitions < len(ends):
            raise ValueError(f"it makes {change.partitions} partitions of {len(ends)}")
        least = self.made_with if isinstance(change, Fold) else len(ends)
        if isinstance(change, Seal | Fold) and not least <= len(change.node.ends) <= len(ends):
            raise ValueError(f"its node has {len(change.node.ends)} partitions")
        if isinstance(change, Fold) and not 0 <= change.level < len(self.nodes):
            raise ValueError(f"there are no nodes of level {change.level}")
        if isinstance(change, Merge):
            self._check_merge(change, set(entry.gone))

    def _check_merge(self, merge: Merge, gone: set[str]) -> None:
        for new in merge.segments:
            old = self.segments[new.partition][self._run(new)]
            if any(segment.file.name not in gone for segment in old) or (old and old[-1].end != new.end):
                raise ValueError(f"its merged segment of partition {new.partition} has no place")

    def _run(self, new: Segment) -> slice:
        """Return the place of the segments that a merged one replaces, as far as they still exist."""
        segments = self.segments[new.partition]
        first = bisect_left(segments, new.base, key=lambda segment: segment.base)
        return slice(first, bisect_right(segments, new.end, lo=first, key=lambda segment: segment.end))

    def _append(self, entry: Entry) -> None:
        for segment in entry.segments:
            p = segment.partition
            self.segments[p].append(segment)
            self.ends[p] = segment.end
            self.nbytes[p] += segment.nbytes
            self.newest[p] = max(self.newest[p], segment.max_timestamp)
        if entry.segments:
            self.units.append(unit_of(entry.segments, max(self.newest)))

    def _trim(self, entry: Entry) -> None:
        for partition, nbytes in entry.freed.items():
            self.nbytes[partition] -= nbytes
        for partition, start in entry.starts.items():
            start = max(start, self.starts[partition])  # two programs may apply retention at once
            self.starts[partition] = start
            count = bisect_right(self.segments[partition], start, key=lambda segment: segment.end)
            self.nbytes[partition] -= sum(segment.nbytes for segment in self.segments[partition][:count])
            del self.segments[partition][:count]
            if start == self.ends[partition]:
                self.newest[partition] = -1
        if entry.starts:
            files = self.files()
            self.units = [unit for unit in self.units if not files.isdisjoint(unit.files)]
            self.nodes = [[ref for ref in level if not self.is_before_start(ref)] for level in self.nodes]

    def _grow(self, more: int) -> None:
        for numbers, number in ((self.starts, 0), (self.ends, 0), (self.nbytes, 0), (self.newest, -1)):
            numbers += [number] * more
        self.segments += [[] for _ in range(more)]
        self.grown += more
        self.version = GROWN

    def _merge(self, merge: Merge, gone: set[str]) -> None:
        for new in merge.segments:
            run = self._run(new)
            old = self.segments[new.partition][run]
            if old:  # otherwise all of it was removed meanwhile
                self.nbytes[new.partition] += new.nbytes - sum(segment.nbytes for segment in old)
                self.segments[new.partition][run] = [new]
        old_units = [number for number, unit in enumerate(self.units) if not gone.isdisjoint(unit.files)]
        if old_units:
            run = slice(old_units[0], old_units[-1] + 1)
            first, last = self.units[run.start], self.units[run.stop - 1]
            unit = unit_of(merge.segments, first.oldest, last.newest, merge.level)
            self.units[run] = [unit]

    def _seal(self, seal: Seal) -> None:
        for partition, segments in enumerate(self.segments):
            del segments[: bisect_right(segments, seal.node.end(partition), key=lambda segment: segment.end)]
        del self.units[: seal.units]
        lowest = [*self.nodes[0], seal.node] if self.nodes else [seal.node]
        self.nodes = [lowest, *self.nodes[1:]]

    def _fold(self, fold: Fold) -> None:
        levels = [*self.nodes, []] if fold.level + 1 == len(self.nodes) else list(self.nodes)
        levels[fold.level] = levels[fold.level][fold.nodes :]
        levels[fold.level + 1] = [*levels[fold.level + 1], fold.node]
        self.nodes = levels

    # --- queries --------------------------------------------------------------------------------------------------

    def place(self, segments: list[Segment]) -> list[Segment]:
        """Return the segments with the offsets they get if they are appended next."""
        ends = list(self.ends)
        placed = []
        for segment in segments:
            placed.append(msgspec.structs.replace(segment, base=ends[segment.partition]))
            ends[segment.partition] += segment.records
        return placed

    def segments_from(self, partition: int, offset: int) -> list[Segment]:
        """Return the segments outside the index that hold this offset and all later ones."""
        every = self.segments[partition]
        first = bisect_right(every, offset, key=lambda segment: segment.end)
        return every[first:]

    def sealed_end(self, partition: int) -> int:
        """Return the offset after the indexed records."""
        return next((level[-1].end(partition) for level in self.nodes if level), 0)

    def topmost(self) -> list[NodeRef]:
        """Return the topmost nodes of the index, oldest first."""
        return [ref for level in reversed(self.nodes) for ref in level]

    def checksum_of(self, number: int) -> int | None:
        """Return the checksum of an entry; None if it is not one of the newest."""
        first = self.next - len(self.recent)
        return self.recent[number - first] if first <= number < self.next else None

    def is_before_start(self, ref: NodeRef) -> bool:
        """Return whether all records in a node are removed."""
        return all(end <= start for end, start in zip(ref.ends, self.starts, strict=False))

    def files(self) -> set[str]:
        """Return the files of the segments that are not in the index."""
        return {segment.file.name for part in self.segments for segment in part}


def unit_of(segments: list[Segment], oldest: int, newest: int | None = None, level: int = 0) -> Unit:
    """Return the unit of segments that were appended, or merged, together."""
    files = list(dict.fromkeys(segment.file.name for segment in segments))
    return Unit(files, sum(segment.nbytes for segment in segments), oldest, oldest if newest is None else newest, level)


def _units_of(parts: list[list[Segment]]) -> list[Unit]:
    """Return units for segments without a record of which were appended together, in an order that fits them all.

    A file is the next unit when it comes next in all partitions for which it has records.
    """
    waiting: dict[str, list[Segment]] = {}
    for part in parts:
        for segment in part:
            waiting.setdefault(segment.file.name, []).append(segment)
    heads, at_head = [iter(part) for part in parts], dict.fromkeys(waiting, 0)
    ready: list[str] = []

    def go_on(partition: int) -> None:
        segment = next(heads[partition], None)
        if segment is not None:
            name = segment.file.name
            at_head[name] += 1
            if at_head[name] == len(waiting[name]):
                ready.append(name)

    for partition in range(len(parts)):
        go_on(partition)
    found: list[list[Segment]] = []
    while ready:
        found.append(waiting.pop(ready.pop()))
        for segment in found[-1]:
            go_on(segment.partition)
    if waiting:  # files whose order differs between partitions stay together
        found.append([segment for segments in waiting.values() for segment in segments])
    times = accumulate((max(segment.max_timestamp for segment in segments) for segments in found), max)
    return [unit_of(segments, time) for segments, time in zip(found, times, strict=True)]

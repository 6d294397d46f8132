"""What a topic's entries add up to: its newest segments themselves, and references to what came before.

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

from penstock.log.contract.writer import Segment
from penstock.storage import FileRef
from penstock.untrusted import file_name

VERSION = 2
"""The form of entries and states. Version 1 knew no merges and no nodes."""
GROWN = 3
"""That of an entry with which a topic gets more partitions, and of the states behind it."""

RECENT = 1024
"""So many of the newest entries are remembered by their checksums."""
MAX_PRODUCERS = 4096
"""So many producers are remembered with the number of their last append; of more the longest silent is forgotten."""


class NodeRef(msgspec.Struct, frozen=True, array_like=True):
    """A node of the index."""

    file: FileRef
    ends: list[int]
    """For each partition the offset behind what is in this node and all nodes before it; of partitions that the topic
    got later there is nothing in it."""

    def end(self, partition: int) -> int:
        """The offset behind what is in this node of a partition, and in all nodes before it."""
        return self.ends[partition] if partition < len(self.ends) else 0


class Unit(msgspec.Struct, frozen=True, array_like=True):
    """What was appended at once, or was merged into one: it is merged, and goes into the index, as a whole."""

    files: list[str]
    nbytes: int
    oldest: int
    """The newest timestamp that the topic had with the first append in it: until it is old, nothing of it goes."""
    newest: int
    """The newest timestamp that the topic had with the last append in it."""
    level: int = 0
    """How often it was merged."""


class Merge(msgspec.Struct, frozen=True, tag="merge"):
    """Segments in the place of those whose files are gone."""

    segments: list[Segment]
    level: int


class Seal(msgspec.Struct, frozen=True, tag="seal"):
    """The oldest units are in a node of the index from now on."""

    node: NodeRef
    units: int


class Fold(msgspec.Struct, frozen=True, tag="fold"):
    """The oldest nodes of a level are in a node of the next level from now on."""

    node: NodeRef
    level: int
    nodes: int


class Retention(msgspec.Struct, frozen=True, tag="retention"):
    """How long, and how much of each partition, records are kept from now on; -1 for ever, and for all."""

    retention_ms: int
    retention_bytes: int


class Grow(msgspec.Struct, frozen=True, tag="grow"):
    """The topic has so many partitions from now on; those that there were stay as they are."""

    partitions: int


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of a topic: new segments, the new starts of partitions when old records go, or another form of what
    is there."""

    segments: list[Segment] = []
    producer: str = ""
    sequence: int = -1
    starts: dict[int, int] = {}
    at: int = 0
    """Wall-clock time in ms."""
    gone: list[str] = []
    """Files of segments that nothing needs once this entry is there."""
    gone_nodes: list[str] = []
    """Files of nodes of which the same is true."""
    freed: dict[int, int] = {}
    """By partition the bytes of the segments in nodes of the index that ``starts`` removes."""
    change: Merge | Seal | Fold | Retention | Grow | None = None
    version: int = 1
    topic: str = ""
    """The id of the topic."""
    number: int = -1
    """Which entry it is; -1 in those of releases before."""

    def __post_init__(self) -> None:
        for name in (*self.gone, *self.gone_nodes):
            file_name(name)


class TopicState(msgspec.Struct):
    """What the entries before ``next`` add up to."""

    next: int
    starts: list[int]
    ends: list[int]
    segments: list[list[Segment]]
    """By partition those that are not in the index yet."""
    producers: dict[str, int]
    """The number of each one's last append; the one that appended last is the last one here."""
    units: list[Unit] = []
    """What the segments belong to, oldest first."""
    nodes: list[list[NodeRef]] = []
    """The topmost nodes of the index by level; those of a higher level are older."""
    nbytes: list[int] = []
    """By partition how many bytes all its segments have, in the index or not."""
    newest: list[int] = []
    """By partition the newest timestamp; -1 when it is empty."""
    retention: Retention | None = None
    """Set since the topic was made."""
    recent: list[int] = []
    """The checksums of the newest entries."""
    grown: int = 0
    """How many partitions the topic got since it was made."""
    version: int = 1
    topic: str = ""
    """The id of the topic."""

    @property
    def made_with(self) -> int:
        """How many partitions the topic was made with."""
        return len(self.ends) - self.grown

    @classmethod
    def empty(cls, partitions: int) -> TopicState:
        zeros = [0] * partitions
        lists: list[list[Segment]] = [[] for _ in zeros]
        newest = [-1] * partitions
        return cls(0, zeros, [*zeros], lists, {}, nbytes=[*zeros], newest=newest, version=VERSION)

    def upgraded(self) -> TopicState:
        """The state in the form of today, if it was written by a version that knew no units and nodes."""
        if self.version < VERSION:
            self.units = _units_of(self.segments)
            self.nbytes = [sum(segment.nbytes for segment in part) for part in self.segments]
            self.newest = [max((segment.max_timestamp for segment in part), default=-1) for part in self.segments]
            self.version = VERSION
        return self

    def check(self, partitions: int) -> None:
        """Raise ``ValueError`` unless this is the state of a topic that was made with so many partitions."""
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
        """Add what an entry says; raises ``ValueError``, and adds nothing, when it does not fit what is there."""
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
            while len(self.producers) > MAX_PRODUCERS:
                del self.producers[next(iter(self.producers))]
        self.recent.append(checksum)
        del self.recent[:-RECENT]
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
        """The place of the segments that a merged one stands for, as far as they are still there."""
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
            if old:  # else all of it was removed meanwhile
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

    # --- what is asked of it --------------------------------------------------------------------------------------

    def place(self, segments: list[Segment]) -> list[Segment]:
        """The segments with the offsets they get when they are appended next."""
        ends = list(self.ends)
        placed = []
        for segment in segments:
            placed.append(msgspec.structs.replace(segment, base=ends[segment.partition]))
            ends[segment.partition] += segment.records
        return placed

    def segments_from(self, partition: int, offset: int) -> list[Segment]:
        """Of the segments that are not in the index those that hold this offset and all later ones."""
        every = self.segments[partition]
        first = bisect_right(every, offset, key=lambda segment: segment.end)
        return every[first:]

    def sealed_end(self, partition: int) -> int:
        """The offset behind what is in the index."""
        return next((level[-1].end(partition) for level in self.nodes if level), 0)

    def topmost(self) -> list[NodeRef]:
        """The topmost nodes of the index, oldest first."""
        return [ref for level in reversed(self.nodes) for ref in level]

    def checksum_of(self, number: int) -> int | None:
        """The checksum of an entry; None when it is not one of the newest."""
        first = self.next - len(self.recent)
        return self.recent[number - first] if first <= number < self.next else None

    def is_before_start(self, ref: NodeRef) -> bool:
        """Whether all records in a node are removed."""
        return all(end <= start for end, start in zip(ref.ends, self.starts, strict=False))

    def files(self) -> set[str]:
        """The files of the segments that are not in the index."""
        return {segment.file.name for part in self.segments for segment in part}


def unit_of(segments: list[Segment], oldest: int, newest: int | None = None, level: int = 0) -> Unit:
    """The unit that segments are which came at once, or were merged."""
    files = list(dict.fromkeys(segment.file.name for segment in segments))
    return Unit(files, sum(segment.nbytes for segment in segments), oldest, oldest if newest is None else newest, level)


def _units_of(parts: list[list[Segment]]) -> list[Unit]:
    """Units for segments of which nobody remembers any more which came together, in an order that fits them all.

    A file is the next unit when it comes next in all partitions that it has records of.
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
    if waiting:  # files that come in another order in other partitions stay together
        found.append([segment for segments in waiting.values() for segment in segments])
    times = accumulate((max(segment.max_timestamp for segment in segments) for segments in found), max)
    return [unit_of(segments, time) for segments, time in zip(found, times, strict=True)]

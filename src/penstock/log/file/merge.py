"""Merges neighbouring small appends into one file, repeatedly, until it is large.

Appends are merged when ``FAN_IN`` of them are side by side, the results again when there are as many of them, and so
on. So every record is rewritten only a few times, and a topic has some 70 small files at most: 15 of each of four or
five sizes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import dropwhile, groupby, takewhile
from pathlib import Path

import msgspec

from penstock.log.contract.topics import TopicInfo
from penstock.log.contract.writer import Segment
from penstock.log.file.segments import FileSegmentWriter, SegmentFiles
from penstock.log.file.state import TopicState, Unit
from penstock.log.records import Records, gathered

FAN_IN = 16
"""How many neighbouring appends are merged."""
TARGET_BYTES = 64 << 20
"""Most bytes merged into one file; a file with half of them is large enough."""
_MOST_UNITS = 512
_BATCH_RECORDS = 65_536
_BATCH_BYTES = 32 << 20
_RETENTION_SHARE = 8
"""A merged file has at most this fraction of what a topic keeps, because files are removed as a whole."""


@dataclass(frozen=True)
class MergeLimits:
    """The limits of one merged file."""

    nbytes: int
    span_ms: int
    """How far the newest timestamps at the first and the last append in it may be apart."""

    @classmethod
    def of(cls, info: TopicInfo) -> MergeLimits:
        """Return the limits of a topic with its retention."""
        nbytes, span_ms = TARGET_BYTES, 2**63
        if info.retention_bytes >= 0:
            nbytes = min(nbytes, info.retention_bytes // _RETENTION_SHARE)
        if info.retention_ms >= 0:
            span_ms = info.retention_ms // _RETENTION_SHARE
        return cls(nbytes, span_ms)

    def is_large(self, unit: Unit) -> bool:
        """Return whether a unit is not merged further."""
        return unit.nbytes * 2 >= self.nbytes


def due(units: list[Unit], limits: MergeLimits) -> slice | None:
    """Return the units to merge next; None if nothing is due.

    >>> small, large = Unit(["a"], 10, 0, 0), Unit(["b"], TARGET_BYTES, 0, 0)
    >>> limits = MergeLimits(TARGET_BYTES, 1000)
    >>> due([small] * 15, limits), due([small] * 16, limits), due([small, small, large, small], limits)
    (None, slice(0, 16, None), slice(0, 2, None))
    """
    for first, end in _stretches(units, limits):
        for start, stop in _of_one_level(units, first, end):
            if stop - start >= FAN_IN:
                return slice(start, min(stop, start + _MOST_UNITS))
        if end < len(units) and end - first > 1:  # no more units will come beside these
            return slice(first, min(end, first + _MOST_UNITS))
    return None


def _stretches(units: list[Unit], limits: MergeLimits) -> Iterator[tuple[int, int]]:
    """Yield the stretches of small units that fit into one file."""
    first, nbytes = 0, 0
    for number, unit in enumerate(units):
        if limits.is_large(unit):
            yield first, number
            first, nbytes = number + 1, 0
            continue
        span = unit.newest - units[first].oldest
        if nbytes and (nbytes + unit.nbytes > limits.nbytes or span > limits.span_ms):
            yield first, number
            first, nbytes = number, 0
        nbytes += unit.nbytes
    yield first, len(units)


def _of_one_level(units: list[Unit], first: int, end: int) -> Iterator[tuple[int, int]]:
    start = first
    for number in range(first, end + 1):
        if number == end or units[number].level != units[start].level:
            yield start, number
            start = number


def segments_of(state: TopicState, units: list[Unit]) -> list[list[Segment]]:
    """Return the segments of neighbouring units, by partition."""
    files = {name for unit in units for name in unit.files}
    parts = []
    for segments in state.segments:
        before = dropwhile(lambda segment: segment.file.name not in files, segments)
        parts.append(list(takewhile(lambda segment: segment.file.name in files, before)))
    return parts


def write_merged(folder: Path, files: SegmentFiles, parts: list[list[Segment]]) -> list[Segment]:
    """Write the records of consecutive segments into one file. Return one segment for each partition.

    Raises:
        CorruptDataError: a file is damaged, or another program has already removed it.
    """
    with_headers = any(files.has_headers(segment) for part in parts for segment in part)
    with FileSegmentWriter(folder, f"merge-{os.urandom(8).hex()}", with_headers) as writer:
        for partition, part in enumerate(parts):
            pieces = (piece for segment in part for piece in files.read(segment, segment.base, segment.end))
            for one in _together(pieces):
                writer.write(partition, one.key, one.value, one.timestamp, one.headers, one.placed)
    return [_in_place_of(parts[segment.partition], segment) for segment in writer.segments()]


def _in_place_of(part: list[Segment], segment: Segment) -> Segment:
    return msgspec.structs.replace(segment, base=part[0].base, nbytes=sum(old.nbytes for old in part))


def _together(pieces: Iterable[Records]) -> Iterator[Records]:
    """Yield consecutive records in fewer, bounded pieces. In each piece either all records may have headers, or
    none.
    """
    for _, some in groupby(pieces, lambda piece: piece.headers is None):
        yield from gathered(some, _BATCH_RECORDS, _BATCH_BYTES)

"""Segment files: Arrow files of record batches, written once and memory-mapped for reading."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.arrays import Binary, IntArray
from penstock.columns.batch import HEADERS
from penstock.errors import CorruptDataError
from penstock.files.untrusted import ArrowFile
from penstock.log.contract.writer import Segment, SegmentWriter
from penstock.log.records import SCHEMA, SCHEMA_WITH_HEADERS, Records, from_record_batch, to_record_batch
from penstock.storage.base import FileRef, checksum, durable_file, map_file, writing

_OPEN_FILES = 64
_MOST_BYTES = 128 << 20
"""Most bytes of a record batch, unless it has only one record."""


class FileSegmentWriter(SegmentWriter):
    """Writes a file, opened at the first record.

    Records with headers and records without go to separate files. With ``with_headers`` all go into one file that has
    headers.
    """

    def __init__(self, folder: Path, name: str, with_headers: bool = False):
        self._folder = folder
        self._name = name
        self._with_headers = with_headers
        self._files: list[_SegmentFile] = []

    def __enter__(self) -> FileSegmentWriter:
        return self

    def write(
        self, partition: int, key: Binary, value: Binary, timestamp: IntArray, headers: Any = None, placed: bool = False
    ) -> None:
        if self._with_headers and headers is None:
            headers = pa.nulls(len(timestamp), HEADERS)
        if len(timestamp):
            if not self._files or self._files[-1].has_headers != (headers is not None):
                name = f"{self._name}-{len(self._files)}.arrow"
                self._files.append(_SegmentFile(self._folder / name, headers is not None))
            for piece in _pieces(Records(-1, key, value, timestamp, headers, placed)):
                self._files[-1].write(partition, piece)

    def __exit__(self, *error: Any) -> None:
        for file in self._files:
            file.close(*error)

    def segments(self) -> list[Segment]:
        return [segment for file in self._files for segment in file.segments()]


def _pieces(records: Records) -> Iterator[Records]:
    """Yield records in pieces that fit into readers' memory and can be combined with others."""
    if records.nbytes <= _MOST_BYTES or len(records) == 1:
        yield records
    else:
        half = len(records) // 2
        yield from _pieces(records.slice(0, half))
        yield from _pieces(records.slice(half, len(records)))


class _SegmentFile:
    """One file being written, and its contents by partition."""

    def __init__(self, path: Path, has_headers: bool):
        self._path = path
        self.has_headers = has_headers
        self._context = durable_file(path, parents=False)  # the folder of a removed topic must not be created again
        self._writer = ipc.new_file(self._context.__enter__(), SCHEMA_WITH_HEADERS if has_headers else SCHEMA)
        self._batches = 0
        self._contents: dict[int, Segment] = {}
        self._ref = FileRef("", 0, 0)

    def write(self, partition: int, records: Records) -> None:
        with writing(self._path):
            self._writer.write_batch(to_record_batch(records))
        before = self._contents.get(
            partition, Segment(partition, self._ref, [], 0, nbytes=0, max_timestamp=-1, placed=True)
        )
        self._contents[partition] = Segment(
            partition,
            before.file,
            [*before.batches, self._batches],
            before.records + len(records),
            nbytes=before.nbytes + records.nbytes,
            max_timestamp=max(before.max_timestamp, int(records.timestamp.max())),
            placed=before.placed and records.placed,
        )
        self._batches += 1

    def close(self, *error: Any) -> None:
        if error[0] is None:
            with writing(self._path):
                self._writer.close()
        self._context.__exit__(*error)
        if error[0] is None:
            data = map_file(self._path)
            self._ref = FileRef(self._path.name, len(data), checksum(data))

    def segments(self) -> list[Segment]:
        return [msgspec.structs.replace(self._contents[p], file=self._ref) for p in sorted(self._contents)]


@dataclass
class _Open:
    """A file that is open for reading."""

    data: Any
    arrow: ArrowFile
    is_checked: bool


class SegmentFiles:
    """A topic's segment files open for reading; each is verified once before its first read."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def read(self, segment: Segment, start: int, end: int) -> Iterator[Records]:
        """Yield the records of a segment with ``start <= offset < end``."""
        reader = self._reader(segment.file)
        offset = segment.base
        for number in segment.batches:
            if offset >= end:
                return
            rows = reader.rows(number)
            if offset + rows > start:
                records = from_record_batch(reader.batch(number), offset, segment.placed).between(start, end)
                if len(records):
                    yield records
            offset += rows
        if offset != segment.end:
            raise CorruptDataError(
                f"{self.folder / segment.file.name} has {offset - segment.base} records of partition "
                f"{segment.partition} and not {segment.records} as its entry says; restore both from a backup"
            )

    def timestamp_at(self, segment: Segment, offset: int) -> int:
        """Return the timestamp of one record of a segment, without verifying the whole file."""
        reader, base = self._reader(segment.file, is_checked=False), segment.base
        for number in segment.batches:
            if base <= offset < base + reader.rows(number):
                return int(reader.batch(number).column("timestamp")[offset - base].as_py())
            base += reader.rows(number)
        raise CorruptDataError(f"{self.folder / segment.file.name} has no record {offset}; restore it from a backup")

    def has_headers(self, segment: Segment) -> bool:
        """Return whether the file of a segment has a column for headers."""
        return len(self._reader(segment.file).schema) > len(SCHEMA)

    def _reader(self, ref: FileRef, is_checked: bool = True) -> ArrowFile:
        """Return an open file, verified as a whole if requested."""
        found = self._open.get(ref.name)
        if found is None:
            path = self.folder / ref.name
            data = self._data(ref, path, is_checked)
            arrow = ArrowFile(data, (SCHEMA, SCHEMA_WITH_HEADERS), ("timestamp",), str(path))
            found = self._open[ref.name] = _Open(data, arrow, is_checked)
            if len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)
        elif is_checked and not found.is_checked:
            ref.verify(found.data, str(self.folder))
            found.is_checked = True
        self._open.move_to_end(ref.name)
        return found.arrow

    def _data(self, ref: FileRef, path: Path, is_checked: bool) -> Any:
        try:
            data = map_file(path)
        except FileNotFoundError:
            raise CorruptDataError(
                f"{path} is missing: {ref.size} bytes were written; restore it from a backup"
            ) from None
        if is_checked:
            ref.verify(data, str(self.folder))
        return data

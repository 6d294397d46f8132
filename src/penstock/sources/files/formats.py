"""JSON lines, CSV and Parquet as batches of records, from any place in a file on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.serdes import json_columns
from penstock.sources.cells import keys_in_lines, keys_of_column
from penstock.sources.files.csv_rows import Csv
from penstock.sources.files.rows import BLOCK, Rows, Wanted, column_of
from penstock.sources.files.texts import UTF_8, Utf8
from penstock.values.decoding import from_json

_LONGEST_LINE = 256 << 20
_MARK = b"\xef\xbb\xbf"
"""The mark that some tools write before text."""

FORMATS = ("jsonl", "csv", "parquet")
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}
"""Formats by the endings of names."""
_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Compressions by the endings behind those."""


def format_of(name: str) -> str | None:
    """Return the format of a file by its name; None if nobody knows it.

    >>> format_of("2026/orders.jsonl.gz"), format_of("orders.parquet"), format_of("orders.txt")
    ('jsonl', 'parquet', None)
    """
    bare = name.lower()
    for ending in _PACKED:
        bare = bare.removesuffix(ending)
    return next((format_ for ending, format_ in _ENDINGS.items() if bare.endswith(ending)), None)


def rows_of(format_: str, open_: Callable[[], Any], name: str, at: int, wanted: Wanted) -> Rows:
    """Return what reads the rows of a file from a place on.

    Args:
        open_: opens the file.
        name: the file's name, whose ending says how it is packed.
    """
    packed = next((kind for ending, kind in _PACKED.items() if name.lower().endswith(ending)), None)
    kinds: dict[str, type[Rows]] = {"jsonl": JsonLines, "csv": Csv, "parquet": Parquet}
    return kinds[format_](open_, at, wanted, packed if format_ != "parquet" else None)


class JsonLines(Rows):
    """An object of JSON a line. Lines are handed on as they are, in UTF-8; places are bytes."""

    def _open(self) -> Any:
        file = super()._open()
        return file if self._wanted.encoding == UTF_8 else Utf8(file, self._wanted.encoding, has_marks=False)

    def _begin(self) -> None:
        self._rest = b""
        self._has_begun = self._at > 0
        if not self._is_packed and self._wanted.encoding == UTF_8:
            self._file.seek(self._at)
            return
        left = self._at
        while left and (skipped := len(self._file.read(min(left, BLOCK)))):
            left -= skipped

    def read(self, most: int) -> tuple[Any, int] | None:
        while block := self._whole_lines():
            size = _size_of(block, most)
            self._rest = block[size:] + self._rest
            text = block[:size].removeprefix(_MARK) if self._at == 0 else block[:size]
            self._at += size
            lines = _lines_of(text)
            if len(lines):
                keys = {} if self._wanted.key is None else {"key": self._keys_in(lines, self._wanted.key)}
                return pa.table({**keys, "value": lines}), self._at
        return None

    def _keys_in(self, lines: Any, field: str) -> Any:
        """Return the keys of lines; warn if none of the first ones has one."""
        keys = keys_in_lines(lines, field, self._wanted.types[0])
        if not self._has_begun and keys.null_count == len(keys):
            self._wanted.warn(
                f"{self._wanted.where}: none of its first {len(keys):,} lines has a key in the field {field!r}, so "
                f"these records have none. The first line has {_fields_of(lines[0].as_py())}"
            )
        self._has_begun = True
        return keys

    def _whole_lines(self) -> bytes:
        """Return some whole lines; none at the end of the file."""
        block, self._rest = self._rest, b""
        while b"\n" not in block:
            more = self._file.read(BLOCK)
            if not more:
                return block
            block += more
            if len(block) > _LONGEST_LINE:
                raise self._wanted.refused(
                    f"the line at byte {self._at:,} has more than {_LONGEST_LINE >> 20} MB, which is no JSON line"
                )
        end = block.rindex(b"\n") + 1
        self._rest = block[end:]
        return block[:end]


def _fields_of(line: bytes) -> str:
    """Return the names of a line's fields.

    >>> _fields_of(b'{"id": 7, "at": 3}'), _fields_of(b"7")
    ("'id', 'at'", 'no fields')
    """
    try:
        return ", ".join(map(repr, from_json(line, dict[str, msgspec.Raw]))) or "no fields"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "no fields"


def _size_of(block: bytes, most: int) -> int:
    """Return how many bytes the first lines of a block are."""
    if block.count(b"\n") <= most:
        return len(block)
    at = -1
    for _ in range(most):
        at = block.index(b"\n", at + 1)
    return at + 1


def _lines_of(text: bytes) -> Any:
    """Return the lines that are not empty as an array of bytes.

    >>> _lines_of(b'{"n": 1}\\r\\n\\n{"n": 2}').to_pylist()
    [b'{"n": 1}', b'{"n": 2}']
    """
    lines = pc.split_pattern(pa.array([text.replace(b"\r\n", b"\n")], pa.binary()), pattern=b"\n").flatten()
    return lines.filter(pc.greater(pc.binary_length(lines), 0))


class Parquet(Rows):
    """Rows with types; places are numbers of rows."""

    def _begin(self) -> None:
        import pyarrow.parquet as pq

        try:
            self._parquet = pq.ParquetFile(self._file)
        except pa.ArrowInvalid as error:
            raise self._wanted.refused(error) from None
        groups, skip = self._parquet.metadata.num_row_groups, self._at
        first = 0
        while first < groups and skip >= self._parquet.metadata.row_group(first).num_rows:
            skip -= self._parquet.metadata.row_group(first).num_rows
            first += 1
        self._groups = list(range(first, groups))
        self._skip = skip
        self._batches: Iterator[Any] | None = None

    def read(self, most: int) -> tuple[Any, int] | None:
        if self._batches is None:
            self._batches = (
                self._parquet.iter_batches(batch_size=most, row_groups=self._groups) if self._groups else iter(())
            )
        for batch in self._batches:
            skipped = min(self._skip, len(batch))
            self._skip -= skipped
            some = batch.slice(skipped)
            if len(some):
                self._at += len(some)
                return self._records(some), self._at
        return None

    def _records(self, batch: Any) -> Any:
        keys = {}
        if self._wanted.key is not None:
            keys["key"] = keys_of_column(column_of(batch, self._wanted.key, self._wanted), self._wanted.types[0])
        return pa.table({**keys, "value": json_columns.encode_rows(batch, self._wanted.where)})

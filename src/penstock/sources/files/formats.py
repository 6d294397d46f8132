"""JSON lines, CSV and Parquet as batches of records, from any place in a file on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SourceError
from penstock.serdes import Serde, json_columns
from penstock.sources.cells import keys_in_lines, keys_of_column, keys_of_text, objects_of_text

_BLOCK = 8 << 20
"""How many bytes of text are read at once."""
_LONGEST_LINE = 256 << 20
_EMPTY = "Empty CSV file"
"""Arrow's words for CSV without rows."""
_MARK = b"\xef\xbb\xbf"
"""The mark that some tools write before text."""

FORMATS = ("jsonl", "csv", "parquet")
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}
"""Formats by the endings of names."""
_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Compressions by the endings behind those."""


@dataclass(frozen=True)
class Wanted:
    """The records that the rows of files become.

    Attributes:
        key: the column or field with the keys; None for none.
        types: the types of keys and values.
        delimiter: the character between the values of a row of CSV.
        columns: the columns of CSV without a first row of names.
        where: names the file in messages.
    """

    key: str | None
    types: tuple[Serde, Serde]
    delimiter: str
    columns: tuple[str, ...] | None
    where: str

    def refused(self, why: object) -> SourceError:
        """Return the error for a file that cannot be read."""
        return SourceError(f"{self.where}: {str(why).partition(chr(10))[0].rstrip('.')}. Correct the file")


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


class Rows(ABC):
    """Reads the rows of one file.

    Args:
        at: the place to begin at, which ``read`` returned before.
        packed: how the file is packed; None where one can seek in it.
    """

    def __init__(self, open_: Callable[[], Any], at: int, wanted: Wanted, packed: str | None):
        self._open = open_ if packed is None else lambda: pa.CompressedInputStream(open_(), packed)
        self._at = at
        self._wanted = wanted
        self._is_packed = packed is not None
        self._file = self._open()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _begin(self) -> None:
        """Go to the place."""

    @abstractmethod
    def read(self, most: int) -> tuple[Any, int] | None:
        """Return some records as a table, and the place behind them; None at the end of the file."""

    def close(self) -> None:
        self._file.close()


class JsonLines(Rows):
    """An object of JSON a line. Lines are handed on as they are; places are bytes."""

    def _begin(self) -> None:
        self._rest = b""
        if not self._is_packed:
            self._file.seek(self._at)
            return
        left = self._at
        while left and (skipped := len(self._file.read(min(left, _BLOCK)))):
            left -= skipped

    def read(self, most: int) -> tuple[Any, int] | None:
        while block := self._whole_lines():
            size = _size_of(block, most)
            self._rest = block[size:] + self._rest
            text = block[:size].removeprefix(_MARK) if self._at == 0 else block[:size]
            self._at += size
            lines = _lines_of(text)
            if len(lines):
                keys = (
                    {}
                    if self._wanted.key is None
                    else {"key": keys_in_lines(lines, self._wanted.key, self._wanted.types[0])}
                )
                return pa.table({**keys, "value": lines}), self._at
        return None

    def _whole_lines(self) -> bytes:
        """Return some whole lines; none at the end of the file."""
        block, self._rest = self._rest, b""
        while b"\n" not in block:
            more = self._file.read(_BLOCK)
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


class Csv(Rows):
    """Rows of text; places are numbers of rows.

    The fields of the values' type say which columns are numbers, times and truth values. All others are text.
    """

    def _begin(self) -> None:
        import pyarrow.csv as csv

        self._left: list[Any] = []
        self._batches: Iterator[Any] = iter(())
        names = self._wanted.columns or self._names()
        if not names:
            return
        read = csv.ReadOptions(
            column_names=list(names),
            skip_rows=0 if self._wanted.columns else 1,
            skip_rows_after_names=self._at,
            block_size=_BLOCK,
            use_threads=False,
        )
        text = dict.fromkeys(names, pa.string())
        convert = csv.ConvertOptions(column_types=text, strings_can_be_null=False, check_utf8=True)
        try:
            self._batches = csv.open_csv(self._file, read, self._parsing(), convert)
        except pa.ArrowInvalid as error:
            if _EMPTY not in str(error):
                raise self._wanted.refused(error) from None

    def _parsing(self) -> Any:
        import pyarrow.csv as csv

        return csv.ParseOptions(delimiter=self._wanted.delimiter, newlines_in_values=True)

    def _names(self) -> list[str]:
        """Return the names in the first row; none for a file without any row."""
        import pyarrow.csv as csv

        try:
            with self._open() as file:
                first = csv.open_csv(file, parse_options=self._parsing())
                names: list[str] = first.schema.names
                first.close()
        except pa.ArrowInvalid as error:
            if _EMPTY in str(error):
                return []
            raise self._wanted.refused(error) from None
        if len(set(names)) < len(names) or "" in names:
            raise self._wanted.refused(f"its first row has the names of columns, each once; it has {', '.join(names)}")
        return names

    def read(self, most: int) -> tuple[Any, int] | None:
        batch = self._next()
        if batch is None:
            return None
        if len(batch) > most:
            self._left.append(batch.slice(most))
            batch = batch.slice(0, most)
        keys = {}
        if self._wanted.key is not None:
            keys["key"] = keys_of_text(_column(batch, self._wanted.key, self._wanted), self._wanted.types[0])
        self._at += len(batch)
        return pa.table({**keys, "value": objects_of_text(batch, self._wanted.types[1], self._wanted.where)}), self._at

    def _next(self) -> Any:
        if self._left:
            return self._left.pop()
        try:
            return next((batch for batch in self._batches if len(batch)), None)
        except pa.ArrowInvalid as error:
            raise self._wanted.refused(error) from None


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
            keys["key"] = keys_of_column(_column(batch, self._wanted.key, self._wanted), self._wanted.types[0])
        return pa.table({**keys, "value": json_columns.encode_rows(batch, self._wanted.where)})


def _column(batch: Any, name: str, wanted: Wanted) -> Any:
    if name not in batch.schema.names:
        raise wanted.refused(f"it has no column {name!r} for the keys; its columns are {', '.join(batch.schema.names)}")
    return batch.column(name)

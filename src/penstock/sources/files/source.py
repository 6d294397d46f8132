"""Files that appear in a folder or a bucket: each row or line is a record."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import ConfigError, SourceError
from penstock.messages import show
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde
from penstock.serdes.primitives import BYTES
from penstock.sources.files.formats import FORMATS, format_of, rows_of
from penstock.sources.files.journal import Journal
from penstock.sources.files.places import Bucket, Listed, place_at
from penstock.sources.files.rows import Rows, Wanted
from penstock.sources.files.texts import UTF_8, encoding_named
from penstock.sources.protocol import Source, SourceBatch, SourceContext, SourceReader, storage_of
from penstock.values.decoding import converted
from penstock.values.durations import Duration, to_ms
from penstock.values.masking import masked
from penstock.values.times import wall_clock_ms

_EVERY_MS, _EVERY_MS_OF_BUCKETS = 1_000, 10_000


class FileSource(Source):
    """The files in a folder or a bucket, and those that appear there later: JSON lines, CSV and Parquet.

    Each line, or row, is a record whose value is a JSON object. Penstock reads files in the order of their last change,
    and each name once. So write a file under a name that begins with ``.`` or ``_``, and rename it when it is complete.
    A bucket needs ``penstock-streams[obstore]``.

    Args:
        place: a folder, or a URL such as ``"s3://lake/orders"``. Folders below it are read, too.
        format: ``"jsonl"``, ``"csv"`` or ``"parquet"``; by default the ending of each name decides, and Penstock
            ignores files with other endings. ``.gz``, ``.zst`` or ``.bz2`` may follow ``.jsonl`` and ``.csv``.
        key: the field or column with the keys; records have none without it.
        delimiter: the character between the values of a row of CSV.
        columns: the names of the columns of CSV, if its first row does not have them.
        encoding: the encoding of JSON lines and CSV, such as ``"cp1252"``. A line or row that does not decode is a
            record that does not decode.
        every: how often Penstock looks for files; by default every second, and every 10 seconds in a bucket.
        min_age: how long a file must be unchanged before Penstock reads it.

    Raises:
        ConfigError: an argument cannot be meant, or obstore is not installed.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sources import FileSource
    >>> orders = StreamsBuilder().source(FileSource("lake/orders", key="customer"), "orders", key=str, value=dict)
    """

    def __init__(
        self,
        place: Path | str,
        format: str | None = None,
        *,
        key: str | None = None,
        delimiter: str = ",",
        columns: Sequence[str] | None = None,
        encoding: str = UTF_8,
        every: Duration | None = None,
        min_age: Duration = "0 s",
    ):
        if format is not None and format not in FORMATS:
            raise ConfigError(f"FileSource: format is one of {', '.join(FORMATS)}; got {show(format)}")
        if key is not None and not (isinstance(key, str) and key):
            raise ConfigError(f"FileSource: key is the name of a field or a column; got {show(key)}")
        if not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()):
            raise ConfigError(f"FileSource: delimiter is one character of ASCII; got {show(delimiter)}")
        names = None if columns is None else tuple(columns)
        if names is not None and (isinstance(columns, str) or not _are_names(names)):
            raise ConfigError(
                f"FileSource: columns are names, each once, such as ['customer', 'amount']; got {show(columns)}"
            )
        self.place = place_at(place, "FileSource: place")
        self._shown_place = masked(str(place))
        self.format = format
        self.key = key
        self.delimiter = delimiter
        self.columns = names
        self.encoding = encoding_named(encoding, "FileSource: encoding")
        self.min_age_ms = to_ms(min_age, "FileSource: min_age")
        usual = _EVERY_MS_OF_BUCKETS if isinstance(self.place, Bucket) else _EVERY_MS
        self.poll_ms = usual if every is None else to_ms(every, "FileSource: every")

    @property
    def shown(self) -> str:
        return f"files in {self._shown_place}"

    def check_types(self, key: Serde, value: Serde) -> None:
        if not isinstance(value, JsonSerde) and value is not BYTES:
            raise ConfigError(
                f"the values of {self.shown} are JSON objects: value=dict, a dataclass or a msgspec.Struct; got "
                f"{value.name}"
            )

    def open(self, context: SourceContext) -> SourceReader:
        return _Reader(self, context)


def _are_names(given: tuple[Any, ...]) -> bool:
    return all(isinstance(one, str) and one for one in given) and 0 < len(set(given)) == len(given)


class _At(msgspec.Struct, frozen=True):
    """A place in the files.

    Attributes:
        list: the number of the list, from 1 on.
        file: which file of it.
        at: the place in that file.
        tag: the file's tag, if it was begun.
        encoding: the encoding in which it was begun.
    """

    list: int = 0
    file: int = 0
    at: int = 0
    tag: str = ""
    encoding: str = UTF_8


class _Reader(SourceReader):
    def __init__(self, source: FileSource, context: SourceContext):
        self._source = source
        self._context = context
        self._journal = Journal(storage_of(context), context.folder)
        self._rows: Rows | None = None
        self._read_to: tuple[_At, _At] = _At(), _At()
        """An offset, and the place behind it where nothing is in between."""
        self._tag = ""
        """That of the open file."""
        self._left_alone: str | None = ""
        """A file with an unknown ending; None once the user has been told."""

    def read(self, offset: Any, most: int) -> SourceBatch | None:
        begin = _At() if offset is None else converted(offset, _At)
        at = self._read_to[1] if self._read_to[0] == begin else begin
        while (file := self._file_at(at)) is not None:
            listed, at = file
            found = self._next(listed, at, most)
            if found is not None:
                table, place = found
                behind = _At(at.list, at.file, place, self._tag, self._source.encoding)
                self._read_to = behind, behind
                return SourceBatch(table, msgspec.to_builtins(behind))
            if self._rows is not None:
                self._check_is_same(listed)
            self._close_file()
            at = _At(at.list, at.file + 1)
        self._read_to = begin, at
        return None

    def _file_at(self, at: _At) -> tuple[Listed, _At] | None:
        """Return the file at a place or behind it, and its place; None if no more have appeared."""
        files = self._journal.files(at.list) if at.list else []
        if at.file < len(files):
            return files[at.file], at
        new = self._journal.find(at.list + 1, self._source.place, self._is_meant)
        if new is not None:
            return new[0], _At(at.list + 1)
        if self._left_alone and not at.list:
            self._context.warn(
                f"no file has a known ending; one of them is {self._left_alone!r}. Give format=, one of "
                f"{', '.join(FORMATS)}, to read them all"
            )
            self._left_alone = None
        return None

    def _is_meant(self, file: Listed) -> bool:
        if self._source.format is None and format_of(file.name) is None:
            if self._left_alone == "":
                self._left_alone = file.name
            return False
        return not self._source.min_age_ms or file.at <= wall_clock_ms() - self._source.min_age_ms

    def _next(self, file: Listed, at: _At, most: int) -> tuple[Any, int] | None:
        """Return more of a file; None at its end, or if it is gone."""
        if self._rows is None and not self._open(file, at):
            return None
        assert self._rows is not None
        return self._rows.read(most)

    def _open(self, file: Listed, at: _At) -> bool:
        """Open a file; return False if it is gone."""
        now = self._source.place.look(file.name)
        if at.tag and (now is None or now.tag != at.tag):
            is_what = "gone" if now is None else f"another file: it was changed when it had {now.size:,} bytes"
            raise SourceError(
                f"file {file.name!r} was read in part and is {is_what}. Restore the former file. Files are put in "
                "place whole, and do not change"
            )
        if at.tag and at.encoding != self._source.encoding:
            raise SourceError(
                f"file {file.name!r} was read in part as {at.encoding}, and encoding= is {self._source.encoding} now. "
                f"Set encoding={at.encoding!r} until the program has read the file"
            )
        if now is None:
            self._context.warn(f"file {file.name!r} was removed before it was read")
            return False
        self._tag = now.tag
        wanted = Wanted(
            self._source.key,
            (self._context.key, self._context.value),
            self._source.delimiter,
            self._source.columns,
            f"file {file.name!r}",
            self._source.encoding,
            self._context.warn,
        )
        format_ = self._source.format or format_of(file.name)
        assert format_ is not None
        self._rows = rows_of(format_, lambda: self._source.place.open(file.name), file.name, at.at, wanted)
        return True

    def _check_is_same(self, file: Listed) -> None:
        """Warn if a file that was read is another one now: nobody knows whether all of it was read."""
        now = self._source.place.look(file.name)
        if now is not None and now.tag != self._tag:
            self._context.warn(
                f"file {file.name!r} was changed while it was read, and has {now.size:,} bytes now: records may be "
                "missing. Write files under a name that begins with . or _, and rename them, or set min_age="
            )

    def committed(self, offset: Any) -> None:
        self._journal.forget(converted(offset, _At).list)

    def _close_file(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            with suppress(OSError):
                rows.close()

    def close(self) -> None:
        self._close_file()

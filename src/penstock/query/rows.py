"""Rows of stores as plain data, for the command line, the HTTP server, and files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet

from penstock.errors import SerdeError
from penstock.query.dicts import Choice, KeyRange
from penstock.query.plain import as_json, plain
from penstock.query.view import View
from penstock.record import Windowed
from penstock.serdes import BYTES, FLOAT, INT, STR, Serde

FILES = (".parquet", ".arrow", ".csv", ".ndjson")


def key_range(low: Any, high: Any) -> KeyRange:
    """A range of keys."""
    return KeyRange(low, high)


def rows_of(
    view: View,
    key: Any = None,
    within: KeyRange = KeyRange(),  # noqa: B008 - it is a tuple
    prefix: bytes | None = None,
    reverse: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a key, of a range of keys, or all, as dicts with the names of the store's columns.

    Raises:
        ConfigError: a store of this kind cannot be read that way.
    """
    return view._dicts(Choice(key, within, prefix, reverse))


def key_of(serde: Serde, text: str) -> Any:
    """Parse a key as people write it: text, a number, ``0x`` and hex digits for bytes, else JSON.

    >>> key_of(INT, "42"), key_of(STR, "42"), key_of(BYTES, "0x00ff"), key_of(BYTES, "ab")
    (42, '42', b'\\x00\\xff', b'ab')

    Raises:
        SerdeError: it is not a key of this type.
    """
    try:
        if serde == INT:
            return int(_digits(text))
        if serde == FLOAT:
            return float(_digits(text))
        if serde == STR:
            return text
        if serde == BYTES:
            return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
        data = serde.decode(text.encode()) if serde.name.startswith("json") else msgspec.json.decode(text)
        return Windowed(data["key"], data["start"], data["end"]) if "[" in serde.name and _is_windowed(data) else data
    except (ValueError, msgspec.DecodeError, KeyError):
        raise SerdeError(f"{text!r} is no key of type {serde.name}") from None


def _digits(text: str) -> str:
    """Return text that Python reads as a number, if other programs read it, too."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return text


def _is_windowed(data: Any) -> bool:
    return isinstance(data, dict) and data.keys() == {"key", "start", "end"}


def written(view: View, file: Path) -> int:
    """Write a whole store into a file, in the format of its name's suffix; return the number of rows."""
    reader = view.to_arrow()
    if file.suffix == ".parquet":
        with parquet.ParquetWriter(file, reader.schema) as writer:
            return _through(reader, writer.write_batch)
    if file.suffix == ".arrow":
        with pa.OSFile(str(file), "wb") as sink, ipc.new_file(sink, reader.schema) as writer:
            return _through(reader, writer.write_batch)
    if file.suffix == ".csv":
        with file.open("w", newline="", encoding="utf-8") as text:
            csv.writer(text).writerow(reader.schema.names)
            return _through(reader, lambda batch: text.writelines(map(_csv_line, _rows(batch))))
    with file.open("wb") as lines:
        return _through(reader, lambda batch: lines.writelines(as_json(row) + b"\n" for row in _rows(batch)))


def _rows(batch: Any) -> list[dict[str, Any]]:
    """The rows of a batch; times outside of the calendar stay numbers."""
    try:
        return batch.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        columns = {name: _values(batch.column(name)) for name in batch.schema.names}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(column: Any) -> list[Any]:
    if pa.types.is_struct(column.type):  # a windowed key
        parts = {field.name: _values(column.field(field.name)) for field in column.type}
        return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    if not pa.types.is_timestamp(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    return [None if ms is None else _time(ms) for ms in column.cast(pa.int64()).to_pylist()]


def _time(ms: int) -> datetime | int:
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
    except OverflowError:
        return ms


def _csv_line(row: dict[str, Any]) -> str:
    return ",".join(map(_csv_cell, row.values())) + "\r\n"


def _csv_cell(value: Any) -> str:
    """A CSV cell: nothing for null, ``""`` for empty text, JSON for values that are neither text nor numbers."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = plain(value)
    text = as_json(value).decode() if isinstance(value, dict | list) else str(value)
    must_be_quoted = not text or any(one in text for one in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if must_be_quoted else text


def _through(reader: Any, write: Any) -> int:
    count = 0
    for batch in reader:
        write(batch)
        count += batch.num_rows
    return count

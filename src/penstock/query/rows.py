"""Rows of stores as plain data: what the command line and the HTTP server show, and files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet

from penstock.errors import ConfigError, SerdeError
from penstock.query.key_value import BufferView, KeyValueView
from penstock.query.plain import as_json, plain
from penstock.query.session import SessionView
from penstock.query.stores import AnyView
from penstock.query.versioned import VersionedView
from penstock.query.window import WindowView
from penstock.record import Windowed
from penstock.serdes import BYTES, FLOAT, INT, STR, Serde
from penstock.serdes.arrow_columns import NO_TIME

FILES = (".parquet", ".arrow", ".csv", ".ndjson")


class KeyRange(NamedTuple):
    """Keys from one to another one, both belong to it; None for no bound."""

    low: Any = None
    high: Any = None


def key_range(low: Any, high: Any) -> KeyRange:
    """A range of keys."""
    return KeyRange(low, high)


def rows_of(
    view: AnyView,
    key: Any = None,
    within: KeyRange = KeyRange(),  # noqa: B008 - it is a tuple
    prefix: bytes | None = None,
    reverse: bool = False,
) -> Iterator[dict[str, Any]]:
    """The rows of a key, of a range of keys, or all, as dicts with the names of the store's columns.

    Raises:
        ConfigError: a store of this kind is not read that way.
    """
    if isinstance(view, KeyValueView):
        return _by_key(view, key, within, prefix, reverse)
    if prefix is not None:
        raise ConfigError(f"the store {view.name!r} is no key-value store, and only these are read by prefix")
    if isinstance(view, WindowView):
        return _windows(view, key, within, reverse)
    if isinstance(view, SessionView):
        low, high = (key, key) if key is not None else within
        found = view.find_sessions_in_range(low, high, reverse=reverse)
        return (_row(one.key, value, window_start=one.start, window_end=one.end) for one, value in found)
    rows = _versions(view, key) if isinstance(view, VersionedView) else _held(view)
    return _filtered(view, rows, key, within, reverse)


def _row(key: Any, value: Any, **times: int | None) -> dict[str, Any]:
    """A row as JSON and the command line show it."""
    return {"key": key, "value": value, **{name: time for name, time in times.items() if time != NO_TIME}}


def _by_key(
    view: KeyValueView, key: Any, within: KeyRange, prefix: bytes | None, reverse: bool
) -> Iterator[dict[str, Any]]:
    if key is not None:
        found = view.get_with_timestamp(key)
        return iter([] if found is None else [_row(key, found.value, timestamp=found.timestamp)])
    rows = view.range(*within, reverse=reverse) if prefix is None else view.prefix_scan(prefix, reverse, BYTES)
    return (_row(key, value, timestamp=timestamp) for key, value, timestamp in rows)


def _windows(view: WindowView, key: Any, within: KeyRange, reverse: bool) -> Iterator[dict[str, Any]]:
    low, high = (key, key) if key is not None else within
    rows = view.fetch_range(low, high, reverse=reverse)
    return (
        _row(window.key, value, window_start=window.start, window_end=window.end, timestamp=timestamp)
        for window, value, timestamp in rows
    )


def _versions(view: VersionedView, key: Any) -> Iterator[dict[str, Any]]:
    if key is not None:
        return (_row(key, one.value, valid_from=one.timestamp, valid_to=one.valid_to) for one in view.history(key))
    return (_row(key, value, valid_from=begin, valid_to=end) for key, value, begin, end in view.all())


def _held(view: BufferView) -> Iterator[dict[str, Any]]:
    return (_row(key, value, timestamp=timestamp) for key, value, timestamp in view.all())


def _filtered(
    view: VersionedView | BufferView, rows: Iterator[dict[str, Any]], key: Any, within: KeyRange, reverse: bool
) -> Iterator[dict[str, Any]]:
    """Of all rows those of some keys."""
    encode = view.shape.key.encode_to_bytes
    wanted = KeyRange(key, key) if key is not None else within
    low, high = (None if bound is None else encode(bound) for bound in wanted)
    if reverse:
        rows = reversed(list(rows))
    if low is None and high is None:
        return rows
    return (
        row
        for row in rows
        if (low is None or low <= encode(row["key"])) and (high is None or encode(row["key"]) <= high)
    )


def key_of(serde: Serde, text: str) -> Any:
    """A key from how people write it: text, a number, ``0x`` and hex digits for bytes, else JSON.

    >>> key_of(INT, "42"), key_of(STR, "42"), key_of(BYTES, "0x00ff"), key_of(BYTES, "ab")
    (42, '42', b'\\x00\\xff', b'ab')

    Raises:
        SerdeError: it is none.
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
    """Text that Python reads as a number, if others do as well."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return text


def _is_windowed(data: Any) -> bool:
    return isinstance(data, dict) and data.keys() == {"key", "start", "end"}


def written(view: AnyView, file: Path) -> int:
    """Write a whole store into a file, in the format that its name ends with; how many rows there are."""
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
    """The rows of a batch; times that no calendar reaches as numbers."""
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
    """A value of CSV: null as nothing, empty text as ``""``, what is neither text nor a number as JSON."""
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

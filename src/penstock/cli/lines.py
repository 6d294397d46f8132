"""Parses lines of text into encoded records, for ``penstock topics produce``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from penstock.cli.json_lines import (
    Encode,
    bytes_of_json,
    json_encoder,
    json_of_text,
    parse_line,
    shorten,
    unread_fields,
    unwritable,
)
from penstock.errors import SerdeError
from penstock.log.produce import BY_KEY, Placed
from penstock.log.records import Records
from penstock.log.rows import BATCH_BYTES, BATCH_ROWS, row_headers, row_times
from penstock.plan.fields import MISSING, found_at
from penstock.serdes import BYTES, FLOAT, INT, STR, JsonSerde, Serde
from penstock.values.times import UNITS, Unit, parsed

_LOOKED_AT = 100
"""In how many lines fields that are not used are looked for."""

OnBadLine = Callable[[int, SerdeError], None]


class Line(NamedTuple):
    """One record, encoded."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = BY_KEY


class LineParser:
    """Turns lines into records.

    Args:
        key: the type of the keys.
        value: the type of the values.
        separator: the text between key and value; without it a line is a value.
        as_json: lines are objects with key, value, timestamp and headers.
        key_field: the path of the key in the value, names with dots between them.
        timestamp_field: the path of the timestamp in the value.
        partitions: the topic's partition count; lines of a topic with as many go to their previous partitions.
        unit: the unit of timestamps that are numbers.

    >>> parser = LineParser(STR, JsonSerde(), separator=b"=", timestamp_field="at.ms")
    >>> parser.parse(b'a={"at": {"ms": 5}}')
    Line(key=b'a', value=b'{"at": {"ms": 5}}', timestamp=5, headers=(), partition=-1)
    """

    def __init__(
        self,
        key: Serde,
        value: Serde,
        separator: bytes | None = None,
        as_json: bool = False,
        key_field: str | None = None,
        timestamp_field: str | None = None,
        partitions: int = 1,
        unit: Unit = UNITS["ms"],
    ):
        self.unread: dict[str, None] = {}
        """The fields of objects among the first lines that were not used."""
        self._looked_at = 0
        self._unit = unit
        self._is_text = as_json or key_field is not None or separator is not None or value != BYTES
        self._partitions = partitions
        self._separator = separator
        self._as_json = as_json
        self._key_field = key_field
        self._timestamp_field = timestamp_field
        from_json = as_json or key_field is not None
        self._encode_key = json_encoder(key) if from_json else text_encoder(key)
        self._encode_value = json_encoder(value) if as_json else text_encoder(value)
        self._skips_blank = as_json or not (value in (STR, BYTES) or separator)

    def parse(self, line: bytes) -> Line | None:
        """Return a line's record; None for a blank line that cannot be one.

        Raises:
            SerdeError: the line cannot be read.
        """
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if self._skips_blank and not line.strip():
            return None
        found = self._parse_json(line) if self._as_json else self._parse_text(line)
        if self._key_field is None and self._timestamp_field is None:
            return found
        value = None if found.value is None else msgspec.json.decode(found.value)
        if self._key_field is not None:
            found = found._replace(key=self._key_in(value, self._key_field))
        if self._timestamp_field is not None:
            found = found._replace(timestamp=_milliseconds(_field(value, self._timestamp_field), self._unit))
        return found

    def _key_in(self, value: Any, path: str) -> bytes | None:
        key = _field(value, path)
        try:
            return self._encode_key(msgspec.json.encode(key))
        except SerdeError as error:
            guess = {int: "int", float: "float", dict: "json", list: "json"}.get(type(key))
            hint = f"; for keys like this a new topic takes --key {guess}" if guess else ""
            raise SerdeError(f"{error}{hint}") from None

    def _parse_text(self, line: bytes) -> Line:
        if self._separator is None:
            return Line(None, self._encode_value(line))
        key, separator, value = line.partition(self._separator)
        if not separator:
            raise SerdeError(f"there is no separator {self._separator.decode()!r} in {shorten(line)}")
        return Line(self._encode_key(key), self._encode_value(value))

    def _parse_json(self, line: bytes) -> Line:
        parts = parse_line(line)
        if self._looked_at < _LOOKED_AT:
            self._looked_at += 1
            self.unread.update(dict.fromkeys(unread_fields(line)))
        timestamp = None if parts.timestamp is None else _milliseconds(parts.timestamp, self._unit)
        pairs = parts.headers.items() if isinstance(parts.headers, dict) else parts.headers
        headers = tuple((name, None if value is None else bytes_of_json(value)) for name, value in pairs)
        key, value = parts.read("key", self._encode_key), parts.read("value", self._encode_value)
        return Line(key, value, timestamp, headers, parts.partition_of(self._partitions))

    def batches(self, lines: Iterable[bytes], on_bad: OnBadLine) -> Iterator[Placed]:
        """Yield the records of all lines; ``on_bad`` is called for unreadable lines, and may raise."""
        some: list[Line] = []
        nbytes = 0
        for number, line in enumerate(lines, 1):
            try:
                found = self.parse(_without_mark(line) if number == 1 and self._is_text else line)
            except SerdeError as error:
                on_bad(number, error)
                continue
            except RecursionError:
                on_bad(number, SerdeError(f"{shorten(line)} is JSON that is nested too deeply to be read"))
                continue
            if found is not None:
                some.append(found)
                nbytes += len(found.value or b"")
            if len(some) == BATCH_ROWS or nbytes > BATCH_BYTES:
                yield _placed(some)
                some, nbytes = [], 0
        if some:
            yield _placed(some)


def _placed(lines: list[Line]) -> Placed:
    keys, values, times, headers, partitions = zip(*lines, strict=True)
    key, value = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    records = Records(-1, key, value, row_times(list(times), "line", 1), row_headers(list(headers), "line", 1))
    return Placed(records, np.array(partitions, np.int64))


# --- one key or value ---------------------------------------------------------------------------------------------


def text_encoder(serde: Serde) -> Encode:
    """Return a function that makes the bytes of a key or value from text.

    Raises:
        ConfigError: values of this type cannot be written as text.
    """
    if isinstance(serde, JsonSerde):
        return json_of_text
    if serde == STR:
        return _checked_text
    if serde == INT:
        return lambda text: INT.encode(_number(int, text))
    if serde == FLOAT:
        return lambda text: FLOAT.encode(_number(float, text))
    if serde == BYTES:
        return lambda text: text
    raise unwritable(serde)


def _checked_text(text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise SerdeError(f"{shorten(text)} is not UTF-8: {error}") from None
    return text


def _number(type_: type[int] | type[float], text: bytes) -> Any:
    try:
        if b"_" in text:
            raise ValueError
        return type_(text)
    except ValueError:
        raise SerdeError(f"{shorten(text)} is no {type_.__name__}") from None


def _field(value: Any, path: str) -> Any:
    """Return the field of a JSON value at a path with dots."""
    found = found_at(value, path.split("."))
    if found is MISSING:
        raise SerdeError(f"there is no field {path!r} in {shorten(msgspec.json.encode(value))}")
    return found


def _milliseconds(time: Any, unit: Unit) -> int:
    """Return a timestamp in milliseconds: a number since 1970, or ISO 8601, in UTC by default."""
    if unit is UNITS["ms"] and isinstance(time, float) and isfinite(time):
        time = int(time)
    ms = parsed(time, unit)
    if ms is None or not 0 <= ms < 2**63:
        raise SerdeError(f"{time!r} is no time: write {unit.name} since 1970 or 2013-01-31T06:00:00Z")
    return ms


def _without_mark(line: bytes) -> bytes:
    """Return the first line of a file without the byte order mark that some programs write before UTF-8.

    Raises:
        SerdeError: the mark is one of UTF-16.
    """
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SerdeError("the text is UTF-16; make UTF-8 of it first: iconv -f UTF-16 -t UTF-8")
    return line.removeprefix(b"\xef\xbb\xbf")

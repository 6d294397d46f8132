"""Lines of text as encoded records, for ``penstock topics produce``."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from penstock.errors import ConfigError, SerdeError
from penstock.log.base import Records
from penstock.log.rows import BATCH_BYTES, BATCH_ROWS, row_headers, row_times
from penstock.serdes import BYTES, FLOAT, INT, STR, JsonSerde, Serde

Encode = Callable[[bytes], bytes | None]
OnBadLine = Callable[[int, SerdeError], None]


class Line(NamedTuple):
    """One record, encoded."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class JsonLine(msgspec.Struct):
    """A line of ``--json``; those that ``penstock topics cat --json`` prints are such lines."""

    value: msgspec.Raw
    key: msgspec.Raw = msgspec.Raw(b"null")
    timestamp: int | float | str | None = None
    headers: dict[str, Any] | list[tuple[str, Any]] = []


class LineParser:
    """Turns lines into records.

    Args:
        key: the type of the keys.
        value: the type of the values.
        separator: what stands between key and value; without it a line is a value.
        as_json: lines are objects with key, value, timestamp and headers.
        key_field: where in the value the key stands, names with dots between them.
        timestamp_field: where in the value the timestamp stands.

    >>> parser = LineParser(STR, JsonSerde(), separator=b"=", timestamp_field="at.ms")
    >>> parser.parse(b'a={"at": {"ms": 5}}')
    Line(key=b'a', value=b'{"at": {"ms": 5}}', timestamp=5, headers=())
    """

    def __init__(
        self,
        key: Serde,
        value: Serde,
        separator: bytes | None = None,
        as_json: bool = False,
        key_field: str | None = None,
        timestamp_field: str | None = None,
    ):
        self._separator = separator
        self._as_json = as_json
        self._key_field = key_field
        self._timestamp_field = timestamp_field
        from_json = as_json or key_field is not None
        self._encode_key = json_encoder(key) if from_json else text_encoder(key)
        self._encode_value = json_encoder(value) if as_json else text_encoder(value)
        self._skips_blank = as_json or not (value in (STR, BYTES) or separator)

    def parse(self, line: bytes) -> Line | None:
        """A line's record; None for a blank line that cannot be one.

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
            found = found._replace(key=self._encode_key(msgspec.json.encode(_field(value, self._key_field))))
        if self._timestamp_field is not None:
            found = found._replace(timestamp=_milliseconds(_field(value, self._timestamp_field)))
        return found

    def _parse_text(self, line: bytes) -> Line:
        if self._separator is None:
            return Line(None, self._encode_value(line))
        key, separator, value = line.partition(self._separator)
        if not separator:
            raise SerdeError(f"there is no separator {self._separator.decode()!r} in {_shorten(line)}")
        return Line(self._encode_key(key), self._encode_value(value))

    def _parse_json(self, line: bytes) -> Line:
        try:
            parts = msgspec.json.decode(line, type=JsonLine)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SerdeError(
                f'{error} in {_shorten(line)}; with --json a line is {{"key": ..., "value": ...}}'
            ) from None
        timestamp = None if parts.timestamp is None else _milliseconds(parts.timestamp)
        pairs = parts.headers.items() if isinstance(parts.headers, dict) else parts.headers
        headers = tuple((name, None if value is None else _bytes_of_json(value)) for name, value in pairs)
        return Line(self._encode_key(bytes(parts.key)), self._encode_value(bytes(parts.value)), timestamp, headers)

    def batches(self, lines: Iterable[bytes], on_bad: OnBadLine) -> Iterator[Records]:
        """The records of all lines; ``on_bad`` is told of lines that cannot be read, and may raise."""
        some: list[Line] = []
        nbytes = 0
        for number, line in enumerate(lines, 1):
            try:
                found = self.parse(line)
            except SerdeError as error:
                on_bad(number, error)
                continue
            if found is not None:
                some.append(found)
                nbytes += len(found.value or b"")
            if len(some) == BATCH_ROWS or nbytes > BATCH_BYTES:
                yield _records(some)
                some, nbytes = [], 0
        if some:
            yield _records(some)


def _records(lines: list[Line]) -> Records:
    keys, values, times, headers = zip(*lines, strict=True)
    key, value = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    return Records(-1, key, value, row_times(list(times), "line", 1), row_headers(list(headers), "line", 1))


# --- one key or value ---------------------------------------------------------------------------------------------


def text_encoder(serde: Serde) -> Encode:
    """What makes the bytes of a key or value from text.

    Raises:
        ConfigError: values of this type cannot be written as text.
    """
    if isinstance(serde, JsonSerde):
        return _json_of_text
    if serde == STR:
        return _checked_text
    if serde == INT:
        return lambda text: INT.encode(_number(int, text))
    if serde == FLOAT:
        return lambda text: FLOAT.encode(_number(float, text))
    if serde == BYTES:
        return lambda text: text
    raise _unwritable(serde)


def json_encoder(serde: Serde) -> Encode:
    """What makes the bytes of a key or value from JSON; null makes none.

    Raises:
        ConfigError: values of this type cannot be written as JSON.
    """
    if isinstance(serde, JsonSerde):
        return _json_of_text
    if serde == BYTES:
        return lambda text: None if text == b"null" else _bytes_of_json(msgspec.json.decode(text))
    if serde in (STR, INT, FLOAT):

        def encode(text: bytes) -> bytes | None:
            value = msgspec.json.decode(text)
            return None if value is None else serde.encode(value)

        return encode
    raise _unwritable(serde)


def _unwritable(serde: Serde) -> ConfigError:
    return ConfigError(
        f"keys or values of type {serde.name} cannot be written from text; write them from Python with "
        "penstock.produce, or as they are with --key bytes or --value bytes"
    )


def _json_of_text(text: bytes) -> bytes | None:
    try:
        return None if msgspec.json.decode(text) is None else text
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SerdeError(f"{_shorten(text)} is not JSON: {error}; for plain text give --value str") from None


def _checked_text(text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise SerdeError(f"{_shorten(text)} is not UTF-8: {error}") from None
    return text


def _number(type_: type[int] | type[float], text: bytes) -> Any:
    try:
        return type_(text)
    except ValueError:
        raise SerdeError(f"{_shorten(text)} is no {type_.__name__}") from None


def _bytes_of_json(value: Any) -> bytes:
    """Bytes as JSON has them: text, or an object with their base64."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"]:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            pass
    raise SerdeError(f'bytes are written as text or as {{"base64": "..."}}; got {value!r}')


def _field(value: Any, path: str) -> Any:
    """What stands in a JSON value under names with dots between them."""
    found = value
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            raise SerdeError(f"there is no {path} in {_shorten(msgspec.json.encode(value))}")
        found = found[name]
    return found


def _milliseconds(time: Any) -> int:
    """A timestamp: milliseconds since 1970, or ISO 8601, in UTC where it does not say."""
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            raise SerdeError(f"{time!r} is no time: write milliseconds since 1970 or 2013-01-31T06:00:00Z") from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        time = round(moment.timestamp() * 1000)
    if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < 2**63:
        raise SerdeError(f"{time!r} is no time: write milliseconds since 1970 or 2013-01-31T06:00:00Z")
    return int(time)


def _shorten(text: bytes) -> str:
    return repr(text[:60].decode(errors="replace") + ("..." if len(text) > 60 else ""))

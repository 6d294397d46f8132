"""Lines of JSON that ``topics cat --json`` prints and ``topics produce --json`` reads; copies are exact
(docs/decisions/0080).

A key or a value is in a line as JSON if the JSON determines its bytes. Otherwise (bytes that are not of the topic's
type, a NaN with a payload, JSON over several lines) the line has its bytes, and ``encoded`` names the field.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import numpy as np

from penstock.arrays import Binary, binary
from penstock.errors import ConfigError, CorruptDataError, SerdeError
from penstock.log.base import TopicInfo
from penstock.log.produce import BY_KEY
from penstock.log.schema import serdes_of
from penstock.query.plain import decoded, literal, plain
from penstock.record import ConsumerRecord
from penstock.serdes import BYTES, FLOAT, INT, STR, JsonSerde, Serde, WindowedSerde
from penstock.serdes.json import why_unread
from penstock.values.decoding import from_json

Encode = Callable[[bytes], bytes | None]

_FLOATS = {b"NaN": float("nan"), b"Infinity": float("inf"), b"-Infinity": float("-inf")}
"""Floats that JSON does not have: Python's json writes them like this, and ``topics cat`` in quotes."""


class TypesOfLine(msgspec.Struct, frozen=True):
    """The topic of a line: its partition count, and the types of its keys and values.

    Attributes:
        schema: the schema of a DataFrame that the topic keeps. Only the first line of a copy has it.
    """

    partitions: int = 1
    key: str = "str"
    value: str = "json"
    schema: str | msgspec.UnsetType = msgspec.UNSET

    def topic(self, name: str) -> TopicInfo:
        """Return the description of a topic like that of the line."""
        return TopicInfo(name, self.partitions, self.key, self.value, schema=self.schema or "")


class JsonLine(msgspec.Struct):
    """A line of ``--json``."""

    value: msgspec.Raw
    key: msgspec.Raw = msgspec.Raw(b"null")
    timestamp: int | float | str | None = None
    headers: dict[str, Any] | list[tuple[str, Any]] = []
    partition: Any = None
    offset: Any = None
    topic: msgspec.Raw = msgspec.Raw(b"null")
    encoded: Any = ()

    @property
    def types(self) -> TypesOfLine | None:
        """The topic of the line, if it names one; other programs may use the field for something else."""
        topic = bytes(self.topic)
        return TypesOfLine() if topic == b"null" and isinstance(self.partition, int) else _types_in(topic)

    def read(self, name: str, encode: Encode) -> bytes | None:
        """Return the bytes of the key or of the value."""
        text = bytes(getattr(self, name))
        is_encoded = isinstance(self.encoded, list) and name in self.encoded
        return bytes_of_json(msgspec.json.decode(text)) if is_encoded else encode(text)

    def partition_of(self, partitions: int) -> int:
        """Return its partition in a topic with so many: the same as before if the counts are equal, else that of its
        key.
        """
        types, number = self.types, self.partition
        stays = types is not None and types.partitions == partitions and type(number) is int
        return number if stays and 0 <= number < partitions else BY_KEY


_FIELDS = frozenset(JsonLine.__struct_fields__)


@lru_cache(maxsize=64)
def _types_in(topic: bytes) -> TypesOfLine | None:
    """Return the types in a line's topic, which is the same in all lines of a copy; None if missing."""
    try:
        found = from_json(topic, TypesOfLine)
        serdes_of(found.topic("copy"))
    except (ValueError, CorruptDataError):  # includes msgspec's errors
        return None
    return found if found.partitions > 0 else None


class Shown(NamedTuple):
    """A key or a value in the form it has in a line."""

    json: msgspec.Raw
    is_encoded: bool = False


# --- lines written --------------------------------------------------------------------------------------------------


def shown(serde: Serde, data: Binary) -> list[Shown]:
    """Return a column of keys or values in the form of lines; replaces their decoding."""
    if isinstance(serde, JsonSerde):
        return [_json_as_it_is(item) for item in data.to_pylist()]
    try:
        encode = json_encoder(serde)
    except ConfigError:  # these lines are not for copies; undecodable values become bytes
        encode = None
    items, values = data.to_pylist(), decoded(serde, data)
    return [_as_json_or_bytes(encode, value, item) for value, item in zip(values, items, strict=True)]


def _json_as_it_is(data: bytes | None) -> Shown:
    if data is None:
        return Shown(msgspec.Raw(b"null"))
    is_one_line = data == data.strip() and b"\n" not in data and data != b"null"
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        is_one_line = False
    return Shown(msgspec.Raw(data)) if is_one_line else Shown(_raw(data), True)


def _as_json_or_bytes(encode: Encode | None, value: Any, data: bytes | None) -> Shown:
    """Return a value as JSON if that reads back as the same bytes, else the bytes."""
    json = _raw(value)
    if data is None or (encode is None and value is not data):
        return Shown(json)
    try:
        is_exact = encode is not None and encode(bytes(json)) == data
    except SerdeError:
        is_exact = False
    return Shown(json) if is_exact else Shown(_raw(data), True)


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(plain(value), enc_hook=str))


def line_of(record: ConsumerRecord, types: TypesOfLine) -> bytes:
    """Return the line of a record whose key and value are ``Shown``."""
    found: dict[str, Any] = {
        "key": record.key.json,
        "value": record.value.json,
        "timestamp": record.timestamp,
        "partition": record.partition,
        "offset": record.offset,
        "headers": [(name, plain(value)) for name, value in record.headers],
    }
    if types != TypesOfLine():
        found["topic"] = types
    if encoded := [name for name in ("key", "value") if getattr(record, name).is_encoded]:
        found["encoded"] = encoded
    return msgspec.json.encode(found)


def types_of(info: TopicInfo, key: str | None, value: str | None) -> TypesOfLine:
    """Return the topic's description for its first line, which may show records as other types."""
    schema = msgspec.UNSET if key or value or not info.schema else info.schema
    return TypesOfLine(info.partitions, key or info.key, value or info.value, schema)


# --- lines read -----------------------------------------------------------------------------------------------------


def parse_line(line: bytes) -> JsonLine:
    """Return a line's fields.

    Raises:
        SerdeError: the line cannot be parsed.
    """
    try:
        return from_json(line, JsonLine)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        found = _with_literals(line)
        if found is None:
            raise SerdeError(
                f'{why_unread(error, line)} in {shorten(line)}; with --json a line is {{"key": ..., "value": ...}}'
            ) from None
        return found


def unread_fields(line: bytes) -> list[str]:
    """Return the fields of a line that ``parse_line`` has read without using them."""
    if any(name in line for name in _FLOATS):  # no JSON, see ``_with_literals``
        return []
    return [name for name in from_json(line, dict[str, msgspec.Raw]) if name not in _FIELDS]


def _with_literals(line: bytes) -> JsonLine | None:
    """Return a line with a float as key or value that is no JSON, in the form of Python's json."""
    if not any(name in line for name in _FLOATS):
        return None
    try:
        fields = json.loads(line)
        for name in ("key", "value"):
            if isinstance(fields.get(name), float) and not isfinite(fields[name]):
                fields[name] = literal(fields[name])
        return from_json(json.dumps(fields, allow_nan=False), JsonLine)
    except (ValueError, AttributeError, RecursionError):
        return None


def json_encoder(serde: Serde) -> Encode:
    """Return a function that makes the bytes of a key or value from JSON; null gives None.

    Raises:
        ConfigError: values of this type cannot be written as JSON.
    """
    if isinstance(serde, JsonSerde):
        return json_of_text
    if isinstance(serde, WindowedSerde):
        return _windowed_encoder(serde)
    if serde == BYTES:
        return lambda text: None if text == b"null" else bytes_of_json(msgspec.json.decode(text))
    if serde in (STR, INT, FLOAT):

        def encode(text: bytes) -> bytes | None:
            if serde == FLOAT and text.strip(b'"') in _FLOATS:
                return serde.encode(_FLOATS[text.strip(b'"')])
            value = msgspec.json.decode(text)
            return None if value is None else serde.encode(value)

        return encode
    raise unwritable(serde)


class _Window(msgspec.Struct, forbid_unknown_fields=True):
    key: msgspec.Raw
    start: int
    end: int


def _windowed_encoder(serde: WindowedSerde) -> Encode:
    """Return the encoder of windowed keys, from ``{"key": ..., "start": ..., "end": ...}``."""
    encode_key = json_encoder(serde.inner)

    def encode(text: bytes) -> bytes | None:
        if text == b"null":
            return None
        try:
            window = from_json(text, _Window)
            key = encode_key(bytes(window.key))
            start, end = np.array([window.start], np.int64), np.array([window.end], np.int64)
        except (msgspec.DecodeError, OverflowError):
            key = None
        if key is None:
            raise SerdeError(
                f'{shorten(text)} is no key of type {serde.name}: write {{"key": ..., "start": ..., "end": ...}}, '
                "the times in milliseconds"
            )
        data: bytes = serde.encode_windows(binary([key]), start, end)[0].as_py()
        if (ends := int(serde.windows(binary([data]))[1][0])) != window.end:
            raise SerdeError(
                f"the window of {shorten(text)} ends at {window.end}; in a topic with keys of type {serde.name} it "
                f"ends at {ends}"
            )
        return data

    return encode


def unwritable(serde: Serde) -> ConfigError:
    return ConfigError(
        f"keys or values of type {serde.name} cannot be written from text; write them from Python with "
        "penstock.produce, or as they are with --key bytes or --value bytes"
    )


def json_of_text(text: bytes) -> bytes | None:
    """Return JSON unchanged; None for null."""
    try:
        return None if msgspec.json.decode(text) is None else text
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = why_unread(error, text)
        raise SerdeError(f"{shorten(text)} is not JSON: {reason}; for plain text give --value str") from None


def bytes_of_json(value: Any) -> bytes:
    """Return the bytes in JSON: text, or an object with their base64."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"]:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            pass
    raise SerdeError(f'bytes are written as text or as {{"base64": "..."}}; got {value!r}')


def shorten(text: bytes) -> str:
    """Return the beginning of a line, for messages."""
    return repr(text[:60].decode(errors="replace") + ("..." if len(text) > 60 else ""))

"""The base of all formats: opens envelopes, and finds the rows, times and keys in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from penstock.errors import ConfigError, SerdeError
from penstock.messages import show
from penstock.serdes import of
from penstock.serdes.base import Serde
from penstock.serdes.json import JsonSerde, why_unread
from penstock.values.decoding import json_decoder

Headers = Mapping[str, bytes | None]
Texts = list[bytes | None]
"""JSON texts; None for a null."""


class Opened(NamedTuple):
    """The rows of a whole column of envelopes."""

    rows: Texts
    kept: list[int] | None = None
    """The numbers of the envelopes that have a row; None if each has one."""


class Format(ABC):
    """A format of values that are envelopes around rows; ``format=`` of ``stream`` and ``table`` takes one.

    Args:
        kind: the name of the function that makes it.
        row: the type of the rows.
        written: how envelopes are written; JSON by default.
        event_time: whether the time of a record is the one in its envelope.
        keys: how keys are written, if they are envelopes, too.
    """

    only_streams = False
    """Whether its values are no rows of a table."""
    has_keys = False
    """Whether keys are envelopes, too."""
    has_several = False
    """Whether one envelope may have several rows, each with a time of its own."""
    reads_headers = False
    """Whether headers tell how to open an envelope."""
    hint = ""
    """The advice about envelopes of another form."""

    def __init__(self, kind: str, row: Any, written: Any = None, event_time: bool = False, keys: Any = None):
        self.value = rows_of(kind, row)
        self.name = f"{kind}[{self.value.name.removeprefix('json[').removesuffix(']')}]"
        self.written = serde_of(kind, "envelope", written)
        self.keys = serde_of(kind, "keys", keys)
        self.event_time = flag(kind, "event_time", event_time)

    @abstractmethod
    def all(self, texts: Texts) -> Opened | None:
        """The rows of a column of envelopes, without a call for each; None if they must be opened one by one.

        An error says nothing: opening them one by one finds the one that fails.
        """

    @abstractmethod
    def one(self, text: bytes | None, headers: Headers) -> Texts:
        """The rows in one envelope.

        Raises:
            SerdeError: it is no such envelope.
        """

    def key(self, text: bytes) -> bytes:
        """The JSON of the key in its envelope."""
        return text

    def row(self, value: Any, headers: Headers) -> Any:
        """The row in one decoded envelope, for fields with its time; None if it has no row."""
        return value

    def time(self, value: Any, headers: Headers) -> Any:
        """The time in one decoded envelope; None if it has none."""
        return None

    def wrong(self, problem: str) -> SerdeError:
        """The error for an envelope of another form."""
        return SerdeError(f"{self.name}: {problem}")

    def opened(self, text: bytes, type_: Any) -> Any:
        """The envelope as a class that says its fields."""
        try:
            return json_decoder(type_).decode(text)
        except msgspec.DecodeError as error:
            raise self.wrong(f"{why_unread(error, text)}; the bytes are {show(text, 80)}") from None

    def __repr__(self) -> str:
        return f"<format {self.name}>"


def rows_of(kind: str, row: Any) -> JsonSerde:
    """The serde of the rows: JSON of one type."""
    serde = of(row, kind)
    if not isinstance(serde, JsonSerde):
        raise ConfigError(
            f"{kind} takes the type of the rows: dict, a dataclass, a msgspec.Struct, a TypedDict or a schema; got "
            f"{show(row)}, which is written as {serde.name}"
        )
    return serde


def serde_of(kind: str, what: str, given: Any) -> Serde:
    """The serde in which envelopes or keys are written."""
    if given is None:
        return JsonSerde()
    if not isinstance(given, Serde):
        raise ConfigError(f"{kind}: {what}= takes a serde that gives dicts, such as Avro(...); got {show(given)}")
    return given


def flag(kind: str, what: str, given: Any) -> bool:
    """Check that an argument is True or False."""
    if not isinstance(given, bool):
        raise ConfigError(f"{kind}: {what}= is True or False; got {show(given)} of type {type(given).__name__}")
    return given


def field_of(value: Any, *names: str) -> Any:
    """A nested field of decoded JSON; None if it is not there."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value

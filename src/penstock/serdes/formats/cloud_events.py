"""CloudEvents in Kafka: the whole event as JSON (structured), or its attributes in headers (binary)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, UnsetType

from penstock.errors import SerdeError
from penstock.messages import show
from penstock.serdes.formats.base import Format, Headers, Opened, Texts, field_of

_NEEDED = ("specversion", "id", "source", "type")
IN_HEADERS = "ce_"
"""Begins the names of headers with attributes."""
CONTENT_TYPE = "content-type"
"""The header with the type of the data, or of the event as a whole."""


def cloud_event(row: Any, event_time: bool = False) -> Format:
    """The format of CloudEvents, for ``format=`` of ``stream`` and ``table``: values are the events' ``data``.

    An event is one JSON object, or has its attributes in the record's headers (``ce_id``, ``ce_type``, ...) and its
    data in the value. An event without data is null. If a record is not an event, or its data is not JSON, ``on_error``
    decides. Keys do not change.

    Args:
        row: the type of the data: dict, a dataclass, a ``msgspec.Struct``, a schema.
        event_time: True takes the event's ``time`` as the time of its record. By default, and if an event has no
            ``time``, the record keeps its timestamp.

    Raises:
        ConfigError: an argument is wrong.

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> builder.stream("events", format=cloud_event(dict, event_time=True)).to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> event = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order", "time": "1970-01-01T00:00:05Z"}
    >>> driver.pipe_input("events", "a", event | {"data": {"cents": 250}})
    >>> [record[:3] for record in driver.read_output("out")]
    [('a', {'cents': 250}, 5000)]
    """
    return CloudEvent("cloud_event", row, event_time=event_time)


class _Event(msgspec.Struct):
    specversion: Any = None
    id: Any = None
    source: Any = None
    type: Any = None
    data: Raw = Raw(b"null")
    data_base64: str | UnsetType = msgspec.UNSET


class CloudEvent(Format):
    """See ``cloud_event``."""

    reads_headers = True
    hint = "format=cloud_event reads events with the fields specversion, id, source and type, or headers ce_..."

    def all(self, texts: Texts) -> Opened | None:
        return None if None in texts else Opened([self._data(text) for text in texts])  # type: ignore[arg-type]

    def one(self, text: bytes | None, headers: Headers) -> Texts:
        if _is_binary(headers):
            self._check(headers)
            return [text or None]
        if text is None:
            return [None]
        try:
            return [self._data(text)]
        except SerdeError:
            if _has_attributes(headers):  # so the value is data, and no event
                self._check(headers)
            raise

    def _check(self, headers: Headers) -> None:
        """Check the attributes in headers."""
        missing = [IN_HEADERS + name for name in _NEEDED if not headers.get(IN_HEADERS + name)]
        if missing:
            raise self.wrong(f"the headers have no {_listed(missing)}, so the record is no event")

    def _data(self, text: bytes) -> bytes | None:
        event = self.opened(text, _Event)
        missing = [name for name in _NEEDED if not isinstance(getattr(event, name), str)]
        if missing:
            raise self.wrong(f"the value has no {_listed(missing)}, so it is no event; got {show(text, 80)}")
        if event.data_base64 is not msgspec.UNSET:
            raise self.wrong("the event has its data in 'data_base64', which is not JSON; read the topic as value=dict")
        data = bytes(event.data)
        return None if data == b"null" else data

    def row(self, value: Any, headers: Headers) -> Any:
        return value if _is_binary(headers) else field_of(value, "data")

    def time(self, value: Any, headers: Headers) -> Any:
        if not _is_binary(headers):
            return field_of(value, "time")
        given = headers.get(IN_HEADERS + "time")
        return None if given is None else given.decode(errors="replace")


def _is_binary(headers: Headers) -> bool:
    """Whether an event has its attributes in headers, and its data as the value."""
    return IN_HEADERS + "specversion" in headers and not is_whole(headers.get(CONTENT_TYPE) or b"")


def _has_attributes(headers: Headers) -> bool:
    return any(name.startswith(IN_HEADERS) for name in headers)


def is_whole(kind: bytes) -> bool:
    """Whether a type of content is that of a whole event, or of several.

    >>> is_whole(b"application/cloudevents+json; charset=UTF-8"), is_whole(b"application/json")
    (True, False)
    """
    return kind.strip().lower().startswith(b"application/cloudevents")


def is_batch(kind: bytes) -> bool:
    """Whether a type of content is that of several events in a list."""
    return kind.strip().lower().startswith(b"application/cloudevents-batch")


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))

"""CloudEvents in requests: in headers (binary mode), as JSON (structured mode), or several together (batched mode).

Their records are those of Kafka's binding, which ``format=cloud_event`` reads: the attributes of binary mode are in
headers such as ``ce_id``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from penstock.serdes.formats.cloud_events import CONTENT_TYPE, IN_HEADERS, is_whole
from penstock.sources.cells import field_in_line
from penstock.values.decoding import json_decoder

_PREFIX = b"ce-"

Attributes = list[tuple[str, bytes]]
"""Headers of records."""


def attributes_in(headers: Iterable[tuple[bytes, bytes]]) -> Attributes:
    """Return the headers of the record of an event in binary mode; none if the request is no such event.

    >>> attributes_in([(b"ce-id", b"1"), (b"ce-type", b"caf%C3%A9"), (b"host", b"shop.example")])
    [('ce_id', b'1'), ('ce_type', b'caf\\xc3\\xa9')]
    """
    given = list(headers)
    kind = next((value for name, value in given if name == b"content-type"), b"")
    if is_whole(kind):
        return []
    found = [
        (IN_HEADERS + name.removeprefix(_PREFIX).decode("ascii", "replace"), _plain(value))
        for name, value in given
        if name.startswith(_PREFIX) and name != _PREFIX
    ]
    return [*found, (CONTENT_TYPE, kind)] if found and kind else found


def _plain(value: bytes) -> bytes:
    """Return an attribute without the quotes and percent signs of a header."""
    text = value.strip()
    if len(text) > 1 and text[:1] == text[-1:] == b'"':
        text = re.sub(rb"\\(.)", rb"\1", text[1:-1])
    return unquote_to_bytes(text)


def events_of(body: bytes) -> list[bytes]:
    """Return the events in a list; the whole body if it is none, so that one record fails where it is decoded.

    >>> events_of(b'[{"id": "1"}, {"id": "2"}]'), events_of(b"{}")
    ([b'{"id": "1"}', b'{"id": "2"}'], [b'{}'])
    """
    try:
        return [bytes(one) for one in json_decoder(list[msgspec.Raw]).decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [body]


def key_of(value: bytes | None, attributes: Attributes, field: str) -> Any:
    """Return the key of an event: a field of its data, or else an attribute; None if it has neither."""
    if attributes:
        in_data = None if value is None else field_in_line(value, field)
        own = dict(attributes).get(IN_HEADERS + field)
        return in_data if in_data is not None or own is None else own.decode(errors="replace")
    try:
        event = json_decoder(Any).decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    data = event.get("data")
    in_data = data.get(field) if isinstance(data, dict) else None
    return event.get(field) if in_data is None else in_data

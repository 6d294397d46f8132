"""Batches of records as HTTP requests, each with a key by which the service knows it again."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec

from penstock.errors import ConfigError, SinkError
from penstock.faults import crash_point
from penstock.messages import show
from penstock.sinks.batch import SinkBatch
from penstock.sinks.protocol import Sink, SinkPartition, SinkWriter
from penstock.values.durations import Duration, to_ms
from penstock.values.masking import masked

KEY = "Idempotency-Key"
IS_DELETED = "is_deleted"
"""The field of each change of a table."""
TIMEOUT: Duration = "30 seconds"

_PASSING = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.LOCKED,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
}
"""Answers below 500 after which the same request may succeed later."""

_MOST_OF_ANSWER = 300


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: urllib would ask the other address with GET, without the rows."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


class HttpSink(Sink):
    """Posts each batch to a URL, as JSON with one object a row.

    Penstock stores the numbers in the checkpoint. If the answer to a request is lost, it sends the same request again,
    with the same header ``Idempotency-Key``. If the service ignores a key that it has seen, it gets each row once.
    Changes of a table have a field ``is_deleted``, and a batch has only the newest change of each key.

    Args:
        url: the address of the service.
        headers: more headers, such as ``{"Authorization": "Bearer ..."}``. Penstock shows none of them.
        timeout: the longest time to wait for an answer.

    Raises:
        ConfigError: an argument is not valid.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sinks import HttpSink
    >>> builder = StreamsBuilder()
    >>> alarms = builder.stream("alarms", key=str, value=dict)
    >>> alarms.to_sink(HttpSink("https://pager.example/alarms"), "alarms", key="machine")
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout: Duration = TIMEOUT):
        if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
            raise ConfigError(f"HttpSink: url is an address, such as 'https://pager.example/alarms'; got {show(url)}")
        given = {} if headers is None else headers
        if not isinstance(given, Mapping) or not all(
            isinstance(part, str) and "\n" not in part for one in given.items() for part in one
        ):
            raise ConfigError("HttpSink: headers is a dict of texts; its values are not shown")
        self.url = url
        self.headers = dict(given)
        self.timeout = to_ms(timeout, "HttpSink: timeout")

    @property
    def shown(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def secrets(self) -> Iterable[str]:
        return [self.url, *self.headers.values()]

    def open(self, partition: SinkPartition) -> SinkWriter:
        return _Writer(self, partition)


class _Writer(SinkWriter):
    def __init__(self, sink: HttpSink, partition: SinkPartition):
        self._sink = sink
        self._partition = partition

    def committed(self) -> None:
        return None

    def write(self, batch: SinkBatch, commit: int) -> None:
        rows = self._rows(batch)
        key = f"{self._partition.id}/{self._partition.topic_id}/{commit}"
        headers = {"Content-Type": "application/json", **self._sink.headers, KEY: key}
        request = urllib.request.Request(self._sink.url, msgspec.json.encode(rows), headers, method="POST")
        try:
            with _OPENER.open(request, timeout=self._sink.timeout / 1000) as answer:
                crash_point("in-sink")
                answer.read()
        except urllib.error.HTTPError as error:
            with error:
                said = _text(error)
            if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in _PASSING:
                raise OSError(f"the service answered {error.code}{said}") from None
            raise SinkError(f"the service answered {error.code}{said or _other_place(error)}") from None
        except urllib.error.URLError as error:
            raise OSError(f"the service cannot be reached: {error.reason}") from None

    def _rows(self, batch: SinkBatch) -> list[dict[str, Any]]:
        if not self._partition.is_table:
            return batch.rows()
        newest = batch.newest()
        rows = newest.rows()
        if any(IS_DELETED in row for row in rows):
            raise SinkError(
                f"a row has a field {IS_DELETED!r}, and HttpSink adds a field of this name: rename it first"
            )
        return [row | {IS_DELETED: gone} for row, gone in zip(rows, newest.is_deleted.to_pylist(), strict=True)]


def _text(error: urllib.error.HTTPError) -> str:
    """Return what an answer says, for messages."""
    text = error.read(_MOST_OF_ANSWER).decode(errors="replace").strip()
    return f": {masked(text)}" if text else ""


def _other_place(error: urllib.error.HTTPError) -> str:
    """Return the advice about a redirect, for messages."""
    place = error.headers.get("Location")
    return f": HttpSink follows no redirect. Give it the new address: {masked(place)}" if place else ""

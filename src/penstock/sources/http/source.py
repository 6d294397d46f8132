"""Webhooks: each request is a record, and is answered when that is in the log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.batch import HEADERS
from penstock.errors import ConfigError
from penstock.log.records import Records
from penstock.messages import show
from penstock.query.guard import FREE, check_access, is_local, url_of
from penstock.serdes import BYTES, STR, Serde
from penstock.serdes.json import JsonSerde
from penstock.sources.cells import field_in_line, keys_in_lines, keys_of
from penstock.sources.http.events import key_of
from penstock.sources.http.inbox import Inbox, Request
from penstock.sources.http.server import Accepted, Server, Verify
from penstock.sources.protocol import Source, SourceBatch, SourceContext, SourceReader
from penstock.values.durations import Duration, to_ms
from penstock.values.sizes import to_bytes
from penstock.values.times import wall_clock_ms

HOST = "127.0.0.1"
REPEAT_HEADER = "Idempotency-Key"
_WAIT_SECONDS = 0.25
"""How long a reading waits for a request."""


class HttpSource(Source):
    """HTTP requests to the program, such as webhooks. Each body is the value of a record.

    CloudEvents come in every mode of HTTP: ``format=cloud_event(Order)`` of ``builder.source`` reads them. The
    source answers 200 when the record is in the log. After another answer, or none, the client must send the
    request again. Requests with the same header ``Idempotency-Key`` are one record. This needs
    ``penstock-streams[serve]``.

    Args:
        port: the port to listen at; 0 takes a free one, which ``url`` contains while the program runs.
        host: the address to listen at. By default only this machine reaches it; another one needs ``token`` or
            ``verify``.
        path: the path of the requests.
        key: the field of the JSON with the keys; without it, records have no key. For a CloudEvent, it is a field of
            the data, or else an attribute such as ``"subject"``.
        token: requests need it as ``Authorization: Bearer``.
        verify: a function of (headers, body) that says whether a request is genuine, such as by its signature. The
            names of headers are in lower case. Any result but True refuses the request.
        repeat_header: the header that identifies a request, so that a repeated request is recognized.
        needs_repeat_header: whether requests without this header are refused. If they are accepted, a repeated request
            becomes another record.
        remember: how long the source remembers the keys of requests, at most a million of them.
        largest: the largest size of a body.
        timeout: the longest time that a request waits for its answer.

    Raises:
        ConfigError: an argument is not valid, requests from other machines would need neither token nor signature, or
            uvicorn is not installed.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sources import HttpSource
    >>> orders = StreamsBuilder().source(HttpSource(8094, key="customer"), "orders", key=str, value=dict)
    """

    has_end = False
    poll_ms = 0

    def __init__(
        self,
        port: int,
        *,
        host: str = HOST,
        path: str = "/",
        key: str | None = None,
        token: str | None = None,
        verify: Verify | None = None,
        repeat_header: str = REPEAT_HEADER,
        needs_repeat_header: bool = False,
        remember: Duration = "1 day",
        largest: int | str = "1 MB",
        timeout: Duration = "30 seconds",
    ):
        if type(port) is not int or not 0 <= port <= 65_535:
            raise ConfigError(f"HttpSource: port is a number from 0 to 65535; got {show(port)}")
        if not (isinstance(path, str) and path.startswith("/")):
            raise ConfigError(f"HttpSource: path begins with a slash; got {show(path)}")
        if path in FREE:
            raise ConfigError(f"HttpSource: {path} is a path for probes, which need no token; take another one")
        if key is not None and not (isinstance(key, str) and key):
            raise ConfigError(f"HttpSource: key is the name of a field; got {show(key)}")
        if verify is not None and not callable(verify):
            raise ConfigError(f"HttpSource: verify is a function of (headers, body); got {show(verify)}")
        if not (isinstance(repeat_header, str) and repeat_header.isascii() and repeat_header.strip()):
            raise ConfigError(f"HttpSource: repeat_header is the name of a header; got {show(repeat_header)}")
        if type(needs_repeat_header) is not bool:
            raise ConfigError(f"HttpSource: needs_repeat_header is True or False; got {show(needs_repeat_header)}")
        _check_access(host, token, verify)
        self.host, self.key, self.repeat_header = host, key, repeat_header
        self.remember_ms = to_ms(remember, "HttpSource: remember")
        self.wanted = Accepted(
            path,
            repeat_header.lower().encode(),
            needs_repeat_header,
            to_bytes(largest, "HttpSource: largest"),
            to_ms(timeout, "HttpSource: timeout") / 1000,
            verify,
        )
        self._token = token
        self._port = port
        _check_is_installed()

    @property
    def url(self) -> str:
        """Where requests are posted to."""
        return f"{url_of(self.host, self._port)}{self.wanted.path}"

    @property
    def shown(self) -> str:
        return f"requests to {self.url}"

    @property
    def secrets(self) -> list[str]:
        return [] if self._token is None else [self._token]

    def check_types(self, key: Serde, value: Serde) -> None:
        if not isinstance(value, JsonSerde) and value not in (STR, BYTES):
            raise ConfigError(
                "the values of an HttpSource are bodies of requests: JSON (value=dict, a dataclass or a "
                f"msgspec.Struct), str or bytes; got {value.name}"
            )

    def open(self, context: SourceContext) -> SourceReader:
        inbox = Inbox(self.remember_ms)
        for records in context.recent(wall_clock_ms() - self.remember_ms):
            for name, at in _names_in(records, self.repeat_header):
                inbox.remember(name, at)
        server = Server(self.wanted, inbox, self.host, self._port, self._token)
        self._port = server.port
        return _Reader(self, context, inbox, server)


def _check_access(host: Any, token: str | None, verify: Verify | None) -> None:
    if not isinstance(host, str):
        raise ConfigError(f"HttpSource: host is a name or an IP address; got {show(host)}")
    is_open = token is None
    try:
        check_access(host, token, is_open)
    except ConfigError as error:
        raise ConfigError(f"HttpSource: {error}") from None
    if not is_local(host) and is_open and verify is None:
        raise ConfigError(
            f"HttpSource: at {host}, everybody who reaches this machine could post records: give token=, or verify= "
            "with a function that judges requests"
        )


def _check_is_installed() -> None:
    try:
        import uvicorn  # noqa: F401 - is it there?
    except ImportError:
        raise ConfigError("HttpSource needs uvicorn: pip install 'penstock-streams[serve]'") from None


def _names_in(records: Records, header: str) -> list[tuple[bytes, int]]:
    """Return the keys of the requests that records came with, and the times of the records."""
    if records.headers is None:
        return []
    rows = pc.list_parent_indices(records.headers)
    pairs = records.headers.flatten()
    is_key = pc.equal(pairs.field(0), header)
    times = records.timestamp[rows.filter(is_key).to_numpy()]
    return list(zip(pairs.field(1).filter(is_key).to_pylist(), times.tolist(), strict=True))


class _Reader(SourceReader):
    def __init__(self, source: HttpSource, context: SourceContext, inbox: Inbox, server: Server):
        self._source = source
        self._context = context
        self._inbox = inbox
        self._server = server

    def read(self, offset: Any, most: int) -> SourceBatch | None:
        if not self._server.is_running:
            raise OSError("the server of requests has ended")
        requests = self._inbox.take(most, _WAIT_SECONDS)
        if not requests:
            return None
        table = self._table(requests)
        return SourceBatch(table, (offset or 0) + len(table))

    def _table(self, requests: list[Request]) -> Any:
        values = pa.array([value for request in requests for value in request.values], pa.binary())
        columns = {"value": values}
        if self._source.key is not None:
            columns["key"] = _keys(requests, values, self._source.key, self._context.key)
        headers = [_headers_of(request, self._source.repeat_header) for request in requests for _ in request.values]
        if any(headers):
            columns["headers"] = pa.array(headers, HEADERS)
        return pa.table(columns)

    def committed(self, offset: Any) -> None:
        self._inbox.store()

    def close(self) -> None:
        self._inbox.close()
        self._server.close()


def _keys(requests: list[Request], values: Any, field: str, serde: Serde) -> Any:
    """Return the keys of records, which are a field of their values."""
    if not any(request.is_event for request in requests):
        return keys_in_lines(values, field, serde)
    return keys_of([_key(request, value, field) for request in requests for value in request.values], serde)


def _key(request: Request, value: bytes | None, field: str) -> Any:
    if request.is_event:
        return key_of(value, request.attributes, field)
    return None if value is None else field_in_line(value, field)


def _headers_of(request: Request, repeat_header: str) -> list[dict[str, Any]] | None:
    """Return the headers of a record."""
    found = [*([(repeat_header, request.name)] if request.name else []), *request.attributes]
    return [{"key": name, "value": value} for name, value in found] or None

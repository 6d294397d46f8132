"""The server of requests: it takes bodies of bounded size, and answers when their records are in the log."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError
from penstock.query.bounded import BACKLOG, bounded_protocol
from penstock.query.guard import Guarded
from penstock.query.plain import as_json
from penstock.query.server import keep_port
from penstock.serdes.formats.cloud_events import is_batch, is_whole
from penstock.sources.http.events import attributes_in, events_of
from penstock.sources.http.inbox import Inbox, Outcome, Request

_log = logging.getLogger(__name__)

Verify = Callable[[dict[str, str], bytes], Any]

_BODY_SECONDS = 30.0
"""How long a body may take to arrive."""
_LONGEST_NAME = 512
_LINES = (b"application/x-ndjson", b"application/jsonl", b"application/x-jsonlines")
_ANSWERS = {
    Outcome.STORED: (200, {"stored": True, "repeated": False}),
    Outcome.KNOWN: (200, {"stored": True, "repeated": True}),
    Outcome.FULL: (503, {"error": "too many requests wait: send it again later"}),
    Outcome.LOST: (503, {"error": "whether it is stored is not known: send it again with the same key"}),
}


class RefusedError(Exception):
    """A request that is not taken, with an HTTP status."""

    def __init__(self, status: int, said: str):
        super().__init__(said)
        self.status = status


@dataclass(frozen=True)
class Accepted:
    """The requests that are taken.

    Attributes:
        path: where they are posted to.
        header: the header with the key by which a repetition is known, in lower case.
        needs_key: whether each request needs it.
        largest: how many bytes a body has at most.
        seconds: how long a request waits for its answer.
        verify: judges the headers and the body; None to take every request.
    """

    path: str
    header: bytes
    needs_key: bool
    largest: int
    seconds: float
    verify: Verify | None


class Server:
    """Serves from a thread until it is closed.

    Args:
        port: 0 takes a free one.

    Raises:
        ConfigError: uvicorn is not installed.
        OSError: the address cannot be used.
    """

    def __init__(self, wanted: Accepted, inbox: Inbox, host: str, port: int, token: str | None):
        import uvicorn

        try:
            self._socket = keep_port(host, port, "port")
        except ConfigError as error:  # an earlier process may still have it
            raise OSError(str(error)) from None
        self._socket.listen(BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            Guarded(_App(wanted, inbox), host, token),
            http=bounded_protocol(),
            ws="none",
            backlog=BACKLOG,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=[[self._socket]], name="penstock http source", daemon=True
        )
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Answer the open requests, and stop."""
        self._server.should_exit = True
        self._thread.join()
        with suppress(OSError):
            self._socket.close()


class _App:
    """The ASGI application behind the guard."""

    def __init__(self, wanted: Accepted, inbox: Inbox):
        self._wanted = wanted
        self._inbox = inbox

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            status, content = await self._taken(scope, receive)
        except RefusedError as error:
            status, content = error.status, {"error": str(error)}
        except _GoneError:
            return
        more = [(b"retry-after", b"1")] if status == 503 else []
        more += [(b"connection", b"close")] if status in (408, 413) else []
        body = as_json(content)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _taken(self, scope: Any, receive: Any) -> tuple[int, Any]:
        wanted = self._wanted
        if scope["path"] != wanted.path:
            raise RefusedError(404, f"requests are posted to {wanted.path}")
        if scope["method"] != "POST":
            raise RefusedError(405, f"requests are posted: use POST, got {scope['method']}")
        name = self._name_of(scope)
        body = await self._body(scope, receive)
        if wanted.verify is not None and not self._is_verified(wanted.verify, scope, body):
            raise RefusedError(401, "the request could not be verified")
        request = _request(scope["headers"], body, name)
        if not request.values:  # a batch without events
            return _ANSWERS[Outcome.STORED]
        try:
            outcome = await asyncio.wait_for(self._inbox.offer(request), wanted.seconds)
        except TimeoutError:
            outcome = Outcome.LOST
        return _ANSWERS[outcome]

    def _name_of(self, scope: Any) -> bytes:
        """Return the key of a request, which may be empty."""
        header = self._wanted.header
        found = [value for name, value in scope["headers"] if name == header]
        if len(found) > 1 or any(len(one) > _LONGEST_NAME for one in found):
            raise RefusedError(400, f"the header {header.decode()} stands once, with at most {_LONGEST_NAME} bytes")
        if self._wanted.needs_key and not (found and found[0]):
            raise RefusedError(
                400, f"the request needs the header {header.decode()}, so that a repeated request is recognized"
            )
        return bytes(found[0]) if found else b""

    async def _body(self, scope: Any, receive: Any) -> bytes:
        largest = self._wanted.largest
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value[:20]) > largest):
                raise RefusedError(413, f"a body has at most {largest:,} bytes")
        try:
            return await asyncio.wait_for(_all_of(receive, largest), _BODY_SECONDS)
        except TimeoutError:
            raise RefusedError(408, f"the body did not arrive within {_BODY_SECONDS:.0f} seconds") from None

    def _is_verified(self, verify: Verify, scope: Any, body: bytes) -> bool:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            return verify(headers, body) is True
        except Exception:
            _log.exception("verify of an HttpSource failed, and the request was refused")
            return False


class _GoneError(Exception):
    """The client has gone before its request was there."""


async def _all_of(receive: Any, largest: int) -> bytes:
    pieces, size, is_more = [], 0, True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > largest:
            raise RefusedError(413, f"a body has at most {largest:,} bytes")
        is_more = message.get("more_body", False)
    return b"".join(pieces)


def _request(headers: Any, body: bytes, name: bytes) -> Request:
    """Return the records of a request: one, or one for each line or event of its body."""
    attributes = attributes_in(headers)
    if attributes:
        return Request([body or None], name, attributes, is_event=True)
    kind = next((value for name, value in headers if name == b"content-type"), b"").partition(b";")[0].strip().lower()
    values: list[bytes | None] = [body] if body else []
    if kind in _LINES:
        values = [line for line in body.replace(b"\r\n", b"\n").split(b"\n") if line]
    elif is_batch(kind) and body:
        values = [*events_of(body)]
    if not values and not (is_batch(kind) and body):
        raise RefusedError(400, "the request has no body")
    return Request(values, name, is_event=is_whole(kind))

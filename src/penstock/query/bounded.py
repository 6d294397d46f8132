"""Bounded connections for the HTTP servers: a limited number, and none that only waits. A server in this process must
not take the file descriptors that the application needs."""

from __future__ import annotations

import resource
import time
from typing import Any

_MOST, _SHARE = 100, 8
"""The most connections of a server, and the fraction of the process's descriptors (one in so many) that they may
take."""
_HEADER_SECONDS = 10.0
"""The time limit for a request to arrive, and for a connection without a request."""
_READ_SECONDS = 60.0
"""The time limit for a client that does not read its answer."""
_LOOK_SECONDS = 1.0
_MOST_HEADER_BYTES = 64 << 10
BACKLOG = 16
"""The number of connections accepted at once, before surplus ones are closed."""


def most_connections() -> int:
    """The most connections that a server of this process may have."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if soft == resource.RLIM_INFINITY else max(min(_MOST, soft // _SHARE), 4)


def bounded_protocol(most: int | None = None) -> type[Any]:
    """Make uvicorn's protocol for connections, with bounds.

    Args:
        most: the most connections; by default as the process's limit of descriptors allows.
    """
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    limit = most or most_connections()
    known: dict[Any, None] = {}
    """All connections, the oldest first."""

    class Bounded(AutoHTTPProtocol):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._since = time.monotonic()
            """When it began to wait: for a request, or for the client to read an answer."""
            self._place: tuple[Any, ...] = ()
            self._pending = 0
            """The bytes received since the last request began, without the next one."""
            known[self] = None
            if len(known) > limit:
                (next((one for one in known if one.is_idle), None) or self).drop()
            self._timer = self.loop.call_later(_LOOK_SECONDS, self._look)

        def connection_lost(self, error: Exception | None) -> None:
            known.pop(self, None)
            self._timer.cancel()
            super().connection_lost(error)

        def data_received(self, data: bytes) -> None:
            self._pending = self._pending + len(data) if self.is_idle else 0
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:  # the bytes were a request, perhaps with a long body
                self._pending = 0
            elif self._pending > _MOST_HEADER_BYTES:
                self.drop()

        @property
        def is_idle(self) -> bool:
            """True if no request is being processed."""
            return self.cycle is None or bool(self.cycle.response_complete)

        def drop(self) -> None:
            known.pop(self, None)
            self.transport.abort()

        def _look(self) -> None:
            """Close the connection if it has waited for too long."""
            not_taken = self.transport.get_write_buffer_size()
            place = (self.is_idle, self.cycle, not_taken)
            waits = self.is_idle or not_taken > 0
            if place != self._place or not waits:
                self._place, self._since = place, time.monotonic()
            elif time.monotonic() - self._since > (_HEADER_SECONDS if self.is_idle else _READ_SECONDS):
                self.drop()
                return
            self._timer = self.loop.call_later(_LOOK_SECONDS, self._look)

    return Bounded

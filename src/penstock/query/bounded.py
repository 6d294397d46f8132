"""Connections of the HTTP servers: so many and no more, and none that only waits. A server of this process must not
take the descriptors that the application needs."""

from __future__ import annotations

import resource
import time
from typing import Any

_MOST, _SHARE = 100, 8
"""How many connections a server has at most, and at most one in so many of the process's descriptors."""
_HEADER_SECONDS = 10.0
"""How long a request may take to come, and a connection be without one."""
_READ_SECONDS = 60.0
"""How long a client may take nothing of an answer."""
_LOOK_SECONDS = 1.0
_MOST_HEADER_BYTES = 64 << 10
BACKLOG = 16
"""How many connections are taken up at once, before those that are too many are closed."""


def most_connections() -> int:
    """How many connections a server of this process may have."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if soft == resource.RLIM_INFINITY else max(min(_MOST, soft // _SHARE), 4)


def bounded_protocol(most: int | None = None) -> type[Any]:
    """uvicorn's protocol for connections, with bounds.

    Args:
        most: how many connections there may be; by default as many as the process's limit of descriptors allows.
    """
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    limit = most or most_connections()
    known: dict[Any, None] = {}
    """All connections, the oldest first."""

    class Bounded(AutoHTTPProtocol):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._since = time.monotonic()
            """Since when it waits: for a request, or for the client to take an answer."""
            self._place: tuple[Any, ...] = ()
            self._pending = 0
            """Bytes that have come since the last request began, without the next one."""
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
            if self._pending > _MOST_HEADER_BYTES:
                self.drop()
                return
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._pending = 0

        @property
        def is_idle(self) -> bool:
            """Whether no request is under way."""
            return self.cycle is None or bool(self.cycle.response_complete)

        def drop(self) -> None:
            known.pop(self, None)
            self.transport.abort()

        def _look(self) -> None:
            """Let go of a connection that has waited for too long."""
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

"""Accepts connections from slots, and turns strangers away.

A client has to prove that it knows the key of the run. Handshakes run at the same time, each in its own thread. Each
has one deadline as a whole: a client that sends a byte now and then is cut off like one that sends nothing. Their
number is limited. When there is no room, the longest-running handshake is cut off, so strangers keep no slot out.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress

from penstock.engine.slots.links import Address, Hello, Link, LinkLostError, readable

_HANDSHAKE_SECONDS = 10.0
"""Time limit of a whole handshake."""
_CROWDED_SECONDS = 1.0
"""Its minimum time limit when others wait for room."""
_MOST = 64
"""Most handshakes at once; further clients wait in the backlog of the socket."""
_PAUSE_SECONDS = 0.1
"""Pause after the system had no descriptor for a client."""


class Door:
    """Accepts slots; ``readable`` tells when one has connected.

    Args:
        bind: the address of this machine to listen at.
        host: the name under which slots find it.
        seconds: as in ``Link``.
    """

    def __init__(self, bind: str, host: str, key: bytes, seconds: float):
        self._server = socket.create_server((bind, 0), backlog=128)
        self._server.setblocking(False)
        self._seconds = min(_HANDSHAKE_SECONDS, seconds)
        self._spared = max(self._seconds - _CROWDED_SECONDS, 0.0)
        """How much shorter a handshake is when others wait for room."""
        self._came: queue.SimpleQueue[tuple[Link, Hello]] = queue.SimpleQueue()
        self._bell, self._rings = socket.socketpair()
        self._stop, self._stops = socket.socketpair()
        self._strangers: dict[Link, float] = {}
        """Clients in their handshake, and when each must be done, in the order of arrival."""
        self._changing = threading.Lock()
        self.address = Address(host, self._server.getsockname()[1], key)
        self._thread = threading.Thread(target=self._keep, name="penstock door", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._bell.fileno()

    def next(self) -> tuple[Link, Hello] | None:
        """Return the next slot that has connected, if any."""
        try:
            came = self._came.get_nowait()
        except queue.Empty:
            return None
        self._bell.recv(1)
        return came

    def close(self) -> None:
        """Accept no more clients."""
        self._stops.close()
        self._thread.join()
        self._server.close()
        while (came := self.next()) is not None:
            came[0].close()
        for end in (self._bell, self._rings, self._stop):
            end.close()

    # --- the thread at the door --------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Accept clients until the door is closed."""
        while True:
            has_room = len(self._strangers) < _MOST
            ends = [self._stop, self._server] if has_room else [self._stop]
            ready = readable(ends, self._until_next(has_room))
            if self._stop in ready:
                break
            self._send_away(has_room)
            if self._server in ready:
                self._let_in()
        with self._changing:
            for link in self._strangers:
                link.cut_off()
            self._strangers.clear()

    def _until_next(self, has_room: bool) -> float | None:
        """Return the seconds until a handshake has to be cut off; None when no client is connecting."""
        with self._changing:
            first = next(iter(self._strangers.values()), None)
        if first is None:
            return None
        return max(first - time.monotonic() - (0.0 if has_room else self._spared), 0.0)

    def _send_away(self, has_room: bool) -> None:
        """Cut off the handshakes that have taken too long."""
        latest = time.monotonic() + (0.0 if has_room else self._spared)
        with self._changing:
            for link in [link for link, until in self._strangers.items() if until <= latest]:
                del self._strangers[link]
                link.cut_off()

    def _let_in(self) -> None:
        try:
            own, _ = self._server.accept()
        except BlockingIOError:  # the client is gone again
            return
        except OSError:
            time.sleep(_PAUSE_SECONDS)
            return
        try:
            link = Link(own, self._seconds)
        except OSError:
            own.close()
            return
        with self._changing:
            self._strangers[link] = time.monotonic() + self._seconds
        threading.Thread(target=self._greet, args=(link,), name="penstock handshake", daemon=True).start()

    def _greet(self, link: Link) -> None:
        """Run the handshake of one client."""
        hello = None
        with suppress(LinkLostError):
            link.prove(self.address.key, comes_first=True)
            hello = link.message()
        with self._changing:
            is_in_time = self._strangers.pop(link, None) is not None
            if is_in_time and isinstance(hello, Hello):
                self._came.put((link, hello))
                self._rings.send(b".")
                return
        link.close()

"""Where the driver waits for its slots, and strangers may come as well.

Whoever connects has to prove that he knows the key of the run. Handshakes go beside each other, in a thread each, and
each has one deadline as a whole: who sends a byte now and then is sent away like who sends none. There are only so many
at once. When there is no room, the one that has taken longest has to go, so strangers keep no slot out.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress

from penstock.engine.slots.links import Address, Hello, Link, LinkLostError, readable

_HANDSHAKE_SECONDS = 10.0
"""How long a handshake may take as a whole."""
_CROWDED_SECONDS = 1.0
"""How long it may take at least, when others wait for room."""
_MOST = 64
"""Handshakes at once; who comes then waits in the backlog of the socket."""
_PAUSE_SECONDS = 0.1
"""After the system had no descriptor for who came."""


class Door:
    """Lets slots in; ``readable`` tells when one has come.

    Args:
        bind: the address of this machine to listen at.
        host: under which name slots find it.
        seconds: as ``Link`` has it.
    """

    def __init__(self, bind: str, host: str, key: bytes, seconds: float):
        self._server = socket.create_server((bind, 0), backlog=128)
        self._server.setblocking(False)
        self._seconds = min(_HANDSHAKE_SECONDS, seconds)
        self._spared = max(self._seconds - _CROWDED_SECONDS, 0.0)
        """By so much a handshake is shorter when others wait for room."""
        self._came: queue.SimpleQueue[tuple[Link, Hello]] = queue.SimpleQueue()
        self._bell, self._rings = socket.socketpair()
        self._stop, self._stops = socket.socketpair()
        self._strangers: dict[Link, float] = {}
        """Those whose handshake is under way, and when each has to be over; the one that came first is first."""
        self._changing = threading.Lock()
        self.address = Address(host, self._server.getsockname()[1], key)
        self._thread = threading.Thread(target=self._keep, name="penstock door", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._bell.fileno()

    def next(self) -> tuple[Link, Hello] | None:
        """The slot that has come; None if there is none."""
        try:
            came = self._came.get_nowait()
        except queue.Empty:
            return None
        self._bell.recv(1)
        return came

    def close(self) -> None:
        """Let nobody in any more."""
        self._stops.close()
        self._thread.join()
        self._server.close()
        while (came := self.next()) is not None:
            came[0].close()
        for end in (self._bell, self._rings, self._stop):
            end.close()

    # --- the thread at the door --------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Let in who comes, until the door is closed."""
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
        """How many seconds until somebody has to go; None when nobody is at the door."""
        with self._changing:
            first = next(iter(self._strangers.values()), None)
        if first is None:
            return None
        return max(first - time.monotonic() - (0.0 if has_room else self._spared), 0.0)

    def _send_away(self, has_room: bool) -> None:
        """End the handshakes that have taken too long."""
        latest = time.monotonic() + (0.0 if has_room else self._spared)
        with self._changing:
            for link in [link for link, until in self._strangers.items() if until <= latest]:
                del self._strangers[link]
                link.cut_off()

    def _let_in(self) -> None:
        try:
            own, _ = self._server.accept()
        except BlockingIOError:  # gone again
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
        """Find out who somebody is."""
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

"""Requests that wait until their records are in the log, and the keys of stored ones."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import Enum

from penstock.sources.http.events import Attributes
from penstock.values.times import wall_clock_ms

_MOST_REQUESTS, _MOST_BYTES = 10_000, 64 << 20
"""How many requests wait at most, and how many bytes of them."""
_MOST_KEYS = 1_000_000
"""How many keys are remembered at most, the newest ones."""


class Outcome(Enum):
    """The end of a request."""

    STORED = "stored"
    """Its records are in the log now."""
    KNOWN = "known"
    """They had been there before."""
    FULL = "full"
    """Too many requests wait, so it was not taken."""
    LOST = "lost"
    """Whether they are in the log is not known."""


@dataclass(eq=False)
class Request:
    """A request that waits.

    Attributes:
        values: the records' values.
        name: the key by which a repetition is known; empty for none.
        attributes: the headers of its record, if it is a CloudEvent in binary mode.
        is_event: whether its values are CloudEvents.
    """

    values: list[bytes | None]
    name: bytes
    attributes: Attributes = field(default_factory=list)
    is_event: bool = False
    waiting: list[asyncio.Future[Outcome]] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return sum(len(value or b"") for value in self.values) + sum(len(value) for _, value in self.attributes)


class Inbox:
    """The requests between a server and a reader, which are in two threads.

    Args:
        remember_ms: for how long keys are remembered.
    """

    def __init__(self, remember_ms: int):
        self._remember_ms = remember_ms
        self._news = threading.Condition()
        self._queue: deque[Request] = deque()
        self._nbytes = 0
        self._open: dict[bytes, Request] = {}
        """The requests that wait or are taken, by their keys."""
        self._taken: list[Request] = []
        self._known: OrderedDict[bytes, int] = OrderedDict()
        """Digests of the keys of stored requests, with the times of the requests, oldest first."""
        self._is_closed = False

    # --- the server --------------------------------------------------------------------------------------------------

    def offer(self, request: Request) -> asyncio.Future[Outcome]:
        """Take a request in; called in the server's loop. Return its outcome to come."""
        name = request.name
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        with self._news:
            if self._is_closed:
                outcome.set_result(Outcome.LOST)
            elif name and self._is_known(name):
                outcome.set_result(Outcome.KNOWN)
            elif name and name in self._open:  # it came again before it was stored
                self._open[name].waiting.append(outcome)
            elif len(self._queue) >= _MOST_REQUESTS or self._nbytes >= _MOST_BYTES:
                outcome.set_result(Outcome.FULL)
            else:
                request.waiting.append(outcome)
                self._put(request)
        return outcome

    def _put(self, request: Request) -> None:
        self._queue.append(request)
        self._nbytes += request.nbytes
        if request.name:
            self._open[request.name] = request
        self._news.notify_all()

    def _is_known(self, name: bytes) -> bool:
        at = self._known.get(_digest(name))
        return at is not None and at >= wall_clock_ms() - self._remember_ms

    # --- the reader --------------------------------------------------------------------------------------------------

    def take(self, most: int, seconds: float) -> list[Request]:
        """Return requests that wait, with about so many records; wait for one if the queue is empty."""
        with self._news:
            if not self._queue:
                self._news.wait(seconds)
            count, taken = 0, []
            while self._queue and count < most:
                request = self._queue.popleft()
                self._nbytes -= request.nbytes
                count += len(request.values)
                taken.append(request)
            self._taken += taken
            return taken

    def store(self) -> None:
        """Answer the requests that were taken: they are in the log."""
        with self._news:
            stored, self._taken = self._taken, []
            for request in stored:
                if request.name:
                    self._open.pop(request.name, None)
                    self._remember(_digest(request.name), wall_clock_ms())
            self._forget()
        for request in stored:
            _answer(request, Outcome.STORED)

    def remember(self, name: bytes, at: int) -> None:
        """Remember the key of a request that is in the log since a time in ms."""
        with self._news:
            self._remember(_digest(name), at)
            self._forget()

    def _remember(self, digest: bytes, at: int) -> None:
        self._known[digest] = at
        self._known.move_to_end(digest)

    def _forget(self) -> None:
        oldest = wall_clock_ms() - self._remember_ms
        while self._known and (len(self._known) > _MOST_KEYS or next(iter(self._known.values())) < oldest):
            self._known.popitem(last=False)

    def close(self) -> None:
        """Take nothing more. The fate of requests that were taken is not known."""
        with self._news:
            self._is_closed = True
            left = [*self._taken, *self._queue]
            self._taken, self._open = [], {}
            self._queue.clear()
        for request in left:
            _answer(request, Outcome.LOST)


def _answer(request: Request, outcome: Outcome) -> None:
    """Tell a server's loop, from another thread."""
    for one in request.waiting:
        loop = one.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_set, one, outcome)


def _set(waiting: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not waiting.done():
        waiting.set_result(outcome)


def _digest(name: bytes) -> bytes:
    return hashlib.blake2b(name, digest_size=16).digest()

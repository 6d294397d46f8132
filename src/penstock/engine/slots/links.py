"""The connection between the driver and its slots: authenticated, plain data, and every wait is limited.

A slot connects to the driver's address, and both prove that they know the key of this run, which travels with Spark's
own work. Then the driver sends orders and the slot answers. While it works, it sends a sign of life every second.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from penstock.engine.shared.manifest import TaskEntry
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.engine.task.live import StoreAnswer, StoreQuestion
from penstock.state.restoring import RestoreStep
from penstock.values.decoding import json_decoder

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""A slot waiting for orders notices with these settings, in seconds, that the other machine is gone."""


class Work(msgspec.Struct, frozen=True, tag=True):
    """An order: run tasks of a stage, all of which are on this slot."""

    stage: StageWork
    shares: list[int] = []
    """The slots whose tasks this slot has: its own, and those of slots that have not come."""


class Follow(msgspec.Struct, frozen=True, tag=True):
    """An order that runs in the background: bring copies of other machines' tasks to their last commit.

    The driver does not wait for it; ``Followed`` comes when it is done.
    """

    application: str
    number: int
    """The newest commit; the answer repeats it to identify the order."""
    entries: dict[str, TaskEntry]


class LetGo(msgspec.Struct, frozen=True, tag=True):
    """An order: close all state, and wait for more orders. Another slot takes over some of the tasks."""


class Close(msgspec.Struct, frozen=True, tag=True):
    """An order: close all state, and end."""


class Seat(msgspec.Struct, frozen=True, tag=True):
    """An order: be this slot."""

    slot: int


NO_SLOT = -1


class Hello(msgspec.Struct, frozen=True, tag=True):
    """A slot has connected."""

    slot: int
    """``NO_SLOT`` for one that waits for its ``Seat``."""
    job: int
    """The job of the run for which it was started."""
    host: str = ""
    """Its machine, where it has no slot yet."""
    had: dict[int, float] = {}
    """The slots whose state is on the disk of that machine, and since when."""
    asks: bool = False
    """Whether this connection is for questions, beside the one for work."""


class Alive(msgspec.Struct, frozen=True, tag=True):
    """A slot still works on its order."""

    has_moved: bool = False
    """Whether it has made progress since it last said so."""


class AtDisk(msgspec.Struct, frozen=True, tag=True):
    """A slot starts or stops waiting for its disk, and may send nothing in between."""

    is_there: bool


class Restoring(msgspec.Struct, frozen=True, tag=True):
    """Progress of a slot's restores."""

    steps: list[RestoreStep]


class Done(msgspec.Struct, frozen=True, tag=True):
    """The answer to an order."""

    tasks: list[TaskDone] = []
    cpu_seconds: float = 0.0
    """The resources that the slot's process has used since its last answer."""


class Followed(msgspec.Struct, frozen=True, tag=True):
    """Copies have reached the commit of an order."""

    number: int
    failed: list[str] = []
    """The tasks whose copies have not."""
    steps: list[RestoreStep] = []
    """The rows that the copies have loaded since the last answer, and the copies that have ended."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A slot ends because of an error that it could not return as an answer."""

    reason: str


Order = Seat | Work | Follow | LetGo | Close | StoreQuestion
Message = Hello | Alive | AtDisk | Restoring | Done | Followed | Failed | StoreAnswer


class Address(NamedTuple):
    """Where slots find the driver, and the key that proves they are its own."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"<Address of {self.host}:{self.port}>"


class LinkLostError(Exception):
    """The other end is gone, or stalled in the middle of a message."""


class UnreachableError(LinkLostError):
    """Nothing answers at the driver's address."""


class Link:
    """One end of a connection.

    Args:
        seconds: how long the other end may pause in the middle of a message.
    """

    def __init__(self, own: socket.socket, seconds: float):
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):  # not every system has this option
                own.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _limit(own, socket.SO_SNDTIMEO, seconds)
        _limit(own, socket.SO_RCVTIMEO, seconds)
        own.setblocking(True)
        self._connection = Connection(own.detach())
        self._sending = threading.Lock()
        self.heard = time.monotonic()
        """When the last message arrived."""
        self.is_at_disk = False
        """Whether the other end's last message about its disk said that it waits."""

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, message: Order | Message) -> None:
        """Send a message; raises ``LinkLostError``. Safe to call from several threads."""
        data = msgspec.json.encode(message)
        with self._sending, _as_loss():
            self._connection.send_bytes(data)

    def order(self) -> Order:
        """Wait, without a time limit, for the driver's next order; raises ``LinkLostError``."""
        with _as_loss():
            self._connection.poll(None)
            order: Order = _orders.decode(self._connection.recv_bytes())
        return order

    def message(self) -> Message:
        """Return the slot's next message; raises ``LinkLostError``."""
        with _as_loss():
            message: Message = _messages.decode(self._connection.recv_bytes())
        self.heard = time.monotonic()
        return message

    def has_more(self) -> bool:
        """Return whether something can be read at once, even if only the end of the connection."""
        with _as_loss():
            return self._connection.poll()

    def prove(self, key: bytes, comes_first: bool) -> None:
        """Let both ends prove that they know the key; raises ``LinkLostError``."""
        steps = [deliver_challenge, answer_challenge]
        with _as_loss():
            for step in steps if comes_first else reversed(steps):
                step(self._connection, key)

    def cut_off(self) -> None:
        """Make a waiting reader see the end of the connection; from any thread, before ``close``."""
        with socket.socket(fileno=os.dup(self.fileno())) as same, suppress(OSError):
            same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()


_orders = json_decoder(Order)
_messages = json_decoder(Message)


class _as_loss:  # noqa: N801 - reads as a word
    """Turns the many errors that sockets raise into ``LinkLostError``."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, EOFError | OSError | AssertionError | AuthenticationError | msgspec.MsgspecError):
            raise LinkLostError(f"{type(error).__name__} {error}".strip()) from error


class _End(Protocol):
    def fileno(self) -> int: ...


T = TypeVar("T", bound=_End)


def readable(ends: Iterable[T], seconds: float | None) -> list[T]:
    """Return the ends that can be read, waiting up to so many seconds for one; without a limit, forever."""
    with selectors.DefaultSelector() as selector:
        by_key = {selector.register(end, selectors.EVENT_READ): end for end in ends}
        return [by_key[key] for key, _ in selector.select(seconds)]


def _limit(own: socket.socket, option: int, seconds: float) -> None:
    whole = int(seconds)
    own.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", whole, int((seconds - whole) * 1_000_000)))


def connected(address: Address, hello: Hello, seconds: float) -> Link:
    """Connect a slot to its driver. Raise ``UnreachableError`` if nothing answers, ``LinkLostError`` if it refuses."""
    try:
        own = socket.create_connection(address[:2], timeout=seconds)
    except OSError as error:
        raise UnreachableError(str(error)) from error
    link = Link(own, seconds)
    link.prove(address.key, comes_first=False)
    link.send(hello)
    return link

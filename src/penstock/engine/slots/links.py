"""The connection between the driver and its slots: authenticated, plain data, and nothing that waits for ever.

A slot connects to the driver's address and both prove that they know the key of this run, which travels with Spark's
own work. Then the driver sends orders and the slot answers; while it works it says every second that it is there.
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

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""So that a machine that is gone is noticed by one that waits for its orders, in seconds."""


class Work(msgspec.Struct, frozen=True, tag=True):
    """An order: run tasks of a stage, all of which are on this slot."""

    stage: StageWork


class Follow(msgspec.Struct, frozen=True, tag=True):
    """An order that is carried out beside others: move copies of other machines' tasks on to where these are committed.

    Nobody waits for it; ``Followed`` comes when it does.
    """

    application: str
    number: int
    """The newest commit, by which the answer tells which order it is for."""
    entries: dict[str, TaskEntry]


class Close(msgspec.Struct, frozen=True, tag=True):
    """An order: let go of all state, and end."""


class Hello(msgspec.Struct, frozen=True, tag=True):
    """A slot is there."""

    slot: int
    job: int
    """For which of the run's jobs it was started."""
    asks: bool = False
    """Whether this connection is for questions, beside the one for work."""


class Alive(msgspec.Struct, frozen=True, tag=True):
    """A slot still works on its order."""

    has_moved: bool = False
    """Whether it has come further since it last said so."""


class AtDisk(msgspec.Struct, frozen=True, tag=True):
    """A slot waits for its disk from now on, and may say nothing until that is over; or it is over."""

    is_there: bool


class Restoring(msgspec.Struct, frozen=True, tag=True):
    """How the restores of a slot go on."""

    steps: list[RestoreStep]


class Done(msgspec.Struct, frozen=True, tag=True):
    """The answer to an order."""

    tasks: list[TaskDone] = []


class Followed(msgspec.Struct, frozen=True, tag=True):
    """Copies have come to where an order said."""

    number: int
    failed: list[str] = []
    """But those of these tasks."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A slot ends, because of what it could not tell as an answer."""

    reason: str


Order = Work | Follow | Close | StoreQuestion
Message = Hello | Alive | AtDisk | Restoring | Done | Followed | Failed | StoreAnswer


class Address(NamedTuple):
    """Where slots find the driver, and how they prove that they are its own."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"<Address of {self.host}:{self.port}>"


class LinkLostError(Exception):
    """The other end is gone, or stalled in the middle of a message."""


class Link:
    """One end of a connection.

    Args:
        seconds: how long the other end may take to go on in the middle of a message.
    """

    def __init__(self, own: socket.socket, seconds: float):
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):  # not on all systems under this name
                own.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _limit(own, socket.SO_SNDTIMEO, seconds)
        _limit(own, socket.SO_RCVTIMEO, seconds)
        own.setblocking(True)
        self._connection = Connection(own.detach())
        self._sending = threading.Lock()
        self.heard = time.monotonic()
        """When the other end said something last."""
        self.is_at_disk = False
        """Whether the last that it said of that was that it waits for its disk."""

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, message: Order | Message) -> None:
        """Send a message; raises ``LinkLostError``. Safe to call from several threads."""
        data = msgspec.json.encode(message)
        with self._sending, _as_loss():
            self._connection.send_bytes(data)

    def order(self) -> Order:
        """The driver's next order, for which there is no limit of time; raises ``LinkLostError``."""
        with _as_loss():
            self._connection.poll(None)
            order: Order = _orders.decode(self._connection.recv_bytes())
        return order

    def message(self) -> Message:
        """The slot's next message; raises ``LinkLostError``."""
        with _as_loss():
            message: Message = _messages.decode(self._connection.recv_bytes())
        self.heard = time.monotonic()
        return message

    def has_more(self) -> bool:
        """Whether something can be read at once, if only that the other end is gone."""
        with _as_loss():
            return self._connection.poll()

    def prove(self, key: bytes, comes_first: bool) -> None:
        """Have both ends prove that they know the key; raises ``LinkLostError``."""
        steps = [deliver_challenge, answer_challenge]
        with _as_loss():
            for step in steps if comes_first else reversed(steps):
                step(self._connection, key)

    def cut_off(self) -> None:
        """Have whoever waits for the other end hear that it is gone; from any thread, before ``close``."""
        with socket.socket(fileno=os.dup(self.fileno())) as same, suppress(OSError):
            same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()


_orders = msgspec.json.Decoder(Order)
_messages = msgspec.json.Decoder(Message)


class _as_loss:  # noqa: N801 - reads as a word
    """What sockets raise is of many kinds."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, EOFError | OSError | AssertionError | AuthenticationError | msgspec.MsgspecError):
            raise LinkLostError(f"{type(error).__name__} {error}".strip()) from error


class _End(Protocol):
    def fileno(self) -> int: ...


T = TypeVar("T", bound=_End)


def readable(ends: Iterable[T], seconds: float | None) -> list[T]:
    """Those of which something can be read; waits so long for one, for ever without a limit."""
    with selectors.DefaultSelector() as selector:
        by_key = {selector.register(end, selectors.EVENT_READ): end for end in ends}
        return [by_key[key] for key, _ in selector.select(seconds)]


def _limit(own: socket.socket, option: int, seconds: float) -> None:
    whole = int(seconds)
    own.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", whole, int((seconds - whole) * 1_000_000)))


def connected(address: Address, hello: Hello, seconds: float) -> Link:
    """A slot's connection to its driver; raises ``LinkLostError``."""
    with _as_loss():
        own = socket.create_connection(address[:2], timeout=seconds)
    link = Link(own, seconds)
    link.prove(address.key, comes_first=False)
    link.send(hello)
    return link

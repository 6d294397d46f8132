"""The process of a slot that runs without Spark; started by ``processes.py``.

python -m penstock.engine.slots.process DESCRIPTOR
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from multiprocessing.connection import Connection

import msgspec

from penstock.engine.shipping.shipping import loads
from penstock.engine.slots.links import Address
from penstock.engine.slots.slot import Place, Program, serve
from penstock.messages import describe
from penstock.values.decoding import from_json

IGNORED = (signal.SIGINT, signal.SIGTERM)
"""Signals that go to all processes of a terminal or a service; the driver ends this one in order."""


class Start(msgspec.Struct, frozen=True):
    """An order to be the slot in a job; the packed program follows it."""

    run: str
    job: int
    slot: int
    host: str
    port: int
    key: bytes
    seconds: float


def main() -> None:
    """Be the slot of one job after the other, until the driver closes the connection."""
    for number in IGNORED:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)  # who started it has held them until now
    threading.Thread(target=_end_with_driver, name="penstock-slot-life", daemon=True).start()
    connection = Connection(int(sys.argv[1]))
    while (start := _next(connection)) is not None:
        failure = _served(start, connection.recv_bytes())
        connection.send_bytes(failure.encode())
        if failure:
            sys.exit(1)


def _next(connection: Connection) -> Start | None:
    try:
        return from_json(connection.recv_bytes(), Start)
    except EOFError:
        return None


def _served(start: Start, packed: bytes) -> str:
    def program() -> Program:
        known: Program = loads(packed)
        return known

    try:
        address = Address(start.host, start.port, start.key)
        return serve(Place(start.run, start.job, start.slot), address, program, start.seconds)
    except Exception as error:
        return f"slot {start.slot} failed: {describe(error)}"


def _end_with_driver() -> None:
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()

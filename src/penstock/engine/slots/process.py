"""The process of a slot without Spark, after ``fork_server.py`` has forked it."""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing.connection import Connection

import msgspec
import numpy as np

from penstock.engine.shipping.shipping import loads
from penstock.engine.slots.links import Address
from penstock.engine.slots.slot import Place, Program, serve
from penstock.messages import describe
from penstock.values.decoding import from_json


class Start(msgspec.Struct, frozen=True):
    """An order to be the slot in a job; the packed program follows it."""

    run: str
    job: int
    slot: int
    host: str
    port: int
    key: bytes
    seconds: float


def be_slot(connection: Connection) -> None:
    """Be the slot of one job after the other, until the driver closes the connection."""
    if "numpy.random" in sys.modules:
        np.random.seed()  # else all slots would draw the same numbers
    threading.Thread(target=_end_with_server, name="penstock-slot-life", daemon=True).start()
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


def _end_with_server() -> None:
    """End the process when its fork server has ended, which ends with the driver."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)

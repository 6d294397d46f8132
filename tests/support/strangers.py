"""Strangers at a port, who keep connections open and come again as soon as they are sent away.

python strangers.py HOST PORT KIND NUMBER

It says "there" when all have a connection, and goes on until it is killed.
"""

from __future__ import annotations

import secrets
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_PAUSE_SECONDS = 0.2


def _is_silent(stranger: socket.socket) -> None:
    while stranger.recv(1024):
        pass


def _drips(stranger: socket.socket) -> None:
    """Promise the length of an answer, and send it byte by byte."""
    stranger.sendall(struct.pack("!i", 256))
    while True:
        stranger.sendall(b"x")
        time.sleep(_PAUSE_SECONDS)


def _does_not_know_the_key(stranger: socket.socket) -> None:
    """Answer the challenge as a slot would, with a digest of the right form."""
    stranger.recv(1024)
    answer = b"{sha256}" + secrets.token_bytes(32)
    stranger.sendall(struct.pack("!i", len(answer)) + answer)
    _is_silent(stranger)


def _speaks_http(stranger: socket.socket) -> None:
    stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
    _is_silent(stranger)


def _promises_a_terabyte(stranger: socket.socket) -> None:
    stranger.sendall(struct.pack("!iQ", -1, 1 << 40))
    while True:
        stranger.sendall(b"x" * 1000)
        time.sleep(_PAUSE_SECONDS)


def _hangs_up(stranger: socket.socket) -> None:
    """Close the connection with a reset, in the middle of the handshake."""
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.01)


KINDS: dict[str, Callable[[socket.socket], None]] = {
    "silent": _is_silent,
    "dripping": _drips,
    "without the key": _does_not_know_the_key,
    "HTTP": _speaks_http,
    "a terabyte": _promises_a_terabyte,
    "hanging up": _hangs_up,
}


@contextmanager
def strangers(host: str, port: int, kind: str, number: int) -> Iterator[None]:
    """Have so many strangers at a port, in a process of their own."""
    command = [sys.executable, __file__, host, str(port), kind, str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "there\n"
            yield
            assert running.poll() is None, "they are there to the end"
        finally:
            running.kill()


def _come(address: tuple[str, int], behave: Callable[[socket.socket], None], came: threading.Semaphore) -> None:
    while True:
        with suppress(OSError), socket.create_connection(address) as stranger:
            came.release()
            behave(stranger)


def main() -> None:
    host, port, kind, number = sys.argv[1:]
    came = threading.Semaphore(0)
    for _ in range(int(number)):
        threading.Thread(target=_come, args=((host, int(port)), KINDS[kind], came), daemon=True).start()
    for _ in range(int(number)):
        came.acquire()
    print("there", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()

"""Live queries from other processes of the same user on the same machine.

A running program listens at a socket in a folder that no other user can enter. Its name follows from the application's
checkpoint, so a process that opens the checkpoint finds it; nothing secret is written down. Each connection carries one
question and its answer.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import msgspec

from penstock.engine.task.live import LiveTasks, StoreAnswer, StoreQuestion
from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.values.decoding import from_msgpack

_log = logging.getLogger(__name__)

_TASKS = "tasks"
"""The read that asks which tasks a sub-topology has; in place of a store's name is its number."""
_MOST_BYTES = 1 << 20
"""The longest question."""
_SECONDS = 60.0
"""How long an answer may take: a chunk is worked on to its end first."""
_LENGTH = 8


def folder_of_sockets() -> Path:
    """The folder of this user's sockets, which no other user can enter.

    Raises:
        ConfigError: something else is there.
    """
    folder = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigError(
            f"{folder} is for the sockets of running programs, and must be a folder of your own that no other user can "
            "enter: remove it, or give another folder for temporary files (TMPDIR)"
        )
    return folder


def place_of(storage: Storage) -> Path:
    """The socket of the application that has this checkpoint."""
    root = getattr(storage, "root", None)
    name = storage.shown if root is None else str(Path(root).resolve())
    return folder_of_sockets() / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.sock"


class QuestionServer:
    """Answers the questions of other processes until it is closed.

    Args:
        storage: the application's checkpoint.
        live: its tasks.
    """

    def __init__(self, storage: Storage, live: LiveTasks):
        self._live = live
        self._place = place_of(storage)
        self._socket = socket.socket(socket.AF_UNIX)
        with suppress(FileNotFoundError):  # left by a program that was killed, or that this one replaces
            self._place.unlink()
        self._socket.bind(str(self._place))
        self._file = self._place.stat().st_ino
        self._socket.listen(64)
        self._thread = threading.Thread(target=self._serve, name="penstock questions", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed
            while self._socket.fileno() >= 0:
                asking, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(asking,), name="penstock question", daemon=True).start()

    def _answer(self, asking: socket.socket) -> None:
        with asking, suppress(OSError, msgspec.MsgspecError, ValueError):
            asking.settimeout(_SECONDS)
            question = from_msgpack(_received(asking, _MOST_BYTES), StoreQuestion)
            _send(asking, msgspec.msgpack.encode(self._answer_to(question)))

    def _answer_to(self, question: StoreQuestion) -> StoreAnswer:
        if question.read == _TASKS:
            return StoreAnswer(True, msgspec.msgpack.encode(self._live.task_names(int(question.store))))
        return self._live.ask(question)

    def close(self) -> None:
        """Answer no more questions."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with suppress(FileNotFoundError):
            if self._place.stat().st_ino == self._file:  # or another program has taken over
                self._place.unlink()


def answering(storage: Storage, live: LiveTasks) -> Callable[[], None]:
    """Answer the questions of other processes, and return what ends that.

    Where no socket can be, a warning says why, and the program runs without it.
    """
    try:
        return QuestionServer(storage, live).close
    except (ConfigError, OSError) as error:
        _log.warning(
            "other processes cannot ask this program for what is not committed, since its socket cannot be made: %s",
            error,
        )
        return lambda: None


class TasksElsewhere:
    """The tasks of an application that runs in another process on this machine.

    Args:
        storage: the application's checkpoint.
    """

    def __init__(self, storage: Storage):
        self._storage = storage

    @cached_property
    def _place(self) -> Path:
        return place_of(self._storage)

    @property
    def is_there(self) -> bool:
        """Whether somebody answers."""
        with suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self._place))
            return True
        return False

    def task_names(self, sub: int) -> list[str]:
        """Return the tasks of a sub-topology; none if the program has ended."""
        answer = self.ask(StoreQuestion("", str(sub), _TASKS))
        return from_msgpack(answer.rows, list[str]) if answer.is_here else []

    def ask(self, question: StoreQuestion) -> StoreAnswer:
        """Return the answer to a question; that the task is not there if the program has ended."""
        try:
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(_SECONDS)
                asking.connect(str(self._place))
                _send(asking, msgspec.msgpack.encode(question))
                return from_msgpack(_received(asking), StoreAnswer)
        except (OSError, ValueError):
            return StoreAnswer(False)


def _send(to: socket.socket, data: bytes) -> None:
    to.sendall(len(data).to_bytes(_LENGTH, "big") + data)


def _received(link: socket.socket, most: int | None = None) -> bytes:
    length = int.from_bytes(_exactly(link, _LENGTH), "big")
    if most is not None and length > most:
        raise ValueError("the question is too long")
    return _exactly(link, length)


def _exactly(link: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0:
        part = link.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the other side has gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)

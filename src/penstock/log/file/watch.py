"""Waits for appends with notifications of the system (Linux's inotify), and polls for those of other machines."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.log.watch import LookingWatch, TopicWatch
from penstock.storage.base import TEMPORARY

if TYPE_CHECKING:
    from penstock.log.base import Log

_APPEARS = 0x00000080 | 0x00000100  # IN_MOVED_TO, IN_CREATE
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_LOOK_SECONDS = 0.25
"""A folder that several machines share reports this machine's appends only."""
_MANY_BYTES = 1 << 16
_EVENT = struct.Struct("iIII")
_TEMPORARY = TEMPORARY.encode()


class FolderWatch(TopicWatch):
    """Waits until files appear in folders.

    Raises:
        OSError: the system has no notifications, or its limit of watched folders is reached.
    """

    def __init__(self, log: Log, topics: Sequence[str], folders: Sequence[Path]):
        self._closing = threading.Lock()
        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "inotify_init1"):
            raise OSError("this system has no inotify")
        self._told = library.inotify_init1(_FLAGS)
        self._read, self._write = os.pipe2(_FLAGS) if self._told >= 0 else (-1, -1)
        try:
            for folder in folders:
                if library.inotify_add_watch(self._told, os.fsencode(folder), _APPEARS) < 0:
                    raise OSError(ctypes.get_errno(), f"cannot watch {folder}")
        except OSError:
            self.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._told, select.POLLIN)
        self._poll.register(self._read, select.POLLIN)
        self._looks = LookingWatch(log, topics)

    def wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if self._poll.poll(min(left, _LOOK_SECONDS) * 1000):
                if self._is_woken() | self._was_told():
                    return
            elif self._looks.has_more():
                return

    def _is_woken(self) -> bool:
        try:
            return bool(os.read(self._read, _MANY_BYTES))
        except BlockingIOError:
            return False

    def _was_told(self) -> bool:
        """Return whether an entry has appeared, and not just its temporary file."""
        appeared = False
        try:
            while events := os.read(self._told, _MANY_BYTES):
                appeared = appeared or any(not name.startswith(_TEMPORARY) for name in _names(events))
        except BlockingIOError:
            pass
        return appeared

    def wake(self) -> None:
        with self._closing:
            if self._write >= 0:
                try:
                    os.write(self._write, b".")
                except BlockingIOError:  # it is awake already
                    pass

    def close(self) -> None:
        with self._closing:
            for descriptor in (self._told, self._read, self._write):
                if descriptor >= 0:
                    os.close(descriptor)
            self._told = self._read = self._write = -1


def _names(events: bytes) -> Iterator[bytes]:
    """Yield the file names in events; an event without a name means that events were lost."""
    at = 0
    while at < len(events):
        *_, length = _EVENT.unpack_from(events, at)
        at += _EVENT.size
        yield events[at : at + length]
        at += length


def watch(log: Log, topics: Sequence[str], folders: Sequence[Path]) -> TopicWatch:
    """Return the best available watch for appends."""
    try:
        for folder in folders:
            folder.mkdir(exist_ok=True)  # a topic without any write has none
        return FolderWatch(log, topics, folders)
    except OSError:
        return LookingWatch(log, topics)

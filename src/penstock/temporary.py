"""Folders for files of this process only. Each is locked for as long as its process lives. So what a killed process has
left is told from what another one works with, and is removed by the next process that makes such a folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.plain_files import remove_tree

_NAME = re.compile(r"penstock\.[a-z]+\.[0-9a-z_]{8}", re.ASCII)
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_held: dict[Path, int] = {}
_lock = threading.Lock()
_has_swept: set[str] = set()


def folder(kind: str) -> Path:
    """A new folder, named after what it is for. What killed processes have left of such folders goes before, once.

    >>> own = folder("example")
    >>> own.is_dir(), own in sweep()
    (True, False)
    >>> remove(own)
    >>> own.exists()
    False
    """
    place = tempfile.gettempdir()
    with _lock:
        if place not in _has_swept:
            _has_swept.add(place)
            sweep()
        made = Path(tempfile.mkdtemp(prefix=f".penstock.{kind}."))
        path = made.with_name(made.name.removeprefix("."))
        descriptor = os.open(made, _OPEN)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            made.rename(path)  # nobody takes it for one that was left before it is locked
        except OSError:  # a file system without locks: nobody is to take it for one that was left
            path = made
        _held[path] = descriptor
    return path


def lock_of(path: Path) -> int:
    """The descriptor that holds a folder; a process that inherits it holds the folder as well."""
    return _held[path]


def remove(path: Path) -> None:
    """Remove a folder of this process with all that is in it."""
    remove_tree(path)
    with _lock:
        descriptor = _held.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


@contextmanager
def within(kind: str) -> Iterator[Path]:
    """A folder that is removed when the context ends."""
    path = folder(kind)
    try:
        yield path
    finally:
        remove(path)


def sweep() -> list[Path]:
    """Remove the folders of this user whose processes are gone; which ones."""
    gone = []
    for path in sorted(Path(tempfile.gettempdir()).glob("penstock.*.*")):
        if _NAME.fullmatch(path.name):
            with suppress(OSError):  # it is in use, or no folder
                if _is_left(path):
                    remove_tree(path)
                    gone.append(path)
    return gone


def _is_left(path: Path) -> bool:
    """Whether nobody holds a folder of this user any more; raises ``OSError`` when somebody does."""
    descriptor = os.open(path, _OPEN)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(descriptor).st_uid == os.getuid()
    finally:
        os.close(descriptor)

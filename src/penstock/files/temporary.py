"""Temporary folders of this process only. Each is locked while its process lives. So the folder of a killed process
differs from one in use, and the next process that makes such a folder removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.files.plain_files import remove_tree

_NAME = re.compile(r"penstock\.[a-z]+\.[0-9a-z_]{8}", re.ASCII)
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_MADE_SECONDS = 60.0
"""Time between making a folder and locking it, at most; longer than that, its process was killed in between."""

_held: dict[Path, int] = {}
_lock = threading.Lock()
_has_swept: set[str] = set()


def folder(kind: str) -> Path:
    """Return a new folder, named after its purpose. The first call removes leftovers of killed processes.

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
            made.rename(path)  # renamed only once it is locked, so that it never looks like a leftover
        except OSError:  # a file system without locks: it must not look like a leftover
            path = made
        _held[path] = descriptor
    return path


def lock_of(path: Path) -> int:
    """Return the descriptor that holds a folder; a process that inherits it holds the folder as well."""
    return _held[path]


def remove(path: Path) -> None:
    """Remove a folder of this process with its contents."""
    remove_tree(path)
    with _lock:
        descriptor = _held.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


@contextmanager
def within(kind: str) -> Iterator[Path]:
    """Yield a folder that is removed when the context ends."""
    path = folder(kind)
    try:
        yield path
    finally:
        remove(path)


def sweep() -> list[Path]:
    """Remove the folders of this user whose processes are gone. Return them."""
    gone = []
    place = Path(tempfile.gettempdir())
    for path in sorted([*place.glob("penstock.*.*"), *place.glob(".penstock.*.*")]):
        if _NAME.fullmatch(path.name.removeprefix(".")):
            with suppress(OSError):  # it is in use, or no folder
                if not (path.name.startswith(".") and _is_new(path)) and _is_left(path):
                    remove_tree(path)
                    gone.append(path)
    return gone


def _is_new(path: Path) -> bool:
    """Return whether a folder may be about to be locked by the process that makes it."""
    return time.time() - path.lstat().st_mtime < _MADE_SECONDS


def _is_left(path: Path) -> bool:
    """Return whether a folder of this user is no longer held; raises ``OSError`` if it is."""
    descriptor = os.open(path, _OPEN)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(descriptor).st_uid == os.getuid()
    finally:
        os.close(descriptor)

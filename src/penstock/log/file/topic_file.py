"""``topic.json``: what a topic is and which one, with a checksum, written once. It is also what a topic is held by.

Whoever appends to a topic holds it meanwhile, and whoever removes it waits until nobody does. So an append goes into
the topic that it was meant for or fails, and never makes half a topic of a folder that is gone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from penstock.errors import CorruptDataError, LogError
from penstock.log.contract.topics import TopicInfo
from penstock.plain_files import open_plain, read_plain
from penstock.storage import checksum, create_file

_PATIENCE = 10.0
"""Seconds to wait for those who hold a topic."""
_PAUSE = 0.005
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""What file systems say that have no locks."""


class TopicFile(TopicInfo, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A topic's description as it lies on disk."""

    id: str = ""
    """Tells it from other topics of its name; empty in files older than ids, and in those written by hand."""
    checksum: int = -1
    """That of the rest; -1 in a file that somebody wrote by hand."""

    def info(self) -> TopicInfo:
        return msgspec.convert(msgspec.structs.asdict(self), TopicInfo)


class FileIdentity(NamedTuple):
    """What tells a file from one that was later made in its place."""

    inode: int
    mtime_ns: int


def create_topic_file(path: Path, info: TopicInfo) -> bool:
    """Write down what a topic is; False when it exists already."""
    new = TopicFile(**msgspec.structs.asdict(info), id=os.urandom(8).hex())
    return create_file(path, msgspec.json.encode(msgspec.structs.replace(new, checksum=_checksum(new))))


def read_topic_file(path: Path) -> TopicFile:
    """What a topic is; raises ``CorruptDataError``, and ``FileNotFoundError`` when there is no such topic."""
    try:
        stored = msgspec.json.decode(read_plain(path), type=TopicFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from None
    if stored.checksum not in (-1, _checksum(stored)):
        raise _damaged(path, "its checksum does not match")
    return stored


def file_identity(path: Path) -> FileIdentity | None:
    """The identity of a topic's file; None when there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return FileIdentity(found.st_ino, found.st_mtime_ns)


@contextmanager
def held(path: Path, alone: bool = False) -> Iterator[FileIdentity]:
    """Hold a topic by its file; the identity of what is held.

    Args:
        path: the topic's file.
        alone: whether nobody else may hold it, as for removing it.

    Raises:
        FileNotFoundError: there is no such topic.
        LogError: others do not let go of it.
    """
    while True:
        descriptor = open_plain(path, os.O_RDWR if alone else os.O_RDONLY, is_alone=False)
        with open(descriptor, "r+b" if alone else "rb") as file:
            _lock(file, path, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            status = os.fstat(file.fileno())
            identity = FileIdentity(status.st_ino, status.st_mtime_ns)
            if identity == file_identity(path):  # else it was removed while this waited for the lock
                yield identity
                return


def _lock(file: Any, path: Path, how: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LogError(
                    f"topic {path.parent.name!r} is held by another program, which writes into it or removes it, for "
                    f"{_PATIENCE:.0f} s; nothing was changed. Stop that program and try again"
                ) from None
            time.sleep(_PAUSE)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return
            raise


def _checksum(stored: TopicFile) -> int:
    return checksum(msgspec.json.encode(msgspec.structs.replace(stored, checksum=-1)))


def _damaged(path: Path, reason: Any) -> CorruptDataError:
    return CorruptDataError(f"{path} is damaged: {reason}; restore it from a backup")

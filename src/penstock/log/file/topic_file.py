"""``topic.json``: the description and id of a topic, with a checksum, written once. It also serves as the topic's lock.

A program that appends to a topic holds the lock meanwhile, and a program that removes the topic waits for it. So an
append goes into the topic that it was meant for or fails, and never leaves half a topic in a removed folder.
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
from penstock.files.plain_files import open_plain, read_plain
from penstock.log.contract.topics import TopicInfo
from penstock.storage.base import checksum, create_file
from penstock.values.decoding import converted, from_json

_PATIENCE = 10.0
"""Seconds to wait for other holders of a topic."""
_PAUSE = 0.005
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""Errors of file systems without locks."""


class TopicFile(TopicInfo, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A topic's description as stored on disk."""

    id: str = ""
    """Distinguishes it from other topics of its name; empty in files older than ids, and in those written by hand."""
    checksum: int = -1
    """Checksum of the rest; -1 in a file written by hand."""

    def info(self) -> TopicInfo:
        return converted(msgspec.structs.asdict(self), TopicInfo)


class FileIdentity(NamedTuple):
    """Distinguishes a file from a later one at the same path."""

    inode: int
    mtime_ns: int


def create_topic_file(path: Path, info: TopicInfo) -> bool:
    """Write the description of a topic. Return False if it exists already."""
    new = TopicFile(**msgspec.structs.asdict(info), id=os.urandom(8).hex())
    return create_file(path, msgspec.json.encode(msgspec.structs.replace(new, checksum=_checksum(new))))


def read_topic_file(path: Path) -> TopicFile:
    """Return the description of a topic. Raise ``CorruptDataError``, and ``FileNotFoundError`` if the topic does not
    exist.
    """
    try:
        stored = from_json(read_plain(path), TopicFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from None
    if stored.checksum not in (-1, _checksum(stored)):
        raise _damaged(path, "its checksum does not match")
    return stored


def file_identity(path: Path) -> FileIdentity | None:
    """Return the identity of a topic's file; None if it does not exist."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return FileIdentity(found.st_ino, found.st_mtime_ns)


@contextmanager
def held(path: Path, alone: bool = False) -> Iterator[FileIdentity]:
    """Hold a topic by locking its file. Yield the identity of the held topic.

    Args:
        path: the topic's file.
        alone: whether to exclude all other holders, as for removing it.

    Raises:
        FileNotFoundError: the topic does not exist.
        LogError: others do not release it.
    """
    while True:
        descriptor = open_plain(path, os.O_RDWR if alone else os.O_RDONLY, is_alone=False)
        with open(descriptor, "r+b" if alone else "rb") as file:
            _lock(file, path, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            status = os.fstat(file.fileno())
            identity = FileIdentity(status.st_ino, status.st_mtime_ns)
            if identity == file_identity(path):  # otherwise it was removed while this waited for the lock
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

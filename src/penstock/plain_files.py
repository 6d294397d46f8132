"""Opening files that others may have replaced: nothing is written through a link, and nothing but a file is waited for.

Who may write into a log or a checkpoint can put a link where a file belongs, and have a program write what the link
leads to; or a named pipe, which keeps whoever opens it waiting for ever. So files are opened here, without waiting, and
looked at before anything is read or written.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from penstock.errors import CorruptDataError

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)
"""What the system says instead of opening a link, a folder, a pipe that nobody reads, or a socket."""


def read_plain(path: Path) -> bytes:
    """All bytes of a file.

    Raises:
        FileNotFoundError: there is nothing.
        CorruptDataError: there is something else than a file.

    >>> import tempfile
    >>> pipe = Path(tempfile.mkdtemp(), "entry")
    >>> os.mkfifo(pipe)
    >>> read_plain(pipe)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penstock.errors.CorruptDataError: .../entry is a named pipe, and a file belongs there. Nothing was read or ...
    """
    with open(open_plain(path, os.O_RDONLY), "rb") as file:
        return file.read()


def open_plain(path: Path, flags: int, is_alone: bool = True) -> int:
    """The descriptor of a file, which the caller closes. A file that is to be written must have this name only, and be
    no link: what it leads to may be somebody else's.

    Args:
        is_alone: whether it must have this name only; a back-up may share files that are never written any more.

    Raises:
        OSError: as ``os.open``.
        CorruptDataError: it is something else than a file, or a link and to be written.
    """
    writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if writes else 0), 0o666)
    except FileNotFoundError:
        if os.path.islink(path):
            raise _not_plain(path, "a symbolic link that leads nowhere") from None
        raise
    except OSError as error:
        if error.errno in _NO_FILE:
            raise _not_plain(path, kind_of(path) or "no file") from None
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and not (writes and is_alone and found.st_nlink > 1):
        return descriptor
    os.close(descriptor)
    raise _not_plain(path, _KINDS.get(stat.S_IFMT(found.st_mode), "a file that has another name as well (a hard link)"))


def new_file(path: Path) -> int:
    """The descriptor of a file that is made here, in place of what may have been left under its name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError:
        os.unlink(path)
        return os.open(path, flags, 0o666)


def check_appendable(path: Path) -> None:
    """Make sure that a library can append to a file, or make it, without writing what is somebody else's. A file that
    has another name as well keeps that one, and is made anew under this one.

    Raises:
        OSError: as ``os.open``.
        CorruptDataError: it is a link, or something else than a file.
    """
    os.close(open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, is_alone=False))
    if os.lstat(path).st_nlink > 1:
        os.close(new_file(path))


def check_readable(path: Path, mode: int) -> None:
    """Raise ``CorruptDataError`` unless this is the mode of a file: for those who have libraries open it."""
    if not stat.S_ISREG(mode):
        raise _not_plain(path, _KINDS.get(stat.S_IFMT(mode), "no file"))


def kind_of(path: Path) -> str:
    """What there is if it is not a file, as people call it; empty for files, and where there is nothing."""
    with suppress(OSError):
        return _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "")
    return ""


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it, or what is there instead; a link, and not what it leads to."""
    if kind_of(path) == "a folder":
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _not_plain(path: Path, kind: str) -> CorruptDataError:
    return CorruptDataError(
        f"{path} is {kind}, and a file belongs there. Nothing was read or written there. Remove it, and bring the file "
        "back from a backup if there was one"
    )

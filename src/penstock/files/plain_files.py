"""Opens files that others may have replaced: never writes through a link, and never waits for anything but a file.

A user who may write into a log or a checkpoint can put a link in a file's place, so that a program writes the link's
target. A named pipe there would block a program that opens it forever. So files are opened here without waiting, and
checked before anything is read or written.
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
_NOWHERE = "a symbolic link that leads nowhere"
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)
"""The system's errors for opening a link, a folder, a pipe without a reader, or a socket."""


def read_plain(path: Path) -> bytes:
    """Return all bytes of a file.

    Raises:
        FileNotFoundError: it does not exist.
        CorruptDataError: something other than a file is there.

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
    """Return the descriptor of a file, which the caller closes.

    A file to be written must have this name only, and be no link, because a link's target may belong to others.

    Args:
        is_alone: whether it must have this name only. A back-up may share files that are no longer written.

    Raises:
        OSError: as for ``os.open``.
        CorruptDataError: it is no file, or a link that would be written.
    """
    writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if writes else 0), 0o666)
    except FileNotFoundError:
        if os.path.islink(path):
            raise _not_plain(path, _NOWHERE) from None
        raise
    except OSError as error:
        if error.errno == errno.ENOTDIR or (error.errno == errno.ELOOP and not writes):
            raise _not_reached(path, error) from None
        kind = kind_of(path)
        if error.errno in _NO_FILE or (error.errno == errno.EACCES and kind == "a device"):  # mounted without devices
            raise _not_plain(path, kind or "no file") from None
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and not (writes and is_alone and found.st_nlink > 1):
        return descriptor
    os.close(descriptor)
    raise _not_plain(path, _KINDS.get(stat.S_IFMT(found.st_mode), "a file that has another name as well (a hard link)"))


def new_file(path: Path) -> int:
    """Return the descriptor of a new file, which replaces any leftover of its name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError:
        os.unlink(path)
        return os.open(path, flags, 0o666)


def check_appendable(path: Path) -> None:
    """Ensure that a library can append to a file, or create it, without writing files of others.

    A file with another hard link keeps that one, and is created again under this name.

    Raises:
        OSError: as for ``os.open``.
        CorruptDataError: it is a link, or no file.
    """
    os.close(open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, is_alone=False))
    if os.lstat(path).st_nlink > 1:
        os.close(new_file(path))


def readable_bytes(path: Path) -> int:
    """Return the size of a file that a library will open.

    Raises:
        OSError: as for ``os.stat``.
        CorruptDataError: it is no file, a link that leads nowhere or to itself, or below something that is no folder.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        if os.path.islink(path):
            raise _not_plain(path, _NOWHERE) from None
        raise
    except OSError as error:
        raise _not_reached(path, error) from None
    if not stat.S_ISREG(found.st_mode):
        raise _not_plain(path, _KINDS.get(stat.S_IFMT(found.st_mode), "no file"))
    return found.st_size


def kind_of(path: Path) -> str:
    """Return the kind of a path that is not a file, in words; empty for files and missing paths."""
    with suppress(OSError):
        return _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "")
    return ""


def remove_tree(path: Path) -> None:
    """Remove a folder with its contents, or anything else in its place; of a link, only the link."""
    if kind_of(path) == "a folder":
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _not_reached(path: Path, error: OSError) -> Exception:
    """Return the error for a path whose links lead in a circle, or through something that is no folder."""
    if error.errno == errno.ELOOP:
        cycle = next((one for one in reversed(path.parents) if one.is_symlink() and not one.exists()), path)
        return _not_plain(cycle, "a symbolic link that leads to itself")
    if error.errno != errno.ENOTDIR:
        return error
    in_the_way = next((one for one in reversed(path.parents) if not one.is_dir()), path.parent)
    kind = kind_of(in_the_way) or "a file"
    return CorruptDataError(
        f"{in_the_way} is {kind}, and a folder belongs there. Nothing was read or written there. Remove it, and bring "
        "the folder back from a backup if there was one"
    )


def _not_plain(path: Path, kind: str) -> CorruptDataError:
    return CorruptDataError(
        f"{path} is {kind}, and a file belongs there. Nothing was read or written there. Remove it, and bring the file "
        "back from a backup if there was one"
    )

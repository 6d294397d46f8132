"""What may stand in the place of a file, made by somebody who may write into the folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

Make = Callable[[Path, Path], None]
"""Makes it at a path; the second one is a file that must not be written, for links."""


def pipe(path: Path, precious: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, precious: Path) -> None:
    path.mkdir()


def socket(path: Path, precious: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o666)  # as one that was bound and left


def device(path: Path, precious: Path) -> None:
    """One that never ends when it is read, and refuses to be written: /dev/full, or a link to it for who may not."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except PermissionError:
        path.symlink_to("/dev/full")


def link_to_device(path: Path, precious: Path) -> None:
    path.symlink_to("/dev/full")


def link(path: Path, precious: Path) -> None:
    path.symlink_to(precious)


def hard_link(path: Path, precious: Path) -> None:
    path.hardlink_to(precious)


def link_to_nothing(path: Path, precious: Path) -> None:
    path.symlink_to(precious.with_name("made"))


SPECIAL: dict[Make, str] = {
    pipe: "a named pipe",
    folder: "a folder",
    socket: "a socket",
    device: "a device",
    link_to_device: "a device",
}
"""What is no file, and what it is called in messages."""
LINKS: list[Make] = [link, hard_link, link_to_nothing]

"""Detects folders that other machines may have open: files removed there disappear for their readers."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_EXPORTS = Path("/proc/fs/nfsd/exports")
"""The NFS exports of this machine."""
_OF_THIS_MACHINE = (
    *("bcachefs", "btrfs", "ext2", "ext3", "ext4", "exfat", "f2fs", "jfs", "ntfs3", "overlay", "ramfs", "reiserfs"),
    *("tmpfs", "vfat", "xfs", "zfs"),
)
"""File systems that belong to one machine; an open file stays readable after its removal."""


@lru_cache(maxsize=1024)
def is_shared(folder: str) -> bool:
    """Return whether several machines may see a folder, as far as the system tells; True if in doubt.

    >>> is_shared("/proc/self")
    True
    """
    try:
        exports = _EXPORTS.read_text()
    except OSError:
        exports = ""
    is_server = any(not line.startswith("#") for line in exports.splitlines())
    return is_server or _type_of(os.path.realpath(folder)) not in _OF_THIS_MACHINE


def _type_of(path: str) -> str:
    """Return the type of the file system of a path; empty if the system does not tell."""
    best, found = "", ""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        _, escaped, kind, *_ = line.split(" ")
        at = escaped.encode().decode("unicode_escape").encode("latin-1").decode(errors="replace")
        is_above = path == at or path.startswith(at.rstrip("/") + "/")
        if is_above and len(at) >= len(best):
            best, found = at, kind
    return found

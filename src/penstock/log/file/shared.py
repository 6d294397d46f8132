"""Whether other machines may have files of a folder open: then a file that is removed vanishes from under them."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_EXPORTS = Path("/proc/fs/nfsd/exports")
"""What this machine gives to others, where it is a server of NFS."""
_OF_THIS_MACHINE = (
    *("bcachefs", "btrfs", "ext2", "ext3", "ext4", "exfat", "f2fs", "jfs", "ntfs3", "overlay", "ramfs", "reiserfs"),
    *("tmpfs", "vfat", "xfs", "zfs"),
)
"""File systems of which one machine has each; who has a file of theirs open keeps it when it is removed."""


@lru_cache(maxsize=1024)
def is_shared(folder: str) -> bool:
    """Whether several machines may see a folder, as far as the system tells; a doubt counts as yes.

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
    """The type of the file system that a path is on; empty where the system does not tell."""
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

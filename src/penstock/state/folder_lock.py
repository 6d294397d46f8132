"""Locks a task's folder for one process, also before its database is open and while it is rebuilt."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO, Any

from penstock.errors import StoreError
from penstock.files.plain_files import open_plain
from penstock.storage.base import cannot_write


class FolderLock:
    """A lock held from construction until ``release`` or the end of the process; its file is next to the folder.

    Args:
        folder: the task's folder, which need not exist.
        patience: seconds to wait for another process, such as one just killed, to release it.

    Raises:
        StoreError: another process does not release it.
    """

    def __init__(self, folder: Path, patience: float = 30.0):
        path = folder.with_name(f"{folder.name}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = lockable(path)
        except OSError as error:
            raise cannot_write(path, error) from error
        deadline = time.monotonic() + patience
        while not takes(self._file):
            if time.monotonic() > deadline:
                self._file.close()
                raise in_use(folder, patience)
            time.sleep(0.02)

    def release(self) -> None:
        self._file.close()


def lockable(path: Path) -> IO[Any]:
    """Open a lock file, creating it if missing; raise ``CorruptDataError`` if the path is not a file."""
    return open(open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, is_alone=False), "r+")


def takes(file: IO[Any]) -> bool:
    """Try to lock a file; return False if another process has it. Closing the file releases the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def in_use(folder: Path, patience: float) -> StoreError:
    """The error for a folder that another process holds."""
    return StoreError(
        f"the state database {folder} is in use by another process after {patience:g} s of waiting: "
        "stop the other program that runs under this application id"
    )

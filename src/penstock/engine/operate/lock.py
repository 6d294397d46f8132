"""Locks on one machine: one program for an application id, and one process for each of its slots.

Programs on different machines that share a checkpoint meet at the manifests: the second one to make a commit stops.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from penstock.errors import AlreadyRunningError, StoreError
from penstock.state.folder_lock import lockable, takes
from penstock.storage.base import cannot_write


class ApplicationLock:
    """Held from construction to ``release``; the system releases it when the process ends in any way.

    Raises:
        AlreadyRunningError: another process holds it.
    """

    def __init__(self, folder: Path, application_id: str):
        self._file = _opened(folder / "lock")
        if not takes(self._file):
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise AlreadyRunningError(
                f"application {application_id!r} is running already on this machine (process {holder}, in {folder}); "
                "stop it first, or give this program an application id of its own"
            )
        _say(self._file, str(os.getpid()))

    def release(self) -> None:
        self._file.close()


class SlotLock:
    """Held by the process that is a slot of a run, from construction to ``release`` or its end.

    When executors come and go, Spark may give a slot's next order to another process on the same machine, while the
    previous one still has its databases open and hears of nothing. So the process that gets an order for a slot kills
    the slot's previous process. The committed part of its state is in the delta files.

    Args:
        run: distinguishes one start of the application from any other. A slot of another run is waited for, not killed:
            it belongs to a program that is just being stopped or killed, or to a rival, who is fenced.
        patience: seconds to wait for the previous process to end.

    Raises:
        StoreError: the previous process does not end.
    """

    def __init__(self, folder: Path, slot: int, run: str, patience: float = 30.0):
        path = folder / str(slot)
        self._file = _opened(path)
        deadline = time.monotonic() + patience
        while not takes(self._file):
            self._file.seek(0)
            holders_run, _, pid = self._file.read().rpartition(" ")
            if holders_run == run and pid:
                _kill(int(pid))
            if time.monotonic() > deadline:
                self._file.close()
                raise StoreError(
                    f"slot {slot} of the application is still held by process {pid or 'unknown'} after {patience:g} s "
                    f"of waiting (lock {path}): stop the other program that runs under this application id"
                )
            time.sleep(0.02)
        try:
            _say(self._file, f"{run} {os.getpid()}")
        except OSError as error:
            with suppress(OSError):  # it is about to write the same again
                self._file.close()
            raise cannot_write(path, error) from error

    def release(self) -> None:
        self._file.close()


def _opened(path: Path) -> IO[Any]:
    """Open a file to lock, and create it with its folder if necessary."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return lockable(path)
    except OSError as error:
        raise cannot_write(path, error) from error


def _say(file: IO[Any], holder: str) -> None:
    """Write down who holds a lock, unless the file has another hard link and may belong to others."""
    if os.fstat(file.fileno()).st_nlink == 1:
        file.truncate(0)
        file.write(holder)
        file.flush()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass

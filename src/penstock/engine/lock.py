"""One program at a time under an application id, on one machine.

Programs on different machines that share a checkpoint meet at the manifests: whoever makes a commit second stops.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from penstock.errors import AlreadyRunningError
from penstock.storage import cannot_write


class ApplicationLock:
    """Held from construction to ``release``, and let go of by the system when the process ends in any way.

    Raises:
        AlreadyRunningError: another process holds it.
    """

    def __init__(self, folder: Path, application_id: str):
        path = folder / "lock"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+")  # noqa: SIM115 - held until release
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise AlreadyRunningError(
                f"application {application_id!r} is running already on this machine (process {holder}, in {folder}); "
                "stop it first, or give this program an application id of its own"
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        self._file.close()

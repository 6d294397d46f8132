"""Disks on this machine: file systems of their own, in files, that can be filled, and that can stand still."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

_BLOCK = 1 << 16


def why_not() -> str:
    """Why there can be none here; empty where there can."""
    for command in ("mkfs.ext4", "mount", "fsfreeze"):
        if shutil.which(command) is None:
            return f"the command `{command}` is not installed"
    if os.geteuid() != 0:
        return "mounting needs root"
    with tempfile.TemporaryDirectory() as name:
        disk = Disk(Path(name, "try"), 4)
        try:
            with disk:
                disk.freeze()
        except (subprocess.CalledProcessError, OSError) as error:
            return str(getattr(error, "stderr", "") or error).strip()
    return ""


class Disk:
    """A disk of so many megabytes, at a folder that is made for it; it is gone when the context ends."""

    def __init__(self, folder: Path, megabytes: int):
        self.folder = folder
        self._image = folder.with_name(f"{folder.name}.disk")
        self._bytes = megabytes << 20
        self._filler = folder / "filler"
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Disk:
        self.folder.mkdir(parents=True)
        with open(self._image, "wb") as image:
            image.truncate(self._bytes)
        _run("mkfs.ext4", "-q", "-m", "0", str(self._image))
        _run("mount", "-o", "loop", str(self._image), str(self.folder))
        return self

    def __exit__(self, *error: object) -> None:
        self.be_as_ever()
        subprocess.run(["fsfreeze", "-u", str(self.folder)], capture_output=True)
        subprocess.run(["umount", "--lazy", str(self.folder)], capture_output=True)
        self._image.unlink()

    def fill(self) -> None:
        """Leave no room on it, not even what the file system finds when it has written everything."""
        with open(self._filler, "wb", buffering=0) as file:
            while self._fill_with(file):
                os.fsync(file.fileno())

    @staticmethod
    def _fill_with(file: Any) -> int:
        """Write until there is no room; how many bytes there were."""
        written = 0
        with suppress(OSError):
            while count := file.write(bytes(_BLOCK)):
                written += count
        return written

    def make_room(self) -> None:
        self._filler.unlink()

    def freeze(self) -> None:
        """Whoever writes waits, until ``thaw``."""
        _run("fsfreeze", "-f", str(self.folder))

    def thaw(self) -> None:
        _run("fsfreeze", "-u", str(self.folder))

    def be_slow(self, stands: float, works: float) -> None:
        """From now on it stands still for so many seconds, and works for so many, and so on."""

        def go_on() -> None:
            while not self._is_over.is_set():
                self.freeze()
                self._is_over.wait(stands)
                self.thaw()
                self._is_over.wait(works)

        self._is_over.clear()
        self._thread = threading.Thread(target=go_on, daemon=True)
        self._thread.start()

    def be_as_ever(self) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)

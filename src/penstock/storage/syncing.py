"""Makes files durable together: a disk takes hardly longer for all files of a commit than for one of them.

A disk that answers at once is asked for one file after the other, because threads would cost more than they save.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

_AT_ONCE = 4
_AT_ONCE_SECONDS = 0.0005
"""A disk that takes longer for a file is asked for several at the same time."""

_of_thread = threading.local()


class SyncTogether:
    """Gathers written files, and makes them durable before anything depends on them.

    >>> import tempfile
    >>> path, together = Path(tempfile.mkdtemp(), "file"), SyncTogether()
    >>> _ = path.write_bytes(b"content")
    >>> with together.gathering():
    ...     is_durable_later(path)
    True
    >>> together.sync()
    >>> is_durable_later(path)
    False
    """

    def __init__(self) -> None:
        self._files: list[Path] = []
        self._threads: ThreadPoolExecutor | None = None
        self._is_slow = False
        """Whether the disk took long for the last file that this thread waited for."""

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """While the context lasts, files that this thread finishes are made durable by the next ``sync``."""
        _of_thread.gathers = self
        try:
            yield
        finally:
            _of_thread.gathers = None

    def add(self, file: Path) -> None:
        self._files.append(file)

    def sync(self) -> None:
        """Make the gathered files and their names durable; raises ``OSError``."""
        files, self._files = self._files, []
        self._all([*files, *{file.parent for file in files}])

    def _all(self, paths: Iterable[Path]) -> None:
        waiting = [*paths]
        under_way: list[Future[None]] = []
        while waiting:
            path = waiting.pop(0)
            if self._is_slow:
                under_way += self._at_once(waiting)
                waiting.clear()
            began = time.monotonic()
            _sync(path)
            self._is_slow = time.monotonic() - began > _AT_ONCE_SECONDS
        for one in under_way:
            one.result()

    def _at_once(self, paths: list[Path]) -> list[Future[None]]:
        """Begin to make files durable at the same time."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_AT_ONCE, "penstock-sync")
        return [self._threads.submit(_sync, path) for path in paths]

    def close(self) -> None:
        """Stop the threads."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


class _Passing:
    """Takes files that need not be durable."""

    def add(self, file: Path) -> None:
        pass


@contextmanager
def passing() -> Iterator[None]:
    """While the context lasts, files that this thread finishes need not be durable: only this run uses them."""
    before = getattr(_of_thread, "gathers", None)
    _of_thread.gathers = _Passing()
    try:
        yield
    finally:
        _of_thread.gathers = before


def is_durable_later(file: Path) -> bool:
    """Return whether this thread gathers files, and has taken this one."""
    gathers: SyncTogether | _Passing | None = getattr(_of_thread, "gathers", None)
    if gathers is not None:
        gathers.add(file)
    return gathers is not None


def sync_path(path: Path) -> None:
    """Make a file's bytes, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    with suppress(FileNotFoundError):  # its topic was removed meanwhile, and its append will fail
        sync_path(path)

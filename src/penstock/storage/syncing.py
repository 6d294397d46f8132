"""Makes files durable together: a disk takes hardly longer for all files of a commit than for one of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

_AT_ONCE = 4

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
        first, others = (every := [*paths])[:1], every[1:]
        if others and self._threads is None:
            self._threads = ThreadPoolExecutor(_AT_ONCE, "penstock-sync")
        under_way = [self._threads.submit(_sync, path) for path in others] if self._threads is not None else []
        for path in first:
            _sync(path)
        for one in under_way:
            one.result()

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

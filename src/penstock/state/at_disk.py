"""Reports when this process waits for its disk, and so cannot answer. RocksDB calls hold Python's lock. While a write
waits, no other thread runs, not even the thread that reports that the process is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable


class AtDisk:
    """A context for disk operations that may take long. ``tell`` is called when the first one begins, in any thread,
    and when the last one ends.

    >>> at_disk = AtDisk()
    >>> at_disk.tell = print
    >>> with at_disk, at_disk:
    ...     pass
    True
    False
    """

    def __init__(self) -> None:
        self.tell: Callable[[bool], object] | None = None
        self._count = 0
        self._counting = threading.Lock()

    def __enter__(self) -> None:
        self._move(1)

    def __exit__(self, *error: object) -> None:
        self._move(-1)

    def _move(self, by: int) -> None:
        with self._counting:
            before, self._count = self._count, self._count + by
            if 0 in (before, self._count) and self.tell is not None:
                self.tell(self._count > 0)


at_disk = AtDisk()
"""The context of this process."""

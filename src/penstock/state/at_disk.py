"""Where this process waits for its disk, and may be unable to say anything meanwhile: RocksDB is called under Python's
lock, so while a write waits no other thread gets on, that one included which says that the process is there."""

from __future__ import annotations

import threading
from collections.abc import Callable


class AtDisk:
    """A context in which the disk may take its time; ``tell`` hears of the first that begins, of any thread, and of the
    end of the last one.

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
"""That of this process."""

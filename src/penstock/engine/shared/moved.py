"""When an application last made progress: with a commit, or within a long one. A file of the checkpoint, named after
the time, tells other programs; the running program keeps the time in memory.
"""

from __future__ import annotations

import time
from contextlib import suppress

from penstock.errors import PenstockError
from penstock.storage.base import Storage, number_in
from penstock.values.times import wall_clock_ms

MOVED = "moved"
NOTE_SECONDS = 5.0
"""How often a running commit's progress is written down; shorter commits write nothing."""


class Moved:
    """Records progress.

    Args:
        storage: the checkpoint's storage.
    """

    def __init__(self, storage: Storage):
        self._storage = storage
        self.at = 0
        """The wall clock in ms of the last progress; 0 before the first."""
        self._noted = time.monotonic()
        self._name = ""

    def committed(self) -> None:
        """Record a commit, whose manifest tells other programs."""
        self.at, self._noted = wall_clock_ms(), time.monotonic()

    def note(self) -> None:
        """Record that work progresses, or waits as it should."""
        self.at = wall_clock_ms()
        if time.monotonic() - self._noted < NOTE_SECONDS:
            return
        self._noted = time.monotonic()
        with suppress(PenstockError, OSError):  # the commit will tell
            before, self._name = self._name, f"{MOVED}/{self.at:016d}.ms"
            self._storage.create(self._name, b"")
            for name in [before] if before else self._storage.list(MOVED):
                if name != self._name:
                    self._storage.delete(name)


def last_moved(storage: Storage) -> int:
    """Return when an application last made progress within a commit, in ms; 0 if that was never written down."""
    return max((number for name in storage.list(MOVED) if (number := number_in(name)) is not None), default=0)

"""When an application last moved: with a commit, or within one that takes long. Whoever looks from outside is told by a
file of the checkpoint, whose name is the time; whoever runs the application knows it better."""

from __future__ import annotations

import time
from contextlib import suppress

from penstock.errors import PenstockError
from penstock.storage import Storage, number_in
from penstock.times import wall_clock_ms

MOVED = "moved"
NOTE_SECONDS = 5.0
"""So often a commit under way is written down to go on; shorter ones are not."""


class Moved:
    """Notes that something moves.

    Args:
        storage: that of the checkpoint.
    """

    def __init__(self, storage: Storage):
        self._storage = storage
        self.at = 0
        """When something last moved, by the wall clock in ms; 0 before that."""
        self._noted = time.monotonic()
        self._name = ""

    def committed(self) -> None:
        """A commit was made, which says so itself."""
        self.at, self._noted = wall_clock_ms(), time.monotonic()

    def note(self) -> None:
        """Something has moved, or waits for what it is to wait for."""
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
    """When the application of a checkpoint last moved within a commit, in ms; 0 where nobody has written that down."""
    return max((number for name in storage.list(MOVED) if (number := number_in(name)) is not None), default=0)

"""How far this process has come in a chunk: for whoever asks whether anything moves, at no cost for a record."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any


class Moving:
    """What a process has done since it began.

    >>> moving = Moving()
    >>> results = moving.through([])
    >>> before = moving.place()
    >>> results.append("one more")
    >>> moving.place() == before
    False
    """

    def __init__(self) -> None:
        self.steps = 0
        """Chunks, and records where they go one by one."""
        self._results: Sized = ()

    def through(self, results: list[Any]) -> list[Any]:
        """A loop over records begins; its list of results grows with each."""
        self.steps += 1
        self._results = results
        return results

    def place(self) -> tuple[int, int]:
        """Another one than before where something has moved."""
        return self.steps, len(self._results)


moving = Moving()
"""That of this process."""

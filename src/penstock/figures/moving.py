"""This process's progress within a chunk, to detect whether work moves, without a cost per record."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any


class Moving:
    """The progress of a process since it began.

    >>> moving = Moving()
    >>> results = moving.through([])
    >>> before = moving.place()
    >>> results.append("one more")
    >>> moving.place() == before
    False
    """

    def __init__(self) -> None:
        self.steps = 0
        """Counts chunks, and records where they go one by one."""
        self._results: Sized = ()

    def through(self, results: list[Any]) -> list[Any]:
        """Note that a loop over records begins, whose list of results grows with each record."""
        self.steps += 1
        self._results = results
        return results

    def place(self) -> tuple[int, int]:
        """Return a value that changes when work has moved."""
        return self.steps, len(self._results)


moving = Moving()
"""The progress of this process."""

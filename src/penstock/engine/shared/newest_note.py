"""A note in the checkpoint that the next one replaces: a small file in a folder of its own, named by its time."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Generic, TypeVar

from penstock.errors import CorruptDataError
from penstock.storage.base import Storage, number_in, seal, unseal
from penstock.values.times import wall_clock_ms

Note = TypeVar("Note")

_SECONDS = 2.0
"""How often notes are written that nothing depends on."""


class NewestNote(Generic[Note]):
    """The notes in one folder, of which the newest one counts.

    Args:
        kind: the type of the notes.
    """

    def __init__(self, storage: Storage, folder: str, kind: type[Note]):
        self._storage = storage
        self._folder = folder
        self._written_at = float("-inf")
        self._files = sorted(one for one in storage.list(folder) if number_in(one) is not None)
        self.written = self._read(kind)
        """The newest note that can be read, or None."""

    def _read(self, kind: type[Note]) -> Note | None:
        for file in reversed(self._files):
            with suppress(FileNotFoundError, CorruptDataError):
                return unseal(self._storage.read(file), kind, f"{self._storage.shown}/{file}")
        return None

    @property
    def is_due(self) -> bool:
        """Whether the last one was written some seconds ago."""
        return time.monotonic() - self._written_at >= _SECONDS

    def write(self, note: Note) -> None:
        """Replace the newest note, unless it says the same."""
        if note == self.written:
            return
        last = number_in(self._files[-1]) if self._files else None
        name = f"{self._folder}/{max(wall_clock_ms(), (last or 0) + 1):016d}.json"
        self._storage.create(name, seal(note))
        for file in self._files:
            self._storage.delete(file)
        self._files, self.written, self._written_at = [name], note, time.monotonic()

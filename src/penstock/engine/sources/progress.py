"""Notes in the checkpoint about how far a source is: one small file for each source, replaced by the next one.

The log says itself which batch it got last, and the offset behind it. The note tells whether there was a later one,
so that the log was restored from an older copy. A log may also forget what it said: Kafka does when nothing has come
for a week. Then the note is what is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from penstock.engine.shared.newest_note import NewestNote
from penstock.storage.base import Storage

_STRETCHES = 8
"""In how many steps records leave the topic that were kept for a while."""


class Noted(msgspec.Struct, frozen=True):
    """How far a source was.

    Attributes:
        topic: the id of its topic.
        sequence: the number of a batch.
        note: the note that the log got with it.
        is_planned: whether that batch may not have arrived.
        kept: times in ms, and the offsets up to which the program had processed the topic then; oldest first.
    """

    topic: str
    sequence: int
    note: str
    is_planned: bool = False
    kept: tuple[tuple[int, tuple[int, ...]], ...] = ()


class SourceNotes:
    """The note about one source.

    Args:
        storage: that of the checkpoint.
        name: the source's.
    """

    def __init__(self, storage: Storage, name: str):
        self._file = NewestNote(storage, f"sources/{name}/progress", Noted)
        self.noted = self._file.written

    def note(self, noted: Noted, at_once: bool = False) -> None:
        """Replace the note; write it at once, or within seconds. Kept offsets stay."""
        self.noted = noted if self.noted is None else replace(noted, kept=self.noted.kept)
        if at_once or self._file.is_due:
            self.write()

    def trim(self, now: int, keep_ms: int, processed: Sequence[int]) -> tuple[int, ...]:
        """Note the offsets up to which the program has processed the topic. Return those up to which records may go."""
        if self.noted is None:
            return ()
        kept = self.noted.kept
        if not kept or now - kept[-1][0] >= keep_ms / _STRETCHES:
            kept = (*kept, (now, tuple(processed)))
        old = [offsets for at, offsets in kept if at <= now - keep_ms]
        self.noted = replace(self.noted, kept=kept[len(old) :])
        return old[-1] if old else ()

    def write(self) -> None:
        """Write down what is new."""
        if self.noted is not None:
            self._file.write(self.noted)

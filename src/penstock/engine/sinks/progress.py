"""Notes in the checkpoint about what sinks have: one small file for each sink, replaced by the next one.

A sink says itself which number it has. The notes tell whether it had more before, so that it was restored from an
older copy, and from which offset on records are kept for it. For a sink that keeps no numbers they are the numbers.
"""

from __future__ import annotations

import msgspec

from penstock.engine.shared.newest_note import NewestNote
from penstock.storage.base import Storage

FOLDER = "sinks"

_STRETCHES = 8
"""In how many steps records leave the topic that were kept for a while."""


class Noted(msgspec.Struct, frozen=True):
    """The note about one partition.

    Attributes:
        number: the number that the sink had.
        planned: the number of the batch that it is given; the same number when it has that.
        kept: times in ms and the number that the sink had then, oldest first.
    """

    number: int = 0
    planned: int = 0
    kept: tuple[tuple[int, int], ...] = ()

    def at(self, number: int, now: int, keep_ms: int) -> Noted:
        """Return the note of a sink that has this number."""
        kept = self.kept
        if not kept or now - kept[-1][0] >= keep_ms / _STRETCHES:
            kept = (*kept, (now, number))
        return Noted(number, number, kept)

    def trimmed(self, now: int, keep_ms: int) -> tuple[Noted, int]:
        """Return the note without what need not be kept, and the offset up to which records may go."""
        old = [number for at, number in self.kept if at <= now - keep_ms]
        return msgspec.structs.replace(self, kept=self.kept[len(old) :]), max(old, default=0)


class _Notes(msgspec.Struct, frozen=True):
    topic: str
    """The id of the topic that the numbers are offsets of."""
    partitions: dict[str, Noted]


class SinkNotes:
    """The notes about one sink.

    Args:
        storage: that of the checkpoint.
        name: the sink's name.
        topic_id: the topic's id; notes about another topic count for nothing.
    """

    def __init__(self, storage: Storage, name: str, topic_id: str):
        self._topic_id = topic_id
        self._file = NewestNote(storage, f"{FOLDER}/{name}", _Notes)
        noted = self._file.written
        is_same = noted is not None and noted.topic == topic_id
        self._partitions = {int(p): one for p, one in noted.partitions.items()} if noted and is_same else {}

    def of(self, partition: int) -> Noted:
        """Return the note about a partition."""
        return self._partitions.get(partition, Noted())

    def note(self, partition: int, noted: Noted, at_once: bool = False) -> None:
        """Replace the note about a partition; write it at once, or within seconds."""
        self._partitions[partition] = noted
        if at_once or self._file.is_due:
            self.write()

    def write(self) -> None:
        """Write down what is new."""
        if self._partitions:
            noted = {str(number): one for number, one in sorted(self._partitions.items())}
            self._file.write(_Notes(self._topic_id, noted))

"""The file ``.checkpoint``, in Kafka's format: the changelog offsets of stores that do not keep these themselves.

The first line is the version, the second how many offsets follow; each other line has a topic, a partition and an
offset. A damaged file counts as one without offsets: its stores are then compared with the changelog row by row.
"""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.files.plain_files import read_plain
from penstock.state.interface import TopicPartition
from penstock.storage.base import replace_file

NAME = ".checkpoint"
UNKNOWN = -4
"""In place of an offset, as in Kafka: the application writes to the store, and does not know yet how far it is."""
_VERSION = "0"
_log = logging.getLogger(__name__)


class OffsetCheckpoint:
    """The offsets of one folder.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> offsets = OffsetCheckpoint(Path(folder.name))
    >>> offsets.put(TopicPartition("app-counts-changelog", 0), 7)
    >>> offsets.path.read_text()
    '0\\n1\\napp-counts-changelog 0 7\\n'
    >>> offsets.get(TopicPartition("app-counts-changelog", 0)), offsets.get(TopicPartition("app-counts-changelog", 1))
    (7, None)
    """

    def __init__(self, folder: Path):
        self.path = folder / NAME

    def get(self, changelog: TopicPartition) -> int | None:
        """Return the offset of a changelog, or None."""
        found = self._read().get(changelog)
        return None if found == UNKNOWN else found

    def has(self, changelog: TopicPartition) -> bool:
        """Return whether the application has begun to write to the store of a changelog."""
        return changelog in self._read()

    def put(self, changelog: TopicPartition, offset: int) -> None:
        """Write the offset of a changelog; those of other changelogs stay."""
        self._write({**self._read(), changelog: offset})

    def remove(self, changelog: TopicPartition) -> None:
        """Remove the offset of a changelog, and the file with the last offset."""
        offsets = self._read()
        if offsets.pop(changelog, None) is not None:
            if offsets:
                self._write(offsets)
            else:
                self.path.unlink()

    def _read(self) -> dict[TopicPartition, int]:
        try:
            return _parsed(read_plain(self.path).decode())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            _log.warning(
                "%s is damaged (%s); the stores it was for are compared with their changelogs", self.path, error
            )
            return {}

    def _write(self, offsets: dict[TopicPartition, int]) -> None:
        rows = [f"{changelog.topic} {changelog.partition} {offset}" for changelog, offset in offsets.items()]
        replace_file(self.path, "".join(f"{line}\n" for line in (_VERSION, len(rows), *rows)).encode())


def _parsed(text: str) -> dict[TopicPartition, int]:
    version, count, *rows = text.splitlines() or [""] * 2
    if version != _VERSION or int(count) != len(rows):
        raise ValueError(f"version {_VERSION} and as many offsets as it says were expected")
    found = {}
    for row in rows:
        topic, partition, offset = row.split()
        found[TopicPartition(topic, int(partition))] = int(offset)
    return found

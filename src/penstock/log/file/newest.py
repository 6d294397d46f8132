"""``newest``: how many entries a topic has had, so that the loss of its newest entry is noticed.

Later entries reveal the loss of an earlier one. The newest entry has none after it. Without this file the next append
would take its number and its offsets, and readers of the lost records would never see the new ones.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from penstock.errors import CorruptDataError, StoreError
from penstock.files.plain_files import open_plain, read_plain
from penstock.log.file.entries import check_topic_id
from penstock.storage.base import replace_file, seal, unseal

_DIGITS = 16


class NewestEntry:
    """The file with the number after the newest entry, and the id of the topic.

    It is written after the entry, which is then durable, and is not synced itself: its number may be too low, never too
    high. An unreadable file counts as missing.
    """

    def __init__(self, path: Path, topic: str = ""):
        self._path, self._topic = path, topic

    def read(self) -> int:
        """Return how many entries exist, or were removed in order, at least; 0 if unknown.

        Raises:
            CorruptDataError: it is not a file, or belongs to another topic.
        """
        try:
            data = read_plain(self._path)
        except OSError:
            return 0
        try:
            number, _, topic = unseal(data, str, str(self._path)).partition(" ")
            entries = int(number)
        except (CorruptDataError, ValueError):
            return 0
        check_topic_id(self._path, topic, self._topic)
        return entries

    def note(self, entries: int) -> None:
        """Write down how many entries there are."""
        data = seal(f"{entries:0{_DIGITS}d} {self._topic}".rstrip())
        with suppress(OSError, StoreError):  # the entry itself has been added
            try:
                descriptor = open_plain(self._path, os.O_WRONLY | os.O_CREAT)
            except CorruptDataError:  # a link: its target belongs to others
                replace_file(self._path, data)
                return
            try:
                os.pwrite(descriptor, data, 0)  # its length is fixed, so no old bytes remain
            finally:
                os.close(descriptor)

    def refuse(self, missing: Path) -> NoReturn:
        """Raise ``CorruptDataError`` for the missing file of the newest known entry."""
        raise CorruptDataError(
            f"{missing} is missing, with the newest records of topic {self._path.parent.name!r}; restore it from a "
            f"backup. To continue without these records, remove {self._path} and start the programs again; "
            "applications that have processed these records will refuse to continue"
        )

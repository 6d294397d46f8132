"""``newest``: how many entries a topic has had, so that the loss of its newest one is noticed.

An entry that is lost is missed by those behind it. Behind the newest there is none: without this file the next append
would take its number and its offsets, and whoever had read it would never hear of the records in its place.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from penstock.errors import CorruptDataError, StoreError
from penstock.log.file.entries import check_topic_id
from penstock.plain_files import open_plain, read_plain
from penstock.storage import replace_file, seal, unseal

_DIGITS = 16


class NewestEntry:
    """The file with the number behind the newest entry, and the id of the topic.

    It is written behind the entry, which is durable then, and not synced itself: it may say too little, never too much.
    What cannot be read says nothing.
    """

    def __init__(self, path: Path, topic: str = ""):
        self._path, self._topic = path, topic

    def read(self) -> int:
        """At least so many entries are there, or were removed in order; 0 when nothing is known.

        Raises:
            CorruptDataError: it is something else than a file, or that of another topic.
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
        with suppress(OSError, StoreError):  # the entry is there all the same
            try:
                descriptor = open_plain(self._path, os.O_WRONLY | os.O_CREAT)
            except CorruptDataError:  # a link: what it leads to is somebody else's
                replace_file(self._path, data)
                return
            try:
                os.pwrite(descriptor, data, 0)  # of one length, so nothing is left behind it
            finally:
                os.close(descriptor)

    def refuse(self, missing: Path) -> NoReturn:
        """Raise ``CorruptDataError`` for the file of the newest entry that is known, when it is gone."""
        raise CorruptDataError(
            f"{missing} is missing, with the newest records of topic {self._path.parent.name!r}; restore it from a "
            f"backup. To go on without these records, remove {self._path} and start the programs anew; applications "
            "that have processed these records will refuse to go on"
        )

"""All starts of an application: which process started, at which commit, and with which program.

A start's number is that of the empty commit of its take-over. These numbers stay reserved permanently: the
previous program would make that commit next, however late it wakes up, and finds it taken.
"""

from __future__ import annotations

import os
import socket
import time

import msgspec

from penstock.engine.shared.description import Description
from penstock.engine.shared.formats import StoreFormat
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.picture import Picture
from penstock.errors import ConfigError, CorruptDataError
from penstock.storage.base import Storage, number_in, seal, unseal
from penstock.values.times import wall_clock_ms

_FOLDER = "starts"


FORMAT = 2
"""The checkpoint's format; releases refuse a higher one than they know. Raise it whenever an older release would
misread anything that this one writes in the checkpoint: older releases ignore fields that they do not know.

1: until decision 0040. 2: tasks begin with databases in ``bases`` (``TaskEntry.base``), and traces are written down.
"""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start."""

    format: int = FORMAT
    """The format of the release that started."""
    application: str
    """The identity of the checkpoint, see :mod:`penstock.engine.commit.identity`."""
    application_id: str
    by: str
    """The process and its machine."""
    at: int
    """Wall-clock time in ms."""
    program: str = ""
    """The program's file and its name there, relative to the application's state folder; empty if unknown."""
    topology: Description | None = None
    """The description of the program's state; None in earlier checkpoints."""
    stores: dict[str, StoreFormat] = {}
    """The stores that can be read from outside; empty in earlier checkpoints."""

    picture: Picture | None = None
    """The topology to show to viewers; None in earlier checkpoints."""
    recording_level: str = "DEBUG"
    """Which metrics are recorded."""

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.at / 1000))
        return f"{self.by}, which started at {when}"


def start_of(
    application: str,
    application_id: str,
    program: str,
    topology: Description,
    stores: dict[str, StoreFormat],
    picture: Picture | None = None,
    recording_level: str = "DEBUG",
) -> Start:
    """Return the start of this process, now."""
    by = f"process {os.getpid()} on {socket.gethostname()}"
    now = wall_clock_ms()
    return Start(
        application=application,
        application_id=application_id,
        by=by,
        at=now,
        program=program,
        topology=topology,
        stores=stores,
        picture=picture,
        recording_level=recording_level,
    )


class Starts:
    """The starts in an application's checkpoint storage."""

    def __init__(self, storage: Storage):
        self.storage = storage

    def write(self, commit: int, start: Start) -> str:
        """Write a start before its commit is made. Return the name of the file."""
        name = f"{_FOLDER}/{commit:016d}-{os.urandom(4).hex()}.json"
        self.storage.create(name, seal(start))
        return name

    def of(self, manifest: Manifest) -> Start | None:
        """Return the start to which a commit belongs, like ``read``; None in earlier checkpoints."""
        return self.read(manifest.start, manifest.application) if manifest.start else None

    def read(self, name: str, application: str) -> Start:
        """Return one start.

        Args:
            name: the name of its file.
            application: the identity of the checkpoint; empty where manifests do not hold it.

        Raises:
            CorruptDataError: it is missing, damaged, or belongs to another checkpoint.
            ConfigError: a later version wrote it.
        """
        where = f"{self.storage.shown}/{name}"
        try:
            found = unseal(self.storage.read(name), Start, where)
        except FileNotFoundError:
            raise CorruptDataError(
                f"{where} is missing though the newest manifest names it; restore it from a backup"
            ) from None
        if application not in ("", found.application):
            raise CorruptDataError(
                f"{where} belongs to another checkpoint ({found.application}, and the manifests are of {application}); "
                "restore it from a backup"
            )
        if found.format > FORMAT:
            raise ConfigError(
                f"{where} was written by a later version of Penstock (format {found.format}, this one knows {FORMAT}); "
                "start the application with that version"
            )
        return found

    def reserved(self) -> set[int]:
        """Return the numbers of all starts so far: the manifests of these commits are never removed."""
        numbers = (number_in(name) for name in self.storage.list(_FOLDER))
        return {number for number in numbers if number is not None}

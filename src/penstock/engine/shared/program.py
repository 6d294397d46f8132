"""Which program an application is, where its id was made from the name of the program's file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError


@dataclass(frozen=True)
class ProgramFile:
    """A topology in a file.

    Attributes:
        path: the file, absolute.
        name: what the topology is called in it.
        names_application: whether the application id is the file's name; an id that somebody chose is never refused.
    """

    path: Path
    name: str
    names_application: bool

    def seen_from(self, folder: Path) -> str:
        """The program as it is written down: a folder that is moved with its state keeps it."""
        return f"{os.path.relpath(self.path, folder)}:{self.name}"

    def check(self, before: str, folder: Path, application_id: str) -> None:
        """Raise ``ConfigError`` when the application is another program; one whose file is gone was moved.

        Args:
            before: which program it was at the last start, as ``seen_from`` the folder; empty if that is not known.
        """
        if not before or not self.names_application or before == self.seen_from(folder):
            return
        path, _, name = before.rpartition(":")
        other = (folder / path).resolve()
        if other.exists():
            own = f"{_shown(self.path)}:{self.name}"
            raise ConfigError(
                f"application {application_id!r} is the program {_shown(other)}:{name}; {own} has the same default id "
                f"and would go on with its state. Give it an id of its own: penstock run {own} --application-id ID. If "
                f"it is the same program, moved or under another name, say so with --application-id {application_id}"
            )


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

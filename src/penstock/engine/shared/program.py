"""The program of an application, if its id was made from the name of the program's file."""

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
        name: the topology's name in it.
        names_application: whether the application id is the file's name. An id that the user chose is never refused.
    """

    path: Path
    name: str
    names_application: bool

    def seen_from(self, folder: Path) -> str:
        """Return the program as stored in the checkpoint: relative, so that it survives moving the folder with its
        state.
        """
        return f"{os.path.relpath(self.path, folder)}:{self.name}"

    def check(self, before: str, folder: Path, application_id: str) -> None:
        """Raise ``ConfigError`` when the application is another program. A program whose file is gone was moved.

        Args:
            before: the program of the last start, as ``seen_from`` the folder; empty if unknown.
        """
        if not before or not self.names_application or before == self.seen_from(folder):
            return
        path, _, name = before.rpartition(":")
        other = (folder / path).resolve()
        if other.exists():
            own = f"{_shown(self.path)}:{self.name}"
            raise ConfigError(
                f"application {application_id!r} is the program {_shown(other)}:{name}; {own} has the same default id "
                f"and would continue with its state. Give it an id of its own: penstock run {own} --application-id ID. "
                f"If it is the same program, moved or under another name, say so with --application-id {application_id}"
            )


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

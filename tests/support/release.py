"""Writes down what this release leaves on disk, as later ones must be able to open it: ``make release-state``."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from support.every_store import THIRDS, Program, every_kind_of_store

RELEASES = Path(__file__).parents[1] / "engine" / "releases"

UNREAD = THIRDS[1][:10]
"""Records that are in the topics and that nobody has processed."""


def write(version: str) -> Path:
    """The log, the checkpoint and the databases of a program in the middle of its work, as an archive."""
    archive = RELEASES / f"{version}.tar.xz"
    if archive.exists():
        raise SystemExit(f"{archive} is there already: what a release has left on disk does not change")
    with tempfile.TemporaryDirectory(prefix="penstock-release-") as folder:
        program = Program(Path(folder), every_kind_of_store(), 2)
        for first in range(0, len(THIRDS[0]), 4):
            program.process(*THIRDS[0][first : first + 4])
        program.produce(*UNREAD)
        RELEASES.mkdir(exist_ok=True)
        with tarfile.open(archive, "w:xz") as packed:
            for part in ("log", "checkpoint", "tasks"):
                packed.add(Path(folder) / part, part, filter=_plain)
    return archive


def _plain(one: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without who made it and when, and without what RocksDB says of its work."""
    if Path(one.name).name.startswith("LOG"):
        return None
    one.uid = one.gid = one.mtime = 0
    one.uname = one.gname = ""
    return one


def unpack(archive: Path, folder: Path) -> None:
    """Bring what a release has left on disk into a folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


if __name__ == "__main__":
    print(write(sys.argv[1]))

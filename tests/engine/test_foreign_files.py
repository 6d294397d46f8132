"""Files that others leave in a folder (a Mac, an editor, a backup) are neither taken for something nor removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from support.world import World

LITTER = [".DS_Store", "._0000000000000009.json", "._topic.json", "Thumbs.db", "notes.txt", ".tmp-left"]


def litter(root: Path) -> list[Path]:
    """Put such files into every folder, and the copy of a folder beside what it is a copy of."""
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    left = [folder / name for folder in folders for name in LITTER]
    for path in left:
        path.write_bytes(b"\0\0\0\1Bud1")
    for manifests in root.rglob("manifests"):
        shutil.copytree(manifests, manifests / "copy of manifests")
    return left


@pytest.mark.parametrize("lose_state", [False, True])
def test_foreign_files_in_every_folder_change_nothing(tmp_path: Path, lose_state: bool):
    world = World(tmp_path)
    for _ in range(6):
        world.run("a", "b")
    left = litter(tmp_path)
    if lose_state:
        world.lose_local_state()
    for _ in range(6):
        world.run("a")
    assert world.output() == [*((key, n) for n in range(1, 7) for key in ("a", "b")), *(("a", n) for n in range(7, 13))]
    assert world.counts() == [("a", 12), ("b", 6)]
    log = FileLog(tmp_path / "log")
    assert log.topics() == ["in", "out"]
    log.apply_retention("in")
    log.trim("in", {0: 12})
    assert len(list(consume("in", log=log))) == 6
    kept = [
        path for path in left if path.parent.exists() and "tasks" not in path.parts and "exchange" not in path.parts
    ]
    assert all(
        path.exists() for path in kept if path.name in (".DS_Store", "notes.txt") and "snapshots" not in path.parts
    )

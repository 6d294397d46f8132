"""State that a release has written opens in this one, and goes on."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest

from support.every_store import LATER, THIRDS, Program, every_kind_of_store
from support.release import RELEASES, UNREAD, unpack

pytestmark = [pytest.mark.kip("KS-12"), pytest.mark.slow]

ARCHIVES = sorted(RELEASES.glob("*.tar.xz"))


@cache
def undisturbed(folder: Path) -> dict[str, dict[str, tuple[str, int]]]:
    program = Program(folder, every_kind_of_store(), 2)
    program.process(*THIRDS[0], *THIRDS[1], *THIRDS[2])
    program.process(*LATER)
    return program.tables()


def test_there_is_state_of_a_release():
    assert ARCHIVES


@pytest.mark.parametrize("keeps_databases", [True, False], ids=["on its machine", "on another machine"])
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def test_state_of_a_release_opens_and_ends_with_the_tables_of_this_one(
    archive: Path, keeps_databases: bool, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
):
    unpack(archive, tmp_path)
    if not keeps_databases:
        shutil.rmtree(tmp_path / "tasks")
    program = Program(tmp_path, every_kind_of_store(), 2)
    kept = program.rows("counts")
    program.process(*THIRDS[1][len(UNREAD) :], *THIRDS[2])
    program.process(*LATER)
    assert program.tables() == undisturbed(tmp_path_factory.getbasetemp() / "undisturbed-release")
    assert len(kept) == 12

"""Compiled rules: where their machine code is kept, and what happens where it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.columns.compiled import own_folder

pytest.importorskip("numba")

RULES = """
import numpy as np
from penstock.columns.compiled import compiled

@compiled(np.zeros(1, np.int64))
def total(numbers):
    found = 0
    for number in numbers:
        found += number
    return found

print(total(np.arange(5)), total.stats.cache_hits if hasattr(total, "stats") else "plain")
"""


NOWHERE = """
compiled._bases = lambda: iter(())
"""


class Programs:
    """Programs with a compiled rule; their home, and what else is told to them, is this folder's."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "rules.py").write_text(RULES)
        self.home = folder / "home"
        self.home.mkdir()

    def start(self, **named: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
        environment = {**kept, "HOME": str(self.home), "TMPDIR": str(self.folder / "tmp"), **named}
        return subprocess.Popen(
            [sys.executable, str(self.folder / "rules.py")], stdout=subprocess.PIPE, text=True, env=environment
        )

    def ends(self, **named: str) -> str:
        out, _ = self.start(**named).communicate(timeout=120)
        return out.strip()


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    (tmp_path / "tmp").mkdir()
    return Programs(tmp_path)


def test_a_second_program_takes_the_machine_code_out_of_the_cache(programs: Programs):
    assert programs.ends() == "10 Counter()"
    assert programs.ends().startswith("10 Counter({")
    assert list((programs.home / ".cache" / "penstock").rglob("*.nbi"))


@pytest.mark.slow
def test_with_a_home_that_cannot_be_written_the_cache_is_in_a_temporary_folder_of_the_user(programs: Programs):
    home = programs.folder / "a file"
    home.write_text("and no folder")
    assert programs.ends(HOME=str(home)) == "10 Counter()"
    assert programs.ends(HOME=str(home)).startswith("10 Counter({")
    assert list((programs.folder / "tmp" / f"penstock-compiled-{os.getuid()}").rglob("*.nbi"))


@pytest.mark.slow
def test_where_nothing_can_be_written_each_program_compiles_anew(programs: Programs):
    (programs.folder / "rules.py").write_text("from penstock.columns import compiled\n" + NOWHERE + RULES)
    assert [programs.ends() for _ in range(2)] == ["10 Counter()", "10 Counter()"]


@pytest.mark.slow
def test_programs_that_start_at_once_on_an_empty_cache_all_compile_the_same(programs: Programs):
    running = [programs.start() for _ in range(4)]
    assert {one.communicate(timeout=120)[0].split()[0] for one in running} == {"10"}
    assert [one.returncode for one in running] == [0, 0, 0, 0]
    assert programs.ends().startswith("10 Counter({")


@pytest.mark.slow
def test_a_damaged_cache_is_done_without(programs: Programs):
    programs.ends()
    for file in (programs.home / ".cache" / "penstock").rglob("*.nb*"):
        file.write_bytes(b"no machine code")
    assert programs.ends().split()[0] == "10"


def test_what_others_can_write_is_not_read_since_it_is_unpickled(tmp_path: Path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(PermissionError, match="others than this user can write"):
        own_folder(shared / "rules")

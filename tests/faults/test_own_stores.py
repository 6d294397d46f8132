"""kill -9 of programs whose tables are in stores that users bring: outputs, state and what these stores have in files
equal those of an undisturbed run (KIP-892)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import harness
import own_stores
import pytest

from penstock.faults import POINTS, STORE_POINTS

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13"), pytest.mark.kip("892-08")]

SCRIPT = Path(own_stores.__file__)


def outcome(folder: Path) -> dict[str, Any]:
    """What came out, what Penstock says the stores hold, and what is in their files."""
    found = harness.outcome(folder, own_stores.topology())
    for task in sorted((folder / "state" / "tasks").glob("*.stores")):
        with sqlite3.connect(task / "sqlite.db") as database:
            found[f"{task.name}/sqlite"] = database.execute("select key, value from entries order by key").fetchall()
        rows = dict(own_stores.journal_of(task / "journal.journal"))
        found[f"{task.name}/journal"] = sorted((key, value) for key, value in rows.items() if value is not None)
    return found


@pytest.fixture(scope="module")
def own_undisturbed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nothing is killed."""
    folder = harness.copy_of(base, tmp_path_factory.mktemp("own"))
    assert harness.Program(folder, "--local", SCRIPT).wait()
    return outcome(folder)


def test_undisturbed_the_files_have_what_penstock_says(own_undisturbed: dict[str, Any]) -> None:
    for name in ("sqlite", "journal"):
        files = [rows for key, rows in own_undisturbed.items() if key.endswith(f"stores/{name}")]
        assert len(files) == 4
        assert sum(map(len, files)) == len(own_undisturbed[name]) > 100
    assert {str(own_undisturbed[name]) for name in ("sqlite", "transactions", "memory")} == {
        str(own_undisturbed["memory"])
    }


@pytest.mark.parametrize("seed", range(2))
def test_many_kills_leave_stores_as_an_undisturbed_run_does(
    seed: int, base: Path, own_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=12, seed=seed, script=SCRIPT) >= 6
    assert outcome(folder) == own_undisturbed


@pytest.mark.parametrize("count", [1, 2])
def test_a_crash_between_any_two_steps_leaves_stores_as_an_undisturbed_run_does(
    count: int, base: Path, own_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    harness.run_with_crashes_at(folder, "--local", [*POINTS, *STORE_POINTS], count, SCRIPT)
    assert outcome(folder) == own_undisturbed

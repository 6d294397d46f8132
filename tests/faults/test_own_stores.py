"""kill -9 of programs whose tables are in stores that users bring: outputs, state and what these stores have in files
equal those of an undisturbed run (KIP-892)."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import harness
import own_any
import own_stores
import own_timed
import pytest

from penstock.faults import POINTS, STORE_POINTS
from penstock.testing.chaos.outcome import differences
from support.own_everywhere import SHAPES, Rows, without_repeated_deletions

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


# --- window, session and versioned stores ---------------------------------------------------------------------------

TIMED = Path(own_timed.__file__)
MEDIUMS = ("flushed", "sqlite", "memory")


def rows_in_files(medium: str, task: Path) -> dict[str, Rows]:
    """What the files of a task's stores have, by store."""
    found: dict[str, Rows] = {}
    for name in SHAPES:
        if (file := task / f"{name}.lines").exists():
            rows = found[name] = {}
            for line in file.read_text().splitlines():
                if line.endswith("]"):  # or it is torn
                    key, first, second, value = json.loads(line)
                    rows[bytes.fromhex(key), first, second] = value and bytes.fromhex(value)
            found[name] = {row: value for row, value in sorted(rows.items()) if value is not None}
        elif (file := task / f"{name}.db").exists():
            with sqlite3.connect(file) as database:
                rows = database.execute("select key, first, second, value from entries order by key, first, second")
                found[name] = {(key, first, second): value for key, first, second, value in rows}
    return without_repeated_deletions(found)


def timed_outcome(folder: Path) -> dict[str, Any]:
    """What came out, what Penstock says the stores hold, and what is in their files."""
    found = harness.outcome(folder, own_timed.topology(folder))
    medium = (folder / "medium").read_text()
    for task in sorted((folder / "state" / "tasks").glob("*.stores")) if medium != "memory" else ():
        found |= {f"{task.name}/{name}": rows for name, rows in rows_in_files(medium, task).items()}
    return found


def timed_copy(base: Path, folder: Path, medium: str) -> Path:
    (harness.copy_of(base, folder) / "medium").write_text(medium)
    return folder


@pytest.fixture(scope="module")
def timed_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input topics."""
    return harness.prepared(tmp_path_factory.mktemp("timed"), 300, TIMED)


@pytest.fixture(scope="module", params=MEDIUMS)
def timed_undisturbed(
    request: pytest.FixtureRequest, timed_base: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any]]:
    """A medium, and what comes out when nothing is killed."""
    medium = request.param
    folder = timed_copy(timed_base, tmp_path_factory.mktemp(medium), medium)
    assert harness.Program(folder, "--local", TIMED).wait()
    found = timed_outcome(folder)
    assert all(found[name] for name in SHAPES if name not in ("left", "right"))
    assert medium == "memory" or sum(len(rows) for name, rows in found.items() if "stores/" in name) > 200
    return medium, found


@pytest.mark.kip("KS-20")
def test_many_kills_leave_timed_stores_as_an_undisturbed_run_does(
    timed_base: Path, timed_undisturbed: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    medium, expected = timed_undisturbed
    folder = timed_copy(timed_base, tmp_path, medium)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=10, seed=3, script=TIMED) >= 4
    assert timed_outcome(folder) == expected


@pytest.mark.kip("KS-20")
def test_a_crash_between_any_two_steps_leaves_timed_stores_as_an_undisturbed_run_does(
    timed_base: Path, timed_undisturbed: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    medium, expected = timed_undisturbed
    folder = timed_copy(timed_base, tmp_path, medium)
    harness.run_with_crashes_at(folder, "--local", [*POINTS, *STORE_POINTS], 1, TIMED)
    assert timed_outcome(folder) == expected


# --- stores of any class, an LRU map, and global tables --------------------------------------------------------------

ANY = Path(own_any.__file__)


def any_outcome(folder: Path) -> dict[str, Any]:
    """What came out, what Penstock says the stores hold, and what is in their files."""
    found = harness.outcome(folder, own_any.topology())
    for task in sorted((folder / "state" / "tasks").glob("*.stores")):
        found[f"{task.name}/files"] = {file.stem: file.read_text() for file in task.glob("files/*.count")}
        for name, table in (("ledger", "counts"), ("names-sqlite", "entries")):
            with sqlite3.connect(task / f"{name}.db") as database:
                found[f"{task.name}/{name}"] = database.execute(f"select * from {table} order by 1").fetchall()
        rows = dict(own_stores.journal_of(task / "names-journal.journal"))
        found[f"{task.name}/names-journal"] = sorted((key, value) for key, value in rows.items() if value is not None)
    return found


@pytest.fixture(scope="module")
def any_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input topics."""
    return harness.prepared(tmp_path_factory.mktemp("any"), 600, ANY)


@pytest.fixture(scope="module")
def any_undisturbed(any_base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nothing is killed."""
    folder = harness.copy_of(any_base, tmp_path_factory.mktemp("any-undisturbed"))
    assert harness.Program(folder, "--local", ANY).wait()
    found = any_outcome(folder)
    for name in ("tally-out", "files-out", "ledger-out", "recent-out", "names-sqlite-out", "names-journal-out"):
        assert sum(len(found[f"{name}[{partition}]"]) for partition in range(4)) > 400
    for one, other in (("tally", "files"), ("tally", "ledger"), ("names-sqlite", "names-journal")):
        assert [found[f"{one}-out[{n}]"] for n in range(4)] == [found[f"{other}-out[{n}]"] for n in range(4)]
    return found


@pytest.mark.kip("KS-20")
@pytest.mark.parametrize("seed", range(2))
def test_many_kills_leave_stores_of_any_class_as_an_undisturbed_run_does(
    seed: int, any_base: Path, any_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(any_base, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=10, seed=seed, script=ANY) >= 4
    assert differences(any_outcome(folder), any_undisturbed) == {}


@pytest.mark.kip("KS-20")
@pytest.mark.parametrize("count", [1, 2])
def test_a_crash_between_any_two_steps_leaves_stores_of_any_class_as_an_undisturbed_run_does(
    count: int, any_base: Path, any_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(any_base, tmp_path)
    harness.run_with_crashes_at(folder, "--local", [*POINTS, *STORE_POINTS], count, ANY)
    assert differences(any_outcome(folder), any_undisturbed) == {}

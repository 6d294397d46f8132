"""kill -9 while records are joined: no result comes twice, none is missing, none is another one (KIP-914)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from pathlib import Path
from typing import Any

import harness
import joining
import program
import pytest

from penstock.faults import POINTS
from penstock.log.file.log import FileLog
from penstock.serdes import JSON, STR

pytestmark = [pytest.mark.slow, pytest.mark.kip("914-03"), pytest.mark.kip("892-13")]

SCRIPT = Path(joining.__file__)


@pytest.fixture(scope="module")
def joined_undisturbed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nothing is killed."""
    folder = harness.copy_of(base, tmp_path_factory.mktemp("joined"))
    assert harness.Program(folder, "--local", SCRIPT).wait()
    return harness.outcome(folder, joining.topology())


def joined_at_once(log: FileLog, partition: int) -> list[tuple[bytes, bytes, int]]:
    """The clicks of one partition with the page where their user was at their time, from the input alone."""
    pages: dict[bytes, list[tuple[int, int, str]]] = defaultdict(list)
    found = []
    for records in log.read(program.INPUT, partition, 0, log.end_offsets(program.INPUT)[partition]):
        columns = records.key.to_pylist(), JSON.decode_all(records.value), records.timestamp.tolist()
        for user, click, time in zip(*columns, strict=True):
            visits, n = pages[user], click["n"]
            place = bisect_right(visits, (time, n, ""))
            if place:
                found.append((user, STR.encode(f"{n} {visits[place - 1][2]}"), time))
            if n % 3 == 0:
                insort(visits, (time, n, click["page"]))
    return found


def test_undisturbed_every_click_meets_the_page_where_its_user_was(
    base: Path, joined_undisturbed: dict[str, Any]
) -> None:
    log = FileLog(base / "log")
    for partition in range(4):
        assert joined_undisturbed[f"at-once-out[{partition}]"] == joined_at_once(log, partition) != []
    for name in ("waiting-out", "users-out", "corrected-out"):
        assert sum(len(rows) for place, rows in joined_undisturbed.items() if place.startswith(f"{name}[")) > 1000


@pytest.mark.parametrize("seed", range(2))
def test_many_kills_change_no_result_of_a_join(
    seed: int, base: Path, joined_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=12, seed=seed, script=SCRIPT) >= 8
    assert harness.outcome(folder, joining.topology()) == joined_undisturbed


def test_a_crash_between_any_two_steps_of_a_commit_changes_no_result_of_a_join(
    base: Path, joined_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    harness.run_with_crashes_at(folder, "--local", POINTS, 3, SCRIPT)
    assert harness.outcome(folder, joining.topology()) == joined_undisturbed


def test_kills_of_slots_on_spark_change_no_result_of_a_join(
    base: Path, joined_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    assert harness.run_to_the_end(folder, "--spark", ["slot", "driver"], kills=4, seed=5, script=SCRIPT) >= 2
    assert harness.outcome(folder, joining.topology()) == joined_undisturbed

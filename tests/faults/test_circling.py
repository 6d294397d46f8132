"""kill -9 while records go around cycles: no result comes twice, none is missing, none is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import circling
import harness
import program
import pytest

from penstock.faults import CYCLE_POINTS, POINTS
from penstock.log.file.log import FileLog
from penstock.serdes import JSON, STR

pytestmark = pytest.mark.slow

SCRIPT = Path(circling.__file__)


@pytest.fixture(scope="module")
def cycled_undisturbed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nothing is killed."""
    folder = harness.copy_of(base, tmp_path_factory.mktemp("cycled"))
    assert harness.Program(folder, "--local", SCRIPT).wait()
    return harness.outcome(folder, circling.topology())


def test_undisturbed_every_click_of_a_backlog_finds_how_many_came_before(
    base: Path, cycled_undisturbed: dict[str, Any]
) -> None:
    """Partitions are read in the order of time; a late click comes directly behind what was before it."""
    log, clicks = FileLog(base / "log"), []
    for partition, end in enumerate(log.end_offsets(program.INPUT)):
        highest = 0
        for records in log.read(program.INPUT, partition, 0, end):
            columns = records.key.to_pylist(), JSON.decode_all(records.value), records.timestamp.tolist()
            for user, click, time in zip(*columns, strict=True):
                highest = max(highest, time)
                clicks.append((highest, partition, len(clicks), user, click["page"], time))
    guests: dict[bytes, int] = {}
    expected: dict[int, list[tuple[bytes, bytes, int]]] = {partition: [] for partition in range(4)}
    for _, partition, _, user, page, time in sorted(clicks):
        expected[partition].append((user, STR.encode(f"{page} {guests.get(user)}"), time))
        host = STR.encode(circling.host_of(page))
        guests[host] = guests.get(host, 0) + 1
    for partition in range(4):
        assert cycled_undisturbed[f"guests-out[{partition}]"] == expected[partition]


@pytest.mark.parametrize("seed", range(2))
def test_many_kills_change_no_result_of_a_cycle(
    seed: int, base: Path, cycled_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=12, seed=seed, script=SCRIPT) >= 8
    assert harness.outcome(folder, circling.topology()) == cycled_undisturbed


def test_a_crash_between_any_two_steps_of_a_commit_or_a_round_changes_no_result_of_a_cycle(
    base: Path, cycled_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    harness.run_with_crashes_at(folder, "--local", POINTS + CYCLE_POINTS, 3, SCRIPT)
    assert harness.outcome(folder, circling.topology()) == cycled_undisturbed


@pytest.mark.parametrize("mode", ["--spark", "--micro"])
def test_kills_of_slots_on_spark_change_no_result_of_a_cycle(
    mode: str, base: Path, cycled_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    assert harness.run_to_the_end(folder, mode, ["slot", "driver"], kills=4, seed=5, script=SCRIPT) >= 2
    assert harness.outcome(folder, circling.topology()) == cycled_undisturbed

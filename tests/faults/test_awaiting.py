"""kill -9 while calls are awaited: their records come again, each result counts once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awaiting
import harness
import pytest

pytestmark = pytest.mark.slow

COUNT = 3_000
SCRIPT = Path(awaiting.__file__)
DEADLY = (10, 1_001, 2_990)
"""The calls with these numbers kill the process that makes them, once."""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input topic, not processed."""
    return harness.prepared(tmp_path_factory.mktemp("numbers"), COUNT, SCRIPT)


@pytest.fixture(scope="module")
def undisturbed(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nothing is killed."""
    return harness.undisturbed(numbers, tmp_path_factory.mktemp("undisturbed"), awaiting.topology(), SCRIPT)


@pytest.mark.parametrize("mode", ["--local", "--slots"])
def test_a_process_that_is_killed_while_it_awaits_loses_nothing_and_repeats_nothing(
    mode: str, numbers: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder, deadly = harness.copy_of(numbers, tmp_path), tmp_path / "deadly"
    deadly.mkdir()
    for number in DEADLY:
        (deadly / str(number)).touch()
    for _ in range(len(DEADLY) + 1):  # slots come again by themselves, a program does not
        if harness.Program(folder, mode, SCRIPT, **{awaiting.DEADLY: str(deadly)}).wait():
            break
    assert list(deadly.iterdir()) == [], "each of them has killed a process"
    outcome = harness.outcome(folder, awaiting.topology())
    assert outcome == undisturbed
    rows = [row for name, several in outcome.items() if name.startswith("out[") for row in several]
    assert sorted(int.from_bytes(value, "big") for _, value, _ in rows) == list(range(0, COUNT * 10, 10))

"""kill -9 while the demo runs: the hours and the aircraft are those of a run that nothing disturbed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import demo
import harness
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]

SCRIPT = Path(demo.__file__)


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The flights, not processed."""
    return harness.prepared(tmp_path_factory.mktemp("year"), 0, SCRIPT)


@pytest.fixture(scope="module")
def undisturbed_year(year: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nothing is killed."""
    return harness.undisturbed(year, tmp_path_factory.mktemp("undisturbed"), demo.flights.topology, SCRIPT)


@pytest.mark.parametrize(
    ("mode", "kinds", "kills"), [("--local", ["driver"], 10), ("--spark", ["driver", "jvm", "slot"], 5)]
)
def test_kills_of_the_demo_change_nothing(
    mode: str, kinds: list[str], kills: int, year: Path, undisturbed_year: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(year, tmp_path)
    assert harness.run_to_the_end(folder, mode, kinds, kills, 3, SCRIPT) >= 3
    assert harness.outcome(folder, demo.flights.topology) == undisturbed_year

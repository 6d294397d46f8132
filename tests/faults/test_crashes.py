"""kill -9 at any instant: after restarts, outputs and state equal those of an undisturbed run (KIP-892)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest

from penstock.faults import POINTS, START_POINTS

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


@pytest.mark.parametrize(("count", "points"), [(1, POINTS + START_POINTS), (4, POINTS)])
@pytest.mark.kip("892-08")
def test_a_crash_between_any_two_steps_of_a_commit_or_a_start_changes_nothing(
    count: int, points: tuple[str, ...], base: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    harness.run_with_crashes_at(folder, "--local", points, count)
    assert harness.outcome(folder) == undisturbed


@pytest.mark.parametrize("seed", range(2))
def test_many_kills_at_random_moments_change_nothing(
    seed: int, base: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=24, seed=seed) >= 12
    assert harness.outcome(folder) == undisturbed

"""kill -9 at any instant: after restarts, outputs and state equal those of an undisturbed run (KIP-892)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest

from penstock.faults import POINTS

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.kip("892-08")
def test_a_crash_between_any_two_steps_of_a_commit_changes_nothing(
    count: int, base: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    harness.run_with_crashes_at(folder, "--local", POINTS, count)
    assert harness.outcome(folder) == undisturbed


@pytest.mark.parametrize("seed", range(2))
def test_many_kills_at_random_moments_change_nothing(
    seed: int, base: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=24, seed=seed) >= 12
    assert harness.outcome(folder) == undisturbed

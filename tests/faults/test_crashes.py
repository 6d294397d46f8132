"""kill -9 at any instant: after restarts, outputs and state equal those of an undisturbed run (KIP-892)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest

from penstock.faults import BESIDE_POINTS, POINTS, START_POINTS

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


@pytest.mark.parametrize(("count", "points"), [(1, POINTS + START_POINTS), (4, POINTS)])
@pytest.mark.kip("892-08")
def test_a_crash_between_any_two_steps_of_a_commit_or_a_start_changes_nothing(
    count: int, points: tuple[str, ...], base: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    harness.run_with_crashes_at(folder, "--local", points, count)
    assert harness.outcome(folder) == undisturbed


def test_a_crash_while_the_next_commit_is_worked_on_and_this_one_is_not_visible_yet_changes_nothing(
    base: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """What is published beside the next commit is held back here until that waits for it: so both are half done
    wherever the process dies."""
    folder = harness.copy_of(base, tmp_path)
    before = ("after-manifest", "after-forget", "before-delta", "after-delta", "after-local-commit", *BESIDE_POINTS)
    harness.run_with_crashes_at(folder, "--beside", (*before, "before-publish", "during-publish", "after-publish"), 2)
    assert harness.outcome(folder) == undisturbed


@pytest.mark.parametrize("seed", range(2))
def test_many_kills_at_random_moments_change_nothing(
    seed: int, base: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(base, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=12, seed=seed) >= 6
    assert harness.outcome(folder) == undisturbed

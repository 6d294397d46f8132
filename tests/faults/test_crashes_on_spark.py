"""Crashes at named points of slots and drivers, on Spark and without: outputs and state equal an undisturbed run's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


@pytest.mark.parametrize("mode", ["--spark", "--slots"])
def test_crashes_inside_slots_and_the_driver_change_nothing(
    mode: str, small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(small_base, tmp_path)
    harness.run_with_crashes_at(folder, mode, ["after-delta", "during-publish", "after-local-commit"], 3)
    assert harness.outcome(folder) == small_undisturbed


def test_crashes_inside_the_tasks_of_micro_batches_and_the_driver_change_nothing(
    small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(small_base, tmp_path)
    points = ["after-delta", "before-manifest", "during-publish", "before-flush", "after-flush", "after-answer"]
    harness.run_with_crashes_at(folder, "--micro", points, 3)
    assert harness.outcome(folder) == small_undisturbed

"""Crashes at named points of slots and drivers on Spark: outputs and state equal those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


def test_crashes_inside_slots_and_the_driver_on_spark_change_nothing(
    small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(small_base, tmp_path)
    harness.run_with_crashes_at(folder, "--spark", ["after-delta", "during-publish", "after-local-commit"], 3)
    assert harness.outcome(folder) == small_undisturbed

"""kill -9 of drivers, JVMs and slots on Spark: outputs and state equal those of an undisturbed run (KIP-892)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


@pytest.mark.parametrize(
    ("seed", "kinds", "kills"), [(1, ["driver", "jvm"], 4), (2, ["slot"], 12), (3, ["driver", "jvm", "slot"], 6)]
)
def test_kills_of_driver_jvm_and_slots_on_spark_change_nothing(
    seed: int, kinds: list[str], kills: int, small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(small_base, tmp_path)
    assert harness.run_to_the_end(folder, "--spark", kinds, kills, seed) >= min(kills, 3)
    assert harness.outcome(folder) == small_undisturbed

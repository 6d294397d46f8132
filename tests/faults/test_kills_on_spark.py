"""kill -9 of drivers, JVMs and slots on Spark: outputs and state equal those of an undisturbed run (KIP-892)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
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


def test_a_driver_a_jvm_and_slots_that_sleep_longer_than_the_time_out_change_nothing(
    small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """Whoever slept goes on as if nothing had happened, or has been replaced and does nothing that counts."""
    folder = harness.copy_of(small_base, tmp_path)
    program = harness.Program(folder, "--spark", PENSTOCK_SLOT_TIMEOUT="1500 ms", PENSTOCK_COMMIT_INTERVAL="200 ms")
    for commits, kind in ((1, "driver"), (3, "slot"), (5, "jvm"), (7, "slot")):
        program.wait_for_commits(commits)
        for pid in program.processes(kind)[:1]:
            with suppress(ProcessLookupError):  # it may just have been replaced
                os.kill(pid, signal.SIGSTOP)
                time.sleep(3)
                os.kill(pid, signal.SIGCONT)
    assert program.wait(), program.errors()
    assert harness.outcome(folder) == small_undisturbed

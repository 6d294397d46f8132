"""kill -9 of programs whose processors are in the middle of transactions: outputs and state equal those of an
undisturbed run (KIP-892)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest

import transactions
from penstock.faults import POINTS

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13"), pytest.mark.kip("892-04")]

SCRIPT = Path(transactions.__file__)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short input topic: each record makes twenty transactions."""
    return harness.prepared(tmp_path_factory.mktemp("few"), 600)


@pytest.fixture(scope="module")
def calm(few: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nothing is killed."""
    folder = harness.copy_of(few, tmp_path_factory.mktemp("calm"))
    assert harness.Program(folder, "--local", SCRIPT).wait()
    found = harness.outcome(folder, transactions.topology())
    assert all(found[name] and found[f"{name}-out[0]"] for name in transactions.BUILDERS)
    return found


@pytest.mark.parametrize("seed", range(2))
def test_kills_in_the_middle_of_transactions_leave_what_an_undisturbed_run_leaves(
    seed: int, few: Path, calm: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(few, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=8, seed=seed, script=SCRIPT) >= 4
    assert harness.outcome(folder, transactions.topology()) == calm


def test_a_crash_between_any_two_steps_with_open_transactions_leaves_what_an_undisturbed_run_leaves(
    few: Path, calm: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(few, tmp_path)
    harness.run_with_crashes_at(folder, "--local", POINTS, 1, SCRIPT)
    assert harness.outcome(folder, transactions.topology()) == calm


@pytest.mark.parametrize("kinds", [["slot"], ["driver", "slot"]])
def test_slots_and_drivers_killed_in_the_middle_of_transactions_leave_what_an_undisturbed_run_leaves(
    kinds: list[str], few: Path, calm: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(few, tmp_path)
    assert harness.run_to_the_end(folder, "--slots", kinds, kills=6, seed=3, script=SCRIPT) >= 3
    assert harness.outcome(folder, transactions.topology()) == calm

"""A short run of ``chaos.py``: kills, failovers, rivals, live producers and leftovers change nothing."""

from __future__ import annotations

from pathlib import Path

import chaos
import pytest

from penstock.testing.chaos import rounds

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_random_of_programs_that_come_and_go_change_nothing(seed: int, tmp_path: Path):
    assert rounds.chaos(chaos.subjects(), 12, seed, ["local"], tmp_path).kills >= 12

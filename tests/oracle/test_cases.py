"""The cases recorded from Kafka Streams, through the test driver and through the engine under random cuts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.oracle import chunks, driver
from penstock.testing.oracle.__main__ import run_case
from penstock.testing.oracle.decisions import Decisions

HERE = Path(__file__).parent
FOLDERS = ("cases", "kip655")
FILES = {path.stem: path for folder in FOLDERS for path in sorted((HERE / folder).glob("*.json"))}
DECISIONS = Decisions.beside(HERE / "cases")
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]


def load(name: str) -> Any:
    return json.loads(FILES[name].read_text())


@pytest.mark.parametrize("name", FILES)
def test_a_case_in_the_test_driver(name: str) -> None:
    assert run_case(load(name), driver.run, DECISIONS) == ("passed", "")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_case_in_the_engine_under_random_cuts(name: str, seed: int) -> None:
    assert run_case(load(name), chunks.runner(seed), DECISIONS) == ("passed", "")

"""kill -9 of everything between files and tables: each row counts once in each table."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import harness
import pytest
import tables

from support.delta import jars

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]  # each start is one of Spark

_PATIENCE = 300.0
_SCRIPT = Path(tables.__file__)
_POINTS = {"before-rows": 3, "after-rows": 6, "before-table": 1, "after-table": 2}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DELTA_JARS", jars())
    monkeypatch.setattr(tables, "JARS", jars())
    return harness.prepared(tmp_path / "program", 300, _SCRIPT)


def in_tables(folder: Path) -> Any:
    command = [sys.executable, str(_SCRIPT), str(folder), "--read"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def test_crashes_at_the_points_of_queries_lose_nothing_and_double_nothing(folder: Path):
    markers = {point: folder / point for point in _POINTS}
    at = ",".join(f"{point}:{count}:{markers[point]}" for point, count in _POINTS.items())
    for _ in range(len(_POINTS) + 3):
        if harness.Program(folder, "--spark", _SCRIPT, PENSTOCK_CRASH_AT=at).wait(patience=_PATIENCE):
            break
    assert [point for point, file in markers.items() if not file.exists()] == []
    assert in_tables(folder) == tables.expected(folder)


def test_kills_of_everything_at_random_lose_nothing_and_double_nothing(folder: Path):
    rng, kills = random.Random(5), 0
    for _ in range(12):
        running = harness.Program(folder, "--spark", _SCRIPT)
        if kills < 4:
            running.wait_for_commits(rng.randint(1, 3))
            time.sleep(rng.uniform(0, 4))
            if running.is_running:
                running.kill_what_is_left()
                kills += 1
        if running.wait(patience=_PATIENCE):
            break
    assert kills >= 2
    assert in_tables(folder) == tables.expected(folder)

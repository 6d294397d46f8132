"""Batches on two executors: one is killed, files of the shuffle are lost, or Spark runs a task a second time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from batch import cluster_job
from penstock import open_store
from support.standalone import StandaloneCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

JOB = Path(cluster_job.__file__)


def ran(master: str, folder: Path, *way: str) -> Any:
    """What a job puts out."""
    command = [sys.executable, str(JOB), master, str(folder), *way]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_killed_executor_lost_shuffle_files_and_a_task_that_runs_twice_at_once_change_nothing(tmp_path: Path) -> None:
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        expected = ran(cluster.url, tmp_path, "nothing")
        assert ran(cluster.url, tmp_path, "speculation") == expected
        assert ran(cluster.url, tmp_path, "killed", "seed") == expected
        assert ran(cluster.url, tmp_path, "lost") == expected
    assert (tmp_path / "the second attempt ran").exists()
    assert (tmp_path / "killed happened").exists()
    assert (tmp_path / "lost happened").exists()
    assert len(expected["topic sums"]) == len(cluster_job.ROWS)
    assert {key: value for key, value, *_ in expected["sums"]} == {f"v{n}": n * 80 for n in range(5)}
    with open_store(tmp_path / "killed" / "state" / "checkpoint", "sums") as store:
        assert {key: value for key, value, _ in store.all()} == {f"v{n}": n * 80 for n in range(5)}

"""Spark 4.1 for tests: Iceberg and Comet have no release for Spark 4.2 yet. Pip gets it once for all runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

VERSION = "4.1.4"
_FOLDER = Path.home() / f".cache/penstock-tests/pyspark-{VERSION}"


def installed() -> Path:
    """The folder with PySpark 4.1; the test is left out where pip cannot get it."""
    if not _FOLDER.exists():
        _FOLDER.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_FOLDER.parent) as folder:
            made = Path(folder) / "made"
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(made)]
            got = subprocess.run([*command, f"pyspark=={VERSION}"], capture_output=True, text=True, timeout=500)
            if got.returncode:
                pytest.skip(f"tests with Spark {VERSION} are left out: pip cannot get it: {got.stderr[-300:]}")
            if not _FOLDER.exists():
                made.rename(_FOLDER)
    return _FOLDER


def run(job: str, folder: Path, jar: str) -> Any:
    """Run one of the programs in ``tests/spark/jobs_4_1.py`` with Spark 4.1. Return the JSON that it prints last."""
    spark, tests = installed(), Path(__file__).parent.parent
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(spark), str(tests), *sys.path]),
        "SPARK_HOME": str(spark / "pyspark"),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [sys.executable, str(tests / "spark/jobs_4_1.py"), job, str(folder), jar]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])

"""Programs that run by the full path of their Python, as cron, editors and Jupyter run them: nothing is activated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SESSION = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
"""
PROGRAM = """
penstock.produce([("a", 1, 5)], "in", value=int, log=folder)
found = spark.read.format("penstock").option("topic", "in").option("log", folder).load()
assert [tuple(row[:2]) for row in found.collect()] == [(b"a", bytes([0] * 7 + [1]))]
penstock.write(spark.createDataFrame([("b", 2)], "k string, n int"), "out", key="k", value="n", log=folder)
print("found", [record[:2] for record in penstock.consume("out", log=folder)])
"""


@pytest.mark.parametrize("beginning", ["import penstock" + SESSION, SESSION + "import penstock"])
def test_topics_are_data_frames_wherever_penstock_can_be_imported(beginning: str, tmp_path: Path):
    here = Path(sys.executable).parent
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder).resolve() != here.resolve()]
    chosen = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL"
    environment = {name: text for name, text in os.environ.items() if not name.startswith(chosen)}
    ran = subprocess.run(
        [sys.executable, "-c", f"folder = {str(tmp_path)!r}\n{beginning}\n{PROGRAM}"],
        capture_output=True,
        text=True,
        env=environment | {"PATH": os.pathsep.join(path)},
        timeout=300,
    )
    assert (ran.returncode, ran.stdout) == (0, "found [('b', 2)]\n"), ran.stderr

"""Programs that run by the full path of their Python, as cron, editors and Jupyter run them: nothing is activated."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import penstock

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


APP = """
from penstock import StreamsBuilder
builder = StreamsBuilder()
builder.stream("in", key=str, value=int).group_by_key().count("counts").to_stream().to("out")
topology = builder.build()
"""
NAMES = {"quotes and spaces": """it's a "b" f\u00f6ld\u00e9r""", "signs": "$HOME 20%c #1 a:b \\x {{APP_ID}} \u65e5"}


@pytest.mark.parametrize("name", NAMES)
def test_a_program_and_all_its_places_may_lie_in_a_folder_of_any_name(name: str):
    with tempfile.TemporaryDirectory() as place:  # a short one, in which Spark makes sockets
        folder = Path(place, NAMES[name])
        for within in ("temporary", "cache", "home"):
            (folder / within).mkdir(parents=True)
        (folder / "app.py").write_text(APP)
        penstock.produce([("a", 1), ("a", 2)], "in", value=int, log=folder / ".penstock" / "log")
        places = {"TMPDIR": "temporary", "XDG_CACHE_HOME": "cache", "HOME": "home"}
        ran = subprocess.run(
            [sys.executable, "-m", "penstock", "run", "app.py", "--available-now"],
            cwd=folder,
            env=os.environ | {variable: str(folder / within) for variable, within in places.items()},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
        assert "ERROR" not in ran.stderr
        assert (folder / ".penstock" / "app" / "spark.log").exists()
        log = folder / ".penstock" / "log"
        assert [row[:2] for row in penstock.consume("out", log=log)] == [("a", 1), ("a", 2)][-1:]

"""The distribution's name: ``penstock-streams``, in every hint. ``penstock`` on PyPI belongs to somebody else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import penstock

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("src", "docs", "examples", "scripts", "tests", "bench")
TEXTS = [*ROOT.glob("*.md"), *(file for name in FOLDERS for file in (ROOT / name).rglob("*.[pm][yd]"))]


def test_the_distribution_has_its_own_name_and_the_version_of_the_code():
    assert (PROJECT["name"], PROJECT["dynamic"]) == ("penstock-streams", ["version", "readme", "urls"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", penstock.__version__)


def test_no_hint_installs_the_project_of_a_stranger():
    strangers = re.compile(r"\bpenstock\[[a-z]+\]|pip install (?:-[-a-z]+ )*'?penstock(?![-\w])")
    found = [f"{file.relative_to(ROOT)}: {hint}" for file in TEXTS for hint in strangers.findall(file.read_text())]
    assert found == []


def test_every_extra_that_a_hint_names_is_one():
    hints = re.compile(r"penstock-streams\[([a-z,]+)\]")
    named = {extra for file in TEXTS for hint in hints.findall(file.read_text()) for extra in hint.split(",")}
    assert named <= PROJECT["optional-dependencies"].keys()
    assert named > {"spark", "kafka"}


def test_pyspark_is_an_extra_and_what_develops_penstock_has_it():
    extras = PROJECT["optional-dependencies"]
    assert not any(one.startswith(("pyspark", "numba")) for one in PROJECT["dependencies"])
    [pyspark] = [one for one in extras["connect"] if one.startswith("pyspark")]
    assert extras["spark"] == [pyspark.replace("[connect]", ""), "penstock-streams[compiled]"]
    assert "penstock-streams[compiled]" in {*extras["connect"]} & {*extras["kafka"]}
    assert "penstock-streams[compiled,connect]" in extras["dev"]


def test_the_project_says_what_it_is_and_names_no_place_that_does_not_exist():
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert "kafka-streams" in PROJECT["keywords"]
    assert all((ROOT / name).exists() for name in PROJECT["license-files"])
    assert "urls" not in PROJECT

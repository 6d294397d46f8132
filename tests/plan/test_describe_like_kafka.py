"""Every oracle case's topology, described letter for letter as Kafka Streams describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.oracle.build import Build

ORACLE = Path(__file__).parents[1] / "oracle"
FILES = {path.stem: path for folder in ("cases", "processors") for path in (ORACLE / folder).glob("*.json")}
DESCRIBED = json.loads((ORACLE / "describe.json").read_text())


def load(name: str) -> Any:
    return json.loads(FILES[name].read_text())


def comparable() -> list[str]:
    """The cases that Kafka Streams accepts, but for those that ask for its optimizer."""
    return [name for name in DESCRIBED if load(name)["config"].get("topology.optimization") != "all"]


@pytest.mark.parametrize("name", comparable())
def test_a_topology_is_described_as_kafka_streams_describes_it(name: str) -> None:
    assert Build(load(name)).topology().describe() == DESCRIBED[name]


def test_there_is_a_description_of_every_case_that_kafka_streams_accepts() -> None:
    rejected = {name for name in FILES if load(name)["expected"].get("error", {}).get("when") == "build"}
    assert set(DESCRIBED) == set(FILES) - rejected

"""docs/coming-from-kafka-streams.md: its program runs, its names exist, and no public one of the DSL is missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.engine.spark.streams import Streams
from penstock.plan.options import option
from penstock.settings import Settings
from penstock.testing import TopologyTestDriver

PAGE = (Path(__file__).parents[1] / "docs" / "coming-from-kafka-streams.md").read_text()
NAMES = re.findall(
    r"`(?:[^`]*[ (])?([A-Z]\w+)\.([a-z]\w*)",
    "\n".join(row.split("|")[2] for row in PAGE.splitlines() if row.startswith("|")),
)
CLASSES = [
    "StreamsBuilder",
    "KStream",
    "BranchedKStream",
    "KGroupedStream",
    "TimeWindowedKStream",
    "SessionWindowedKStream",
    "CogroupedKStream",
    "TimeWindowedCogroupedKStream",
    "SessionWindowedCogroupedKStream",
    "KTable",
    "KGroupedTable",
    "EmitStrategy",
]
NOT_OF_THE_DSL = {("KGroupedStream", "parent_for")}


def class_named(name: str) -> Any:
    return {"Streams": Streams, "TopologyTestDriver": TopologyTestDriver}.get(name) or getattr(penstock, name)


@pytest.mark.parametrize(("name", "method"), sorted(set(NAMES)))
def test_what_the_page_names_exists(name: str, method: str):
    assert hasattr(class_named(name), method)


@pytest.mark.parametrize("name", CLASSES)
def test_everything_public_is_on_the_page(name: str):
    methods = {(name, method) for method in dir(class_named(name)) if not method.startswith("_")}
    assert methods - NOT_OF_THE_DSL - set(NAMES) == set()


@pytest.mark.parametrize(
    "name",
    [
        "Consumed",
        "Produced",
        "Grouped",
        "Repartitioned",
        "Branched",
        "Joined",
        "TableJoined",
        "StreamJoined",
        "Printed",
    ],
)
def test_every_method_of_an_option_object_is_on_the_page(name: str):
    said = {(name, method) for method, given in vars(class_named(name)).items() if isinstance(given, option)}
    assert said
    assert said - set(NAMES) == set()


def test_the_settings_exist():
    section = PAGE.partition("## Settings")[2].partition("## Carry")[0]
    ours = [row.split("|")[2] for row in section.splitlines() if row.startswith("| `")]
    named = {name for row in ours for name in re.findall(r"`([a-z_]+)[`=]", row)}
    assert len(named) > 15
    assert named - set(Settings.__annotations__) - {"application_id", "slots", "at_least_once", "start"} == set()


def test_its_program_gives_the_final_count_of_an_hour():
    program: dict[str, Any] = {}
    exec(compile(PAGE.partition("```python\n")[2].partition("```")[0], "coming-from-kafka-streams.md", "exec"), program)
    with TopologyTestDriver(program["topology"]) as driver:
        driver.pipe_input("clicks", "ann", "/a", 0)
        driver.pipe_input("clicks", "bob", "", 1)
        driver.pipe_input("clicks", "bob", "/a", 3_600_000 - 1)
        driver.pipe_input("clicks", "bob", "/a", 3_900_000)
        [count] = driver.read_output("counts")
    assert (count.key.key, count.key.start, count.value) == ("/a", 0, 2)

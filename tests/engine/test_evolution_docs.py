"""docs/evolution.md: its programs follow on each other with the options that it says, and are refused as it shows."""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from penstock import Topology
from penstock.engine.evolution.matching import Wishes
from penstock.errors import ConfigError, TopologyError
from penstock.log.produce import produce
from penstock.settings import Settings
from support.readme import ROOT
from support.world import World

pytestmark = pytest.mark.kip("KS-12")

TEXT = (ROOT / "docs" / "evolution.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def topologies() -> list[Topology]:
    found = []
    for program in blocks("python"):
        names: dict[str, Any] = {}
        exec(compile(program, "docs/evolution.md", "exec"), names)
        found.append(names["topology"])
    return found


def wishes(command: str) -> Wishes:
    options = shlex.split(command)[3:]
    pairs = list(zip(options[::2], options[1::2], strict=True))
    renamed = dict(value.split("=") for option, value in pairs if option == "--rename")
    return Wishes.of(renamed, [value for option, value in pairs if option == "--drop"])


def run(world: World, topology: Topology, said: Wishes, *flights: tuple[str, str]) -> None:
    world.topology = topology
    produce([(plane, airport, 0) for plane, airport in flights], "flights", value=str, log=world.log, partitions=1)
    application = world.start(wishes=said)
    application.run_until()
    application.close()


def test_the_programs_follow_on_each_other(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    first, second, third = topologies()
    renames, drops, _rescales, requires = map(str.strip, blocks("sh"))
    world = World(tmp_path, first)
    run(world, first, Wishes(), ("A1", "JFK"), ("B2", "JFK"))
    with pytest.raises(ConfigError) as refused:
        run(world, second, Wishes())
    assert [line for line in str(refused.value).splitlines() if line.startswith("- ")] == blocks("text")[0].splitlines()
    with caplog.at_level(logging.WARNING):
        run(world, second, wishes(renames), ("A1", "JFK"))
    assert "store 'all' is new and begins empty" in caplog.text
    run(world, third, wishes(drops), ("A1", "JFK"))
    run(world, third, wishes(drops), ("A1", "EWR"))
    assert world.output("by-airport") == [("JFK", 1), ("JFK", 2), ("JFK", 3), ("JFK", 4), ("EWR", 1)]
    assert world.output("by-plane") == [("A1", 1), ("B2", 1), ("A1", 2)]
    assert world.output("total") == [("all", 1), ("all", 2), ("all", 3)]
    assert requires.endswith("--set require_names=true")


def test_the_programs_have_a_name_that_moves():
    with pytest.raises(TopologyError, match="require_names is set"):
        topologies()[0].completed_by(Settings.load(environment={}, require_names="true"))


def test_each_file_is_there():
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []

"""docs/evolution.md: its programs follow on each other with the options that it says, and are refused as it shows."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock import Topology
from penstock.cli.main import main
from penstock.cli.program import load_program
from penstock.engine.evolution.matching import Wishes
from penstock.engine.local import LocalApplication
from penstock.engine.shared.program import ProgramFile
from penstock.errors import ConfigError, TopologyError
from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
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
    renames, drops, _, requires = map(str.strip, blocks("sh"))
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


FLIGHTS = [[(f"{letter}{n}", "JFK" if n % 3 else "EWR", 0) for n in range(20)] for letter in "ABA"]
"""What is read before the steps of a rescale, before its application stops, and after them."""


@pytest.mark.parametrize("number", range(3))
def test_the_steps_of_a_rescale_go_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    """By the commands, with the program in this process in place of Spark."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "app", raising=False)
    Path("app.py").write_text(blocks("python")[number])
    log = FileLog(Path(".penstock/log"))
    rescales = [step for step in blocks("sh")[2].splitlines() if step]
    run_here(log)
    produce(FLIGHTS[1], "flights", value=str, log=log)
    ran = []
    for step in rescales:
        if step.startswith("penstock run"):
            if ran:  # what comes is spread over all partitions
                produce(FLIGHTS[2], "flights", value=str, log=log)
            run_here(log)
        else:
            ran.append(CliRunner().invoke(main, shlex.split(step)[1:]))
    asked, repartitioned, planned, executed = ran
    assert [one.exit_code for one in ran] == [1, 0, 0, 0]
    assert "no source has another number of partitions than before: 'flights' (2). The state can move" in (asked.stderr)
    assert "Topic flights has 8 partitions, and had 2." in repartitioned.stderr
    assert planned.stdout == executed.stdout
    assert planned.stderr == "Nothing was changed; --execute does it.\n"
    assert executed.stderr.startswith("Done, as commit ")
    flights = [flight for some in FLIGHTS for flight in some]
    expected = {
        "by-airport": Counter(airport for _, airport, _ in flights),
        "by-plane": Counter(plane for plane, _, _ in flights),
        "total": {"all": len(flights)},
    }
    written = load_program("app.py").sink_topics
    assert written
    assert {topic: {r.key: r.value for r in consume(topic, log=log)} for topic in written} == {
        topic: expected[topic] for topic in written
    }


def run_here(log: FileLog) -> None:
    """The program ``app.py`` over all there is, with two partitions of flights at first."""
    if not log.exists("flights"):
        produce(FLIGHTS[0], "flights", value=str, log=log, partitions=2)
    file, state = Path("app.py").resolve(), Path(".penstock/app").resolve()
    application = LocalApplication(
        load_program(str(file)),
        "app",
        Settings.load(state_dir=state),
        log,
        LocalStorage(state / "checkpoint"),
        state / "tasks",
        program=ProgramFile(file, "topology", False),
    )
    application.run_until()
    application.close()


def test_the_programs_have_a_name_that_moves():
    with pytest.raises(TopologyError, match="require_names is set"):
        topologies()[0].completed_by(Settings.load(environment={}, require_names="true"))


def test_each_file_is_there():
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []

"""The promises of the README and of the pages that go on from it: programs run, commands print what they show."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock import StreamsBuilder, dsl
from support import readme

HELLO = readme.ROOT / "examples" / "hello" / "app.py"
PAGES = ("running.md", "testing.md", "topics.md", "processors.md")
"""The pages with snippets that need no more than the README's program."""
[PROGRAM] = readme.blocks("python")
SNIPPETS = [snippet for page in PAGES for snippet in readme.blocks("python", readme.page(page))]
ON_SPARK = [snippet for snippet in SNIPPETS if "spark" in snippet or ".start(" in snippet]
WITHOUT_SPARK = [snippet for snippet in SNIPPETS if snippet not in ON_SPARK]
FOLDER = "/home/you/words"
"""Where the pages have their program."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's folder, with the program in it."""
    shutil.copy(HELLO, tmp_path)
    return tmp_path


def run(command: list[str], folder: Path) -> tuple[list[str], list[str]]:
    """The lines that a command printed, on its output and beside it; times are blanked, the folder is the pages'."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(folder)}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    there = str(folder.resolve())
    return lines_of(ran.stdout.replace(there, FOLDER)), lines_of(ran.stderr.replace(there, FOLDER))


def lines_of(text: str) -> list[str]:
    return [TIME.sub("TIME", line).rstrip() for line in text.splitlines()]


def test_the_program_of_the_readme_is_the_example():
    assert HELLO.read_text() == PROGRAM


def test_there_are_snippets_with_and_without_spark():
    assert (len(WITHOUT_SPARK), len(ON_SPARK)) == (7, 2)


@pytest.mark.parametrize("snippet", WITHOUT_SPARK)
def test_a_snippet_runs(snippet: str, folder: Path):
    assert run([sys.executable, "-c", snippet], folder) == ([], [])


@pytest.mark.slow
def test_the_commands_print_what_the_pages_show_and_the_snippets_on_spark_go_on_from_there(folder: Path):
    for step in readme.console_steps() + readme.console_steps(readme.page("running.md")):
        goes_on = "tail counts" in step.command
        if goes_on:  # the page has the program running meanwhile
            run(["penstock", "run", "app.py:topology", "--available-now"], folder)
        printed, beside = run(["sh", "-c", step.command], folder)
        shown = lines_of("\n".join(step.shown))
        assert [line for line in shown if line not in beside] == printed, step.command
        assert [line for line in beside if line not in shown] == [], step.command
    store, dataframes = ON_SPARK
    printed, _ = run([sys.executable, "-c", store], folder)
    assert printed[-1].startswith("3 ")
    [producing] = [snippet for snippet in WITHOUT_SPARK if '"departures", partitions' in snippet]
    run([sys.executable, "-c", producing], folder)
    printed, _ = run([sys.executable, "-c", dataframes], folder)
    table = [[cell.strip() for cell in line.split("|")[1:3]] for line in printed if line.startswith("|")]
    assert sorted(table[1:]) == [
        ["EWR", '{"airport":"EWR","delay":7}'],
        ["JFK", '{"airport":"JFK","delay":9}'],
        ["JFK", '{"delay":5}'],
        ["LGA", '{"delay":2}'],
    ]


def test_without_java_the_first_program_runs_without_spark_and_gives_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    for step in readme.console_steps():
        printed, beside = run(["sh", "-c", step.command], folder)
        shown = lines_of("\n".join(step.shown).replace("starting Spark ...", "running without Spark: there is no Java"))
        assert sorted(shown) == sorted(printed + beside), step.command


def steps() -> set[str]:
    """The methods of streams, tables and what they are grouped into."""
    modules = [importlib.import_module(f"penstock.dsl.{found.name}") for found in pkgutil.iter_modules(dsl.__path__)]
    kinds = {kind for module in modules for name, kind in vars(module).items() if name[0] == "K" or "KStream" in name}
    members = [member for kind in {StreamsBuilder, *kinds} if isinstance(kind, type) for member in vars(kind).items()]
    return {name for name, member in members if callable(member) and not name.startswith("_")}


def test_the_tables_of_the_dsl_name_every_step_and_all_windows():
    windows = {name for name in penstock.__all__ if name.endswith("Windows")}
    inner = {"build", "parent_for", "default_branch", "no_default_branch"}
    assert (steps() | windows) - set(re.findall(r"\w+", readme.page("dsl.md"))) == inner


def test_nothing_is_said_to_be_missing_and_what_is_said_to_have_no_effect_is_there():
    first = readme.page("limits.md").partition("\n\n")[2].partition("\n\n## ")[0]
    assert first.startswith("If Penstock lacks a feature of Kafka Streams, it also lacks the method")
    public = [getattr(penstock, name) for name in penstock.__all__]  # vars() has only what was used before
    kinds = [kind for kind in public if isinstance(kind, type)]
    told = {name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", first)}
    assert {name for name in told if not any(hasattr(one, name) for one in (penstock, *kinds))} == set()


def test_the_links_lead_to_files():
    targets = re.findall(r"\]\(([^)#:]+)\)", readme.README)
    assert "ARCHITECTURE.md" in targets
    assert [target for target in targets if not (readme.ROOT / target).exists()] == []

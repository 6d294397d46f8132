"""The command line as a whole."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from penstock.cli.main import main
from penstock.cli.topics import topics


@pytest.mark.parametrize(
    ("words", "meant"),
    [(("start", "app.py"), "run"), (("topics", "delete", "orders"), "rm"), (("state", "list", "app"), "ls")],
)
def test_a_command_of_another_tool_names_the_one_here(penstock: Any, words: tuple[str, ...], meant: str):
    code, out, err = penstock(*words)
    wrong = next(word for word in words if word not in ("topics", "state"))
    assert (code, out, err[-1]) == (2, [], f"Error: No such command {wrong!r}. Did you mean {meant!r}?")


def test_the_shell_completes_commands_as_the_docs_say(folder):
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    assert "_PENSTOCK_COMPLETE=bash_source penstock" in page
    asked = {"COMP_WORDS": "penstock top", "COMP_CWORD": "1", "_PENSTOCK_COMPLETE": "bash_complete"}
    program = "from penstock.cli.main import main; main(prog_name='penstock')"
    ran = subprocess.run([sys.executable, "-c", program], env=os.environ | asked, capture_output=True, text=True)
    assert ran.stdout.split() == ["plain,topics", "plain,topology"]


def test_it_runs_where_penstock_is_not_on_the_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "argv", ["penstock", "topics", "ls"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("penstock", run_name="__main__")
    told = f"There are no topics in {Path.cwd()}/.penstock/log. Make one: penstock topics create NAME\n"
    assert (ended.value.code, *capsys.readouterr()) == (0, "", told)


@pytest.mark.parametrize("group", [main, topics], ids=["main", "topics"])
def test_the_list_of_commands_says_what_each_command_says_itself(group: Any):
    context = click.Context(group)
    for name, (_, line) in group.commands_in.items():
        command = group.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert line == " ".join((command.help or "").split("\n\n")[0].split())


def test_a_command_that_is_misspelled_is_guessed(penstock):
    ran = penstock("topic", "ls")
    assert ran.code == 2
    assert ran.err[-1] == "Error: No such command 'topic'. Did you mean 'topics'?"


@pytest.mark.parametrize(
    "command", [["run", "app.py"], ["topology", "app:topology"], ["topics", "cat", "words"], ["doctor"]]
)
def test_a_current_folder_that_was_removed_is_told(penstock, folder, monkeypatch, command):
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, _, err = penstock(*command)
    assert (code, err) == (1, ["Error: the current folder was removed; change into one that exists"])

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from penstock.cli.main import main


class Ran(NamedTuple):
    """What a command left: its exit code, and the lines on its output and beside it."""

    code: int
    out: list[str]
    err: list[str]


Penstock = Callable[..., Ran]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder of the commands, with no settings from outside; modules loaded from it are forgotten."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def penstock() -> Penstock:
    """Runs the command line in this process."""

    def run(*arguments: str, stdin: str | bytes = "") -> Ran:
        ran = CliRunner().invoke(main, arguments, input=stdin, catch_exceptions=False)
        return Ran(ran.exit_code, _lines(ran.stdout), _lines(ran.stderr))

    return run


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]

"""The command line as a whole."""

from __future__ import annotations

import runpy
import sys

import pytest


def test_it_runs_where_penstock_is_not_on_the_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "argv", ["penstock", "topics", "ls"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("penstock", run_name="__main__")
    told = "There are no topics in .penstock/log. Make one: penstock topics create NAME\n"
    assert (ended.value.code, *capsys.readouterr()) == (0, "", told)

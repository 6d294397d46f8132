"""docs/looking.md: its programs run, its pictures are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.readme import ROOT
from support.watched import SOLD, Shop, shop_topology

TEXT = (ROOT / "docs" / "looking.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_there_are_programs():
    assert len(PROGRAMS) == 2


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program).split()[1])
def test_each_program_runs(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("opentelemetry.metrics", reason="comes with penstock-streams[dev]")
    monkeypatch.chdir(tmp_path)
    Shop(tmp_path / ".penstock" / "app", shop_topology()).sell(*SOLD)
    exec(compile(program, "docs/looking.md", "exec"), {})


def test_each_picture_and_file_is_there():
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert "pictures/page-light.png" in links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []

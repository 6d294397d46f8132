"""`make docs`: the nav names every page, and the site is built with every link checked and nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_the_nav_names_every_page():
    """Decisions with numbers are added by a hook; the strict build fails for one that is missing."""
    named = re.findall(r"[\w/.-]+\.md$", CONFIG.partition("\nnav:\n")[2], re.MULTILINE)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    pages = {page for page in pages if not page.startswith("decisions/0")}
    brought_in = {"documentation.md", "figures.md", "changelog.md", "architecture.md", "contributing.md", "security.md"}
    assert sorted(named) == sorted(pages | brought_in)


@pytest.mark.slow
def test_the_site_is_built_and_takes_nothing_from_elsewhere(tmp_path: Path):
    pytest.importorskip("mkdocs", reason="comes with penstock[docs]")
    # not --quiet: it has mkdocs drop the warnings that --strict counts, and a broken link passes
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page: page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > 60
    taken = r"<(?:script|img|link)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^\"' >]*|@import[^;]*//[^;]*"
    assert {found for text in pages.values() for found in re.findall(taken, text)} == set()
    assert 'href="source/examples/flights/topology.py.html"' in pages[tmp_path / "site" / "examples.html"]
    assert 'id="penstock.KStream.filter"' in pages[tmp_path / "site" / "reference" / "streams.html"]

"""`make docs`: the nav names every page, and the site is built with every link checked and nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.browser import Browser, chromium

ROOT = Path(__file__).parents[1]
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_the_nav_names_every_page():
    """Decisions with numbers are added by a hook; the strict build fails for one that is missing."""
    named = re.findall(r"[\w/.-]+\.md$", CONFIG.partition("\nnav:\n")[2], re.MULTILINE)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    pages = {page for page in pages if not page.startswith("decisions/0")}
    brought_in = {"documentation.md", "figures.md", "changelog.md", "architecture.md", "contributing.md", "security.md"}
    assert sorted(named) == sorted(pages | brought_in)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built."""
    pytest.importorskip("mkdocs", reason="comes with penstock-streams[docs]")
    folder = tmp_path_factory.mktemp("docs") / "site"
    # not --quiet: it has mkdocs drop the warnings that --strict counts, and a broken link passes
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_built_and_takes_nothing_from_elsewhere(site: Path):
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert len(pages) > 60
    taken = r"<(?:script|img|link)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^\"' >]*|@import[^;]*//[^;]*"
    assert {found for text in pages.values() for found in re.findall(taken, text)} == set()
    assert 'href="source/examples/flights/topology.py.html"' in pages[site / "examples.html"]
    assert 'id="penstock.KStream.filter"' in pages[site / "reference" / "streams.html"]


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
def test_the_site_can_be_searched_from_its_folder(site: Path):
    with Browser() as browser:
        browser.open((site / "index.html").as_uri())
        browser.click("[data-md-toggle=search]")
        browser.wait("document.querySelector('.md-search-result__meta').innerText.startsWith('Type')")
        browser.value(
            "(input => {input.value = 'session windows'; input.dispatchEvent(new KeyboardEvent('keyup'))})"
            "(document.querySelector('.md-search__input'))"
        )
        browser.wait("document.querySelectorAll('.md-search-result__item').length > 2")
        assert browser.complaints() == []

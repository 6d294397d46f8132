"""`make docs`: the nav names every page, and the site is built with every link checked and nothing from elsewhere."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.browser import Browser, chromium

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "scripts" / "site_pages.py"
NAV = "\nnav:\n"
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_the_nav_names_every_page():
    """``scripts/site_pages.py`` adds the decisions with numbers."""
    named = re.findall(r"[\w/.-]+\.md$", CONFIG.partition(NAV)[2], re.MULTILINE)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    pages = {page for page in pages if not page.startswith("decisions/0")}
    brought_in = {"documentation.md", "figures.md", "changelog.md", "architecture.md", "contributing.md", "security.md"}
    assert sorted(named) == sorted(pages | brought_in)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built."""
    pytest.importorskip("zensical", reason="comes with penstock-streams[docs]")
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = subprocess.run([sys.executable, str(BUILD), str(folder)], capture_output=True, text=True)
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
    assert len(list((site / "decisions").glob("0*.html"))) == len(list((ROOT / "docs" / "decisions").glob("0*.md")))
    missing = [
        f"{page.relative_to(site)}: {picture}"
        for page, text in pages.items()
        for picture in re.findall(r"<img\b[^>]*\bsrc=\"?([^\" >]+)", text)
        if not picture.startswith("data:") and not (page.parent / picture).exists()
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("link", "is_found"), [("more.md#here", True), ("more.md#nowhere", False), ("none.md", False)], ids=str
)
def test_a_link_that_leads_nowhere_fails_the_build(
    link: str, is_found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("zensical", reason="comes with penstock-streams[docs]")
    monkeypatch.syspath_prepend(BUILD.parent)
    pages = importlib.import_module("site_pages")
    files = {
        "mkdocs.yml": f"{CONFIG.partition(NAV)[0]}\nnav: [Home: README.md, Decisions: []]\n",
        "README.md": f"# Home\n\n[A link]({link.replace('more', 'docs/more')})\n",
        "docs/more.md": "# More\n\n## Here\n",
        "scripts/reference.py": (BUILD.parent / "reference.py").read_text(encoding="utf-8"),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "PAGES", {"README.md": "README.md"})
    monkeypatch.setattr(pages, "ORIGINS", {"README.md": "README.md"})
    assert (pages.build(tmp_path / "site") == 0) is is_found


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
def test_the_site_can_be_searched_from_its_folder(site: Path):
    with Browser() as browser:
        browser.open((site / "index.html").as_uri())
        browser.wait("!!document.querySelector('.md-search__button')")
        browser.click(".md-search__button")
        search = "[...document.querySelectorAll('div')].find(one => one.shadowRoot?.querySelector('input'))?.shadowRoot"
        browser.wait(f"!!{search}", "the search")
        typed = "(input => {input.value = 'session windows'; input.dispatchEvent(new Event('input', {bubbles: true}))})"
        browser.value(f"{typed}({search}.querySelector('input'))")
        browser.wait(f"{search}.querySelectorAll('a').length > 2", "what it finds")
        assert browser.complaints() == []


def site_of(folder: Path) -> Path:
    """A site with the files that versions need."""
    (folder / "assets").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "assets" / "versions.js", folder / "assets")
    return folder


def added(*given: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "site_versions.py"), *map(str, given)]
    return subprocess.run(command, capture_output=True, text=True)


def test_versions_stand_beside_each_other_the_newest_first(tmp_path: Path):
    site, folder = site_of(tmp_path / "site"), tmp_path / "versions"
    for version in ("0.9.0", "0.10.0rc1", "0.10.0", "0.2.0"):
        assert added(site, folder, version).returncode == 0
    last = added(site, folder, "0.9.0").stdout
    assert last == f"{folder / 'index.html'} has 0.10.0, 0.10.0rc1, 0.9.0, 0.2.0.\n"
    lists = {one.read_text() for one in folder.glob("*/assets/versions.js")}
    assert lists == {'var penstockVersions = ["0.10.0", "0.10.0rc1", "0.9.0", "0.2.0"];\n'}
    assert 'url=0.10.0/index.html"' in (folder / "index.html").read_text()
    assert added(site, folder, "../1").stderr.startswith("a version is letters, digits, dots, + and -; got '../1'")
    assert added(tmp_path, folder, "1.0").stderr.startswith(f"{tmp_path} is no site that `make docs` has built")


class QuietHandler(SimpleHTTPRequestHandler):
    """A host that does not tell of requests."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
def test_the_head_of_a_page_lists_the_versions_from_a_folder_and_on_a_host(site: Path, tmp_path: Path):
    for version in ("0.1.0", "0.2.0"):
        assert added(site, tmp_path, version).returncode == 0
    handler, chosen = partial(QuietHandler, directory=str(tmp_path)), "document.querySelector('.penstock-versions')"
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, Browser() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for address in (tmp_path.as_uri(), f"http://127.0.0.1:{server.server_port}"):
            browser.open(f"{address}/0.1.0/reference/streams.html")
            browser.wait(f"!!{chosen}", "the list of versions")
            assert browser.value(f"[{chosen}.value, {chosen}.length]") == ["0.1.0", 2]
            browser.value(f"{chosen}.value = '0.2.0'; {chosen}.dispatchEvent(new Event('change'))")
            browser.wait("location.pathname.endsWith('/0.2.0/index.html')", "the other version")
            browser.wait(f"{chosen}?.value == '0.2.0'", "its list")
        server.shutdown()
        assert browser.complaints() == []

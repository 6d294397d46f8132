"""The pages: each is in the index, each link leads somewhere, and the files that they name are there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from penstock.cli.main import main
from penstock.cli.topics import topics

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
HEAD = re.compile(
    r"# \d{4}: .+\n\n"
    r"- \*\*Status\*\*: (?:holds|(?:partly )?replaced by \[\d{4}\]).*\n"
    r"- \*\*In one sentence\*\*: .+\.\n"
    r"- \*\*Where in the code\*\*: `.+`\n"
)
WINGS = ["shared", "task", "timing", "commit", "operate"]
LISTED = [
    ".",
    "engine",
    *(f"engine/{wing}" for wing in WINGS),
    "engine/slots",
    "engine/spark",
    "log",
    "log/file",
    "log/kafka",
    "query",
    "watch",
]
"""The folders of which ARCHITECTURE.md names every module."""
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_index_has_every_page():
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md", "releasing.md"}
    assert {page for page in pages if f"]({page})" not in index} == set()


def test_the_page_of_commands_names_every_command():
    rows = [
        line for line in (ROOT / "docs" / "commands.md").read_text().splitlines() if line.startswith("| `penstock ")
    ]
    of_topics = "\n".join(row for row in rows if row.startswith("| `penstock topics "))
    assert set(main.commands_in) - set(re.findall(r"`penstock (\w+)", "\n".join(rows))) == set()
    assert set(topics.list_commands(click.Context(topics))) - set(re.findall(r"\w+", of_topics)) == set()


def test_what_operations_tells_to_type_is_there():
    text = (ROOT / "docs" / "operations.md").read_text()
    commands = set(re.findall(r"`penstock (\w+)", text))
    known = set(main.commands_in)
    assert commands - known == set()


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name[:4])
def test_a_decision_begins_with_whether_it_holds_what_it_says_and_where_it_is(page: Path):
    head = HEAD.match(page.read_text())
    assert head is not None
    named = re.findall(r"`([^`]+)`", head[0].splitlines()[-1])
    assert [path for path in named if not is_there(path)] == []


def test_the_index_of_decisions_has_each_in_their_order():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    assert re.findall(r"^\| \[\d{4}\]\((0[^)]+\.md)\)", index, re.MULTILINE) == [page.name for page in DECISIONS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_file_of_the_project_that_a_page_names_is_there(page: Path):
    folders = "|".join(sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()))
    named = re.findall(rf"`((?:src|tests|docs|bench|scripts|examples|{folders})/[\w./-]+)`", page.read_text())
    assert [path for path in named if not is_there(path)] == []


def test_the_architecture_names_every_module_of_the_engine_the_logs_and_what_reads_them():
    named = set(re.findall(r"`(?:[\w]+/)*(\w+\.py)`", (ROOT / "ARCHITECTURE.md").read_text()))
    modules = [path for folder in LISTED for path in (SOURCE / folder).glob("*.py") if path.name != "__init__.py"]
    assert [str(path.relative_to(SOURCE)) for path in modules if path.name not in named] == []


def test_the_plot_of_the_readme_is_drawn_from_the_newest_results(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import plot

    figures = plot.newest()
    assert list(figures) != []
    assert set(figures) == set(plot.SHOWN)
    assert plot.drawn(figures) == plot.PICTURE.read_text(encoding="utf-8"), "make pictures draws it again"


def is_there(path: str) -> bool:
    """Whether a path is one of the repository's, or of the package's."""
    return (ROOT / path).exists() or (SOURCE / path).exists()

"""The pages in docs/: each is in the index, and each link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_index_has_every_page():
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md", "releasing.md"}
    assert {page for page in pages if f"]({page})" not in index} == set()


def test_what_operations_tells_to_type_is_there():
    text = (ROOT / "docs" / "operations.md").read_text()
    commands = set(re.findall(r"`penstock (\w+)", text))
    known = set(main.commands)
    assert commands - known == set()

"""The API reference: every public name is on exactly one page, with an example, and the text becomes Markdown."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import errors, serdes, sinks, sources, testing
from penstock.settings import Settings

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
PACKAGES = (penstock, testing, serdes, sinks, sources)
PUBLIC = {f"{package.__name__}.{name}": getattr(package, name) for package in PACKAGES for name in package.__all__}


def named() -> list[str]:
    """The names that the pages show, in order."""
    return [name for page in PAGES for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)]


def test_every_public_name_is_on_exactly_one_page():
    assert sorted(named()) == sorted([*PUBLIC, "penstock.settings.Settings"])


def test_the_index_leads_to_every_page():
    index = (ROOT / "docs" / "reference" / "README.md").read_text(encoding="utf-8")
    assert {page.name for page in PAGES if f"]({page.name})" not in index} == {"README.md"}


def texts(thing: Any) -> list[str]:
    """The docstrings of a name: its own, or its class's where it is a value, and those of its methods."""
    kind = thing if inspect.isclass(thing) or inspect.isfunction(thing) else type(thing)
    members = vars(kind).values() if inspect.isclass(kind) else ()
    return [inspect.getdoc(each) or "" for each in (kind, *members)]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_has_an_example(name: str):
    assert any(">>> " in text for text in texts(PUBLIC[name])), f"{name} has no example"


def test_the_page_of_errors_draws_their_tree_as_the_module_does():
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8").replace("`", "")
    drawn = [line for line in (inspect.getdoc(errors) or "").replace("`", "").splitlines() if "──" in line]
    assert len(drawn) > 15
    assert [line for line in drawn if line not in page] == []


def test_settings_describe_each_of_their_fields():
    described = set(re.findall(r"^    (\w+): ", inspect.getdoc(Settings) or "", re.M))
    fields = {name for name in Settings.__dataclass_fields__ if not name.startswith("_")}
    assert fields - described == set()


def test_a_docstring_becomes_markdown_with_fenced_examples_and_links(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("griffe", reason="comes with penstock-streams[docs]")
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.delitem(sys.modules, "reference", raising=False)
    from reference import as_markdown

    text = "See :class:`penstock.Record` and :meth:`unbounded`.\n\n>>> 1 + 1\n2\n\nArgs:\n    one: it."
    assert as_markdown(text) == (
        "See [`Record`][penstock.Record] and `unbounded`.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nArgs:\n    one: it."
    )

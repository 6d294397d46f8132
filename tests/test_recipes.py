"""docs/recipes.md: each program runs, and gives what it says."""

from __future__ import annotations

import re

import pytest

from support.readme import ROOT

TEXT = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_each_recipe_has_a_program():
    assert [title for title, _ in RECIPES] == re.findall(r"^## (.+)$", TEXT, re.MULTILINE) != []


@pytest.mark.parametrize("program", [program for _, program in RECIPES], ids=[title for title, _ in RECIPES])
def test_each_recipe_gives_what_it_says(program: str):
    exec(compile(program, "docs/recipes.md", "exec"), {})

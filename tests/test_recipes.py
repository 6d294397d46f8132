"""docs/recipes.md: each program runs, and gives what it says."""

from __future__ import annotations

import re

import pytest
from _pytest.mark import ParameterSet

from support.readme import ROOT

TEXT = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_each_recipe_has_a_program():
    assert [title for title, _ in RECIPES] == re.findall(r"^## (.+)$", TEXT, re.MULTILINE) != []


def _case(title: str, program: str) -> ParameterSet:
    return pytest.param(program, id=title, marks=[pytest.mark.slow] if ".start(" in program else [])


@pytest.mark.parametrize("program", [_case(*recipe) for recipe in RECIPES])
def test_each_recipe_gives_what_it_says(program: str):
    exec(compile(program, "docs/recipes.md", "exec"), {})

"""docs/operators.md: each program gives the picture under it, and every operator of the DSL has its place."""

from __future__ import annotations

import re

import pytest

from penstock import KGroupedStream, KGroupedTable, KStream, KTable, SessionWindowedKStream, TimeWindowedKStream
from support.operators import PAGE, drawn, examples

TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = examples(TEXT)


def test_each_example_has_a_program_and_a_picture():
    assert [title for title, _, _ in EXAMPLES] == re.findall(r"^### (.+)$", TEXT, re.MULTILINE) != []


@pytest.mark.parametrize(("program", "picture"), [pytest.param(*rest, id=title) for title, *rest in EXAMPLES])
def test_each_program_gives_its_picture(program: str, picture: str):
    assert drawn(program) == picture


def test_every_operator_of_the_dsl_is_used_in_an_example():
    classes = (KStream, KTable, KGroupedStream, KGroupedTable, TimeWindowedKStream, SessionWindowedKStream)
    operators = {name for one in classes for name in dir(one) if not name.startswith("_")}
    elsewhere = {"print", "parent_for", "queryable_store_name"}  # prints where it runs; not for programs; a name
    programs = "".join(program for _, program, _ in EXAMPLES)
    titles = " ".join(title for title, _, _ in EXAMPLES)
    missing = {name for name in operators if f".{name}(" not in programs and name not in titles}
    assert missing <= elsewhere, missing - elsewhere

"""The prose linter: what it finds in Markdown, and that its rules can be read."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def prose(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("griffe", reason="comes with penstock-streams[docs]")
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    for module in ("prose", "reference"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    import prose

    return prose


def said(prose: ModuleType, page: str) -> list[tuple[str, str]]:
    return [(found.place, found.said.partition(":")[0]) for found in prose.check(page, "page.md", prose.rules())]


def test_a_phrase_to_avoid_is_found_with_its_line_in_paragraphs_items_cells_and_headings(prose: ModuleType):
    page = "# Whoever\n\nThe file\nof before.\n\n- made anew\n\n| a | b |\n|---|---|\n| for ever | x |\n"
    expected = [("1", "'Whoever'"), ("3", "'of before'"), ("6", "'anew'"), ("10", "'for ever'")]
    assert said(prose, page) == [(f"page.md:{line}", phrase) for line, phrase in expected]


def test_code_is_no_prose(prose: ModuleType):
    assert said(prose, "Call `anew`.\n\n```python\nanew = 1\n```\n\n::: penstock.anew\n") == []


def test_a_sentence_is_long_beyond_35_words_and_a_list_of_names_is_one(prose: ModuleType):
    names = ", ".join(["`name`"] * 50)
    assert said(prose, "word " * 35 + f".\n\nThese are {names}.\n") == []
    assert said(prose, "word " * 36 + ".\n") == [("page.md:1", "36 words in a sentence")]


def test_a_line_may_be_allowed(prose: ModuleType):
    assert said(prose, "He said: made anew. <!-- prose: ok -->\n") == []


def test_readme_architecture_changelog_and_all_pages_are_checked(prose: ModuleType):
    names = {page.name for page in prose.pages()}
    assert {"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "1-first-program.md", "0001-spark-skeleton.md"} <= names


def test_docstrings_of_the_reference_are_checked_without_their_examples(prose: ModuleType):
    found = dict(prose.docstrings())
    [text] = [text for place, text in found.items() if place.endswith(" map_values") and "stateless" in place]
    assert any(place.startswith("src/penstock/settings.py") for place in found)
    assert len(found) > 400
    assert [one.words for one in prose.texts(text) if ">>>" in one.words] == []


SOURCE = """
class Files:
    \"\"\"Files of before.

    >>> anew
    \"\"\"

    room: int
    \"\"\"What is left of the room, for ever.\"\"\"

    def _open(self, name: str) -> None:
        raise OSError(f"{name}: whoever reads {', '.join('anew')} " + "made it anew.", [f"for {name} ever"])
"""


def test_inside_docstrings_texts_of_attributes_and_messages_are_checked_in_the_order_of_the_file(
    prose: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "files.py").write_text(SOURCE)
    found = [(finding.place, finding.said.partition(":")[0]) for finding in prose.check_inside([str(tmp_path)])]
    assert found == [
        ("files.py:3", "'of before'"),
        ("files.py:9", "'for ever'"),
        ("files.py:9", "'What'"),
        ("files.py:12", "'whoever'"),
        ("files.py:12", "'anew'"),
    ]


def test_inside_a_hole_of_a_message_is_one_word(prose: ModuleType):
    [text] = prose.inside('raise ValueError(f"{first + second} of {[one for one in many]!r}" + str(third) + "!")\n')
    assert text.words == "CODE of CODECODE!"

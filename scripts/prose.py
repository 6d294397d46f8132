"""Check the English of everything by scripts/prose.toml: phrases and long sentences.

.venv/bin/python scripts/prose.py [FILE ...]
.venv/bin/python scripts/prose.py --inside [PATH ...]

Without arguments it checks README, ARCHITECTURE, docs, CHANGELOG and public docstrings, and then the source; with
files, these pages alone. With ``--inside`` it checks the source alone, all of it or the files and folders given:
docstrings, the texts of attributes, and the messages of errors.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any, NamedTuple

import griffe
from reference import as_markdown

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "penstock"
RULES = Path(__file__).with_name("prose.toml")
ALLOWED = "<!-- prose: ok -->"
FENCE = re.compile(r"^\s*(```|~~~)")
NO_PROSE = re.compile(r"^\s*(:::|<|!\[|\[[^\]]+\]:|---)")
ITEM = re.compile(r"^\s*([-*]|\d+\.)\s+")
NAMES = re.compile(r"CODE(?:(?:,| and|,? or|, and) CODE)+")
"""A list of names, which is read as one word."""
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`*\"(\[])")


class Text(NamedTuple):
    """A paragraph, a list item or a table cell, with the number of its first line. Cells may be long."""

    line: int
    words: str
    is_cell: bool = False


class Finding(NamedTuple):
    """A place that breaks a rule."""

    place: str
    said: str


class Rules(NamedTuple):
    """The rule set: patterns with advice, and how long a sentence may be."""

    phrases: list[tuple[re.Pattern[str], str]]
    max_words: int


def rules(*, inside: bool = False) -> Rules:
    """Return the rule set of prose.toml; `inside` adds the rules for docstrings and messages of the source."""
    file = tomllib.loads(RULES.read_text(encoding="utf-8"))
    phrases = file["rules"] | (file["inside"] if inside else {})
    patterns = [(re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE), advice) for phrase, advice in phrases.items()]
    return Rules(patterns, file["max_words"])


def texts(markdown: str) -> Iterator[Text]:
    """Yield the prose of a page: no code, no links' targets, no tables' rules."""
    start, lines, is_code = 0, [], False
    for number, line in enumerate([*markdown.splitlines(), ""], 1):
        if FENCE.match(line):
            is_code = not is_code
            continue
        if is_code:
            continue
        is_new = not line.strip() or line.startswith(("#", "|")) or ITEM.match(line) or NO_PROSE.match(line)
        if is_new and lines:
            yield Text(start, plain(" ".join(lines)))
            lines = []
        if not line.strip() or NO_PROSE.match(line) or ALLOWED in line:
            continue
        if line.startswith("|"):
            yield from (Text(number, plain(cell), is_cell=True) for cell in line.strip("| ").split(" | "))
        elif line.startswith("#"):
            yield Text(number, plain(line.lstrip("# ")))
        else:
            start = start if lines else number
            lines.append(ITEM.sub("", line).strip())


def plain(markdown: str) -> str:
    """Return text without markup; code counts as one word."""
    text = NAMES.sub("CODE", re.sub(r"``[^`]*``|`[^`]*`", "CODE", markdown))
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*\*|__|(?<!\w)[*_]|[*_](?!\w)", "", text).strip()


def check(page: str, name: str, given: Rules) -> list[Finding]:
    """Return what a page's text breaks."""
    found = []
    for text in texts(page):
        place = f"{name}:{text.line}"
        for pattern, advice in given.phrases:
            found += [Finding(place, f"{match[0]!r}: {advice}") for match in pattern.finditer(text.words)]
        for sentence in [] if text.is_cell else SENTENCE.split(text.words):
            words = len(re.findall(r"[^\W\d][\w'’-]*", sentence))
            if words > given.max_words:
                found.append(Finding(place, f"{words} words in a sentence: {sentence[:70]} ..."))
    return found


def pages() -> list[Path]:
    """Return the pages that are checked."""
    return [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


SECTION = re.compile(r"^(Args|Attributes|Raises|Returns):$", re.MULTILINE)
ARGUMENT = re.compile(r"^ +[\w.*]+: ", re.MULTILINE)


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the place and the text, as Markdown, of each docstring that the API reference shows."""
    package = griffe.load("penstock", search_paths=[ROOT / "src"], resolve_aliases=True)
    pages = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md"))]
    names = [name for page in pages for name in re.findall(r"^::: penstock\.(\S+)$", page, re.MULTILINE)]
    for one in dict.fromkeys(each for name in names for each in _shown(package[name])):
        if one.docstring is not None:
            text = as_markdown(one.docstring.value)
            yield f"{one.relative_filepath}:{one.docstring.lineno} {one.name}", _listed(text)


def _shown(one: Any) -> Iterator[Any]:
    """Yield what has a place in the reference under a name: the object itself, and a class's public members."""
    target = one.final_target if one.is_alias else one
    yield target
    if target.is_class:
        for name, member in target.all_members.items():
            if not name.startswith("_"):
                yield from _shown(member)


def _listed(docstring: str) -> str:
    """Return a docstring with its arguments as items of a list."""
    return ARGUMENT.sub("- ", SECTION.sub("", docstring))


TABLE = re.compile(r"^ *\S.* {3,}\S.*$", re.MULTILINE)
"""A line of a drawing or of a table without rules, with wide gaps in it."""


VERBATIM = re.compile(r"^\x08\n(?:.+\n?)*", re.MULTILINE)
"""A paragraph that click prints unchanged: examples of commands."""


def inside(source: str) -> Iterator[Text]:
    """Yield the docstrings, the texts of attributes and the messages of errors in a file, as Markdown, in its order."""
    texts_found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose = VERBATIM.sub("", TABLE.sub("", cleandoc(node.value.value)))
            texts_found.append(Text(node.lineno, _listed(as_markdown(prose))))
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            arguments = [*node.exc.args, *(keyword.value for keyword in node.exc.keywords)]
            texts_found += [message for argument in arguments for message in _messages(argument)]
    return iter(sorted(texts_found))


def _messages(node: ast.AST) -> Iterator[Text]:
    """Yield each string of an expression; a hole of an f-string counts as one word."""
    if isinstance(node, ast.JoinedStr | ast.BinOp):
        yield Text(node.lineno, _filled(node))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield Text(node.lineno, node.value)
    else:
        for inner in ast.iter_child_nodes(node):
            yield from _messages(inner)


def _filled(node: ast.AST) -> str:
    """Return the text of a string expression, with CODE in place of what is known only at run time."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_filled(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _filled(node.left) + _filled(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "CODE"


def sources(paths: list[str]) -> list[Path]:
    """Return the Python files among the paths and in their folders, in order; without paths, all of the source."""
    files = []
    for path in [Path(each).resolve() for each in paths] or [SOURCE]:
        files += path.rglob("*.py") if path.is_dir() else [path]
    return sorted(set(files))


def check_inside(paths: list[str]) -> list[Finding]:
    """Return the findings in the source, by file and line."""
    found = []
    given = rules(inside=True)
    for file in sources(paths):
        for text in inside(file.read_text(encoding="utf-8")):
            place = f"{file.relative_to(ROOT)}:{text.line}"
            found += [Finding(place, finding.said) for finding in check(text.words, place, given)]
    return found


def check_pages(files: list[str]) -> list[Finding]:
    """Return the findings in the pages given; without any, in all pages and in the docstrings of the reference."""
    given, found = rules(), []
    for page in [Path(file).resolve() for file in files] or pages():
        found += check(page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)), given)
    for place, text in [] if files else docstrings():
        found += [Finding(place, finding.said) for finding in check(text, place, given)]
    return found


def main(arguments: list[str]) -> int:
    """Print all findings; the exit code is 1 when there are any."""
    if arguments:
        found = check_inside(arguments[1:]) if arguments[0] == "--inside" else check_pages(arguments)
    else:
        found = [*check_pages([]), *check_inside([])]
    for finding in found:
        print(f"{finding.place}: {finding.said}")
    if found:
        print(f"{len(found)} places to write more plainly. The rules are in scripts/prose.toml.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

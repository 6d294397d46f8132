"""Options that messages, helps and hints name exist in the command that is meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import penstock
from penstock.cli.main import main

SOURCE = Path(penstock.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*(?![\w-])")
CALL = re.compile(r"penstock (?!\{)[^`|;()<>\n]+(?:\| \w+[^`|;()<>\n]*)*")
"""A command of ours with what stands behind it, and what goes on behind a pipe."""
OTHER_TOOLS = re.compile(r"kafka-[\w-]+ [^`)]*|-m pip [^`)]*")

OF_SPARK_SUBMIT = {"--conf"}
"""Options that `penstock plan` prints for it."""

READ_BY = {
    "cli/config.py": ["run"],
    "engine/shared/program.py": ["run", "batch"],
    "engine/running/arguments.py": ["run", "batch"],
    "query/guard.py": ["run", "serve", "ui"],
    "query/server.py": ["serve", "ui"],
    "watch/topics.py": ["ui"],
}
"""Of modules that no command imports, or that speak of others: the commands that have what their texts name."""


class Text(NamedTuple):
    module: str
    line: int
    text: str


def below_(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group; those of other files are imported."""
    for name in group.list_commands(click.Context(group)):
        below = group.get_command(click.Context(group), name)
        assert below is not None
        yield name, below


def options_of(command: click.Command, *path: str) -> Iterator[tuple[str, set[str]]]:
    """All commands below one, by how they are called, and their options."""
    named = (name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts))
    yield " ".join(path), {"--help", *named}
    if isinstance(command, click.Group):
        for name, below in below_(command):
            yield from options_of(below, *path, name)


def modules_of(command: click.Command, *path: str) -> Iterator[tuple[str, str]]:
    """The modules of commands, and how these are called."""
    if isinstance(command, click.Group):
        for name, below in below_(command):
            yield from modules_of(below, *path, name)
    elif command.callback is not None:
        yield command.callback.__module__, " ".join(path)


OPTIONS = dict(options_of(main))
ALL = set().union(*OPTIONS.values())


def texts_in(module: str, source: str) -> Iterator[Text]:
    """All texts of a module, with {} for what is put into them; lists of words are texts, too."""
    parts: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):  # what is around comes before what is in it
        pieces: list[ast.expr]
        if isinstance(node, ast.JoinedStr):
            pieces, between = node.values, ""
        elif isinstance(node, ast.List) and ast.unparse(node).startswith("['penstock'"):
            pieces, between = node.elts, " "
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            pieces, between = [node], ""
        else:
            continue
        parts.update(pieces)
        words = (str(piece.value) if isinstance(piece, ast.Constant) else "{}" for piece in pieces)
        yield Text(module, node.lineno, between.join(words))


def imports(path: Path) -> set[str]:
    tree = ast.walk(ast.parse(path.read_text()))
    return {node.module for node in tree if isinstance(node, ast.ImportFrom) and node.module is not None}


def own_commands() -> dict[str, set[str]]:
    """The commands of each module of the command line, by its path: those that it defines, or else those of the
    modules that import it, which need not do so themselves."""
    found: dict[str, set[str]] = {}
    defining = {module for module, _ in modules_of(main)}
    for module, command in modules_of(main):
        waiting, seen = [module], set(defining - {module})
        while waiting:
            name = waiting.pop()
            path = SOURCE / f"{name.removeprefix('penstock.').replace('.', '/')}.py"
            if name.startswith("penstock.cli.") and name not in seen and path.exists():
                seen.add(name)
                found.setdefault(path.relative_to(SOURCE).as_posix(), set()).add(command)
                waiting += imports(path)
    return found


OWN = own_commands()


def called(words: list[str]) -> str:
    """The command that words begin with; empty if there is none of that name."""
    return next((name for n in (2, 1) if (name := " ".join(words[:n])) in OPTIONS), "")


def problems(text: Text) -> list[str]:
    """What a text names that is not there."""
    found, named = [], set()

    def of_call(match: re.Match[str]) -> str:
        group = ""
        for call in match[0].split("|"):
            words = re.findall(r"[\w{}.-]+", call)
            words = words[1:] if words[0] == "penstock" else [group, *words]
            if command := called(words):
                group = words[0]
                named.add(command)
                missing = set(OPTION.findall(call)) - OPTIONS[command]
                found.extend(f"penstock {command} has no {option}" for option in missing)
            elif OPTION.search(call):
                found.append(f"there is no command {call}")
        return ""

    in_one_line = re.sub(r"`[^`]*`", lambda quoted: " ".join(quoted[0].split()), text.text)
    left = set(OPTION.findall(CALL.sub(of_call, OTHER_TOOLS.sub("", in_one_line)))) - OF_SPARK_SUBMIT
    if text.module in READ_BY:
        return found + [f"{one} has no {o}" for one in READ_BY[text.module] for o in left - OPTIONS[one]]
    stem = Path(text.module).stem
    commands = named | OWN.get(text.module, {stem} & OPTIONS.keys())
    known = set().union(*(OPTIONS[command] for command in commands)) if commands else ALL
    return found + [f"{', '.join(sorted(commands)) or 'no command'}: there is no {option}" for option in left - known]


def modules() -> list[str]:
    """All modules but those with a command line of their own."""
    paths = (path for path in sorted(SOURCE.rglob("*.py")) if "import argparse" not in path.read_text())
    return [path.relative_to(SOURCE).as_posix() for path in paths if path.parent != SOURCE / "testing" / "oracle"]


def test_every_option_that_a_text_names_is_one_of_its_command() -> None:
    texts = [text for module in modules() for text in texts_in(module, (SOURCE / module).read_text())]
    assert sum("--" in text.text for text in texts) > 200
    assert [f"{text.module}:{text.line}: {problem}" for text in texts for problem in problems(text)] == []


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        ("log/x.py", "see `penstock topics cat --follow`", ["penstock topics cat has no --follow"]),
        ("log/x.py", "see `penstock topics\n  tail --follow`", []),
        ("log/x.py", "(penstock topics cat | produce --partitions)", []),
        ("log/x.py", "(penstock topics cat --json | produce --nothing)", ["penstock topics produce has no --nothing"]),
        ("log/x.py", "penstock nothing --json", ["there is no command penstock nothing --json"]),
        ("log/x.py", "`kafka-topics --alter --topic x` does it", []),
        ("log/x.py", "`penstock publish {}` tells it; with --execute it does it", []),
        ("log/x.py", "`penstock publish {}` tells it; with --rename it does it", ["publish: there is no --rename"]),
        ("log/x.py", "give --nothing", ["no command: there is no --nothing"]),
        ("engine/operate/reset.py", "give --keep-state", []),
        ("engine/operate/reset.py", "give --rename", ["reset: there is no --rename"]),
        ("query/guard.py", "give --serve", ["serve has no --serve", "ui has no --serve"]),
        ("cli/publish.py", "give --rename", ["publish: there is no --rename"]),
        ("cli/produce.py", "give --follow", ["topics produce: there is no --follow"]),
        ("cli/access.py", "give --execute", ["run, serve, ui: there is no --execute"]),
    ],
)
def test_a_wrong_option_is_noticed(module: str, text: str, expected: list[str]) -> None:
    assert problems(Text(module, 1, text)) == expected


def test_parts_of_a_text_are_read_as_one() -> None:
    source = """f"penstock {name} " "--x"; ["penstock", "explain", program, "--losses"]"""
    assert [text for *_, text in texts_in("m", source)] == ["penstock {} --x", "penstock explain {} --losses"]

"""The code blocks of the README and of the pages in docs/, by the language they are marked with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def page(name: str) -> str:
    """The text of a page in docs/."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


class Step(NamedTuple):
    """A command of a console block, and what the page shows of its output."""

    command: str
    shown: list[str]


def blocks(language: str, text: str = README) -> list[str]:
    """The blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def console_steps(text: str = README) -> list[Step]:
    """The commands of all console blocks, in order."""
    steps: list[Step] = []
    for line in "".join(blocks("console", text)).splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], []))
        else:
            steps[-1].shown.append(line)
    return steps

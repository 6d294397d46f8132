"""The code blocks of the README, by the language they are marked with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


class Step(NamedTuple):
    """A command of a console block, and what the README shows of its output."""

    command: str
    shown: list[str]


def blocks(language: str) -> list[str]:
    """The blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def console_steps() -> list[Step]:
    """The commands of all console blocks, in order."""
    steps: list[Step] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], []))
        else:
            steps[-1].shown.append(line)
    return steps

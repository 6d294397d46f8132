"""An extension of Griffe: docstrings of this project as the Markdown of the API reference.

Two things differ. An example that starts with ``>>>`` becomes a code block, and a reference such as
``:class:`penstock.Record``` becomes a link.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|meth|func|mod|attr):`~?([\w.]+)`")


class Reference(griffe.Extension):
    """Turn each docstring into Markdown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Hide the constructor of a class that users never call: neither it nor the class describes arguments."""
        texts = [each.docstring.value for each in (cls, cls.members.get("__init__")) if each and each.docstring]
        if not any("Args:" in text or "Attributes:" in text for text in texts):
            cls.members.pop("__init__", None)


def as_markdown(docstring: str) -> str:
    """Return a docstring with fenced examples, and with links in place of roles."""
    lines: list[str] = []
    indent: str | None = None
    for line in [*ROLE.sub(_linked, docstring).splitlines(), ""]:
        is_prompt = line.lstrip().startswith(">>> ")
        if indent is None and is_prompt:
            indent = line[: len(line) - len(line.lstrip())]
            if lines and lines[-1].strip():
                lines.append("")
            lines.append(f"{indent}```pycon")
        elif indent is not None and not line.strip():
            lines.append(f"{indent}```")
            indent = None
        lines.append(line)
    return "\n".join(lines).rstrip()


def _linked(role: re.Match[str]) -> str:
    path = role[1]
    return f"[`{path.rpartition('.')[2]}`][{path}]" if path.startswith("penstock.") else f"`{path}`"

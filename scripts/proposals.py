"""Fills in, in docs/proposals.md, by which tests each point of the proposals is shown.

python scripts/proposals.py          writes the page
python scripts/proposals.py --check  ends with 1 when it is not up to date
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "proposals.md"
MOST = 4
"""So many test files are named for a point; of more there is their number."""


def marks(path: Path) -> Iterator[str]:
    """The ids that the tests of a file are marked with."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "kip":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


def tests_by_id() -> dict[str, list[str]]:
    """For each id the files of its tests."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in sorted(set(marks(path))):
            found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def page(text: str, tests: dict[str, list[str]]) -> str:
    """The page with what its last columns are to say."""
    return "\n".join(_row(line, tests) for line in text.splitlines()) + "\n"


def _row(line: str, tests: dict[str, list[str]]) -> str:
    cells = line.strip("|").split(" | ")
    name = cells[0].strip()
    if not line.startswith("| ") or "-" not in name or not name[-2:].isdigit():
        return line
    files = tests.get(name, [])
    links = [f"[{file.removeprefix('tests/').removesuffix('.py')}](../{file})" for file in files[:MOST]]
    more = [f"and {len(files) - MOST} more"] if len(files) > MOST else []
    return f"| {name} | {cells[1].strip()} | {', '.join(links + more)} |"


def main() -> int:
    """Write the page, or check it."""
    text = PAGE.read_text()
    new = page(text, tests_by_id())
    if "--check" in sys.argv:
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The programs of docs/operators.md, and the pictures of time that are drawn of them.

`python -m support.operators`, in tests/, draws all pictures anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock import StreamsBuilder, Windowed
from penstock.testing import TopologyTestDriver
from support.readme import ROOT

PAGE = ROOT / "docs" / "operators.md"
EXAMPLE = re.compile(r"^### ([^\n]+)\n(.*?)^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)

Row = tuple[str, Any, Any, int]
"""Topic, key, value, and timestamp in seconds."""

Results = dict[str, list[tuple[Any, Any, int]]]
"""Keys, values and timestamps in milliseconds of what a row gives, by output topics."""


def examples(text: str) -> list[tuple[str, str, str]]:
    """Title, program and picture of each example of the page."""
    return [(title, program, picture) for title, _, program, picture in EXAMPLE.findall(text)]


def drawn(program: str) -> str:
    """The picture of what a program makes of its rows: a column for each record that comes, outputs under it."""
    names = names_in(program)
    return picture(names["steps"], names["rows"])


def names_in(program: str) -> dict[str, Any]:
    """What a program defines."""
    names: dict[str, Any] = {}
    exec(compile(program, PAGE.name, "exec"), names)
    return names


def picture(steps: Callable[[StreamsBuilder], None], rows: list[Row]) -> str:
    """Rows as they come, from left to right, and all that each of them gives, with timestamps in seconds."""
    return _table(rows, results(steps, rows))


def results(steps: Callable[[StreamsBuilder], None], rows: list[Row]) -> list[Results]:
    """What each row gives."""
    builder = StreamsBuilder()
    steps(builder)
    topology = builder.build()
    given: list[Results] = []
    with TopologyTestDriver(topology) as driver:
        for topic, key, value, seconds in rows:
            driver.pipe_input(topic, key, value, seconds * 1000)
            topics = sorted(topology.sink_topics)
            given.append({output: [record[:3] for record in driver.read_output(output)] for output in topics})
    return given


def _table(rows: list[Row], given: list[Results]) -> str:
    topics = [*dict.fromkeys(topic for topic, *_ in rows), *dict.fromkeys(topic for one in given for topic in one)]
    columns = [
        {topic: [_shown(key, value, seconds * 1000)]}
        | {to: [_shown(*one) for one in some] for to, some in gave.items()}
        for (topic, key, value, seconds), gave in zip(rows, given, strict=True)
    ]
    label = max(map(len, topics)) + 2
    widths = [max(len(cell) for cells in column.values() for cell in cells) + 2 for column in columns]
    lines = []
    for topic in topics:
        for row in range(max([1, *(len(column.get(topic, [])) for column in columns)])):
            cells = [
                "".join(column.get(topic, [])[row : row + 1]).ljust(width) for column, width in zip(columns, widths)
            ]
            lines.append(((topic if row == 0 else "").ljust(label) + "".join(cells)).rstrip())
    return "\n".join(lines) + "\n"


def _shown(key: Any, value: Any, timestamp: int) -> str:
    if isinstance(key, Windowed):
        key = f"{key.key}[{_seconds(key.start)}..{_seconds(key.end)}]"
    said = "–" if key is None else key
    return f"{said}={'null' if value is None else value} @{_seconds(timestamp)}"


def _seconds(milliseconds: int) -> str:
    return "∞" if milliseconds > 1 << 60 else f"{milliseconds / 1000:.10g}"


def main() -> None:
    """Draw all pictures of the page anew."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(EXAMPLE.sub(_redrawn, text), encoding="utf-8")


def _redrawn(example: re.Match[str]) -> str:
    title, words, program, _ = example.groups()
    return f"### {title}\n{words}```python\n{program}```\n\n```text\n{drawn(program)}```"


if __name__ == "__main__":
    main()

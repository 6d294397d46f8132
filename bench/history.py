"""Results over time: a line of JSON for each section and commit, what came of it, and RESULTS.md made of the newest.

A figure is slower than noise when its lowest run is slower than the highest run of before, or, where there is one run
of each, when it is slower by more than a quarter. Only figures of the same machine are compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.report import HEAD, Conditions, Row, Section

ONE_RUN_NOISE = 1.25
_FIGURE = re.compile(r"([0-9][0-9,.]*) (CPU s|s|ms|µs|MB|MiB|KiB|a second)\b.*")
_MORE_IS_BETTER = ("a second",)
_RANGE = re.compile(r"([0-9.,]+) to ([0-9.,]+)")


@dataclass(frozen=True)
class Line:
    """A section as it was measured at a commit."""

    commit: str
    at: str
    machine: str
    conditions: str
    title: str
    about: str
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, section: Section, now: Conditions) -> Line:
        return cls(now.commit, now.at, now.machine, now.text, section.title, section.about, tuple(section.rows))


def append(path: Path, line: Line) -> None:
    """Keep a line."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(line), ensure_ascii=False) + "\n")


def read(path: Path) -> list[Line]:
    """All lines, the oldest first."""
    if not path.exists():
        return []
    found = [json.loads(text) for text in path.read_text().splitlines()]
    return [Line(**line | {"rows": tuple(Row(**row) for row in line["rows"])}) for line in found]


def markdown(lines: Sequence[Line]) -> str:
    """The newest of every section."""
    newest = {line.title: line for line in lines}
    order = dict.fromkeys(line.title for line in lines)
    parts = (Section(title, newest[title].about, list(newest[title].rows)) for title in order)
    return "\n".join([HEAD, *(part.markdown(newest[part.title].conditions) for part in parts)])


def trend(before: Sequence[Line], now: Line) -> Iterator[str]:
    """How each figure that has a unit stands beside the newest earlier one of the same machine."""
    older = [line for line in before if (line.title, line.machine) == (now.title, now.machine)]
    if not older:
        return
    known = {row.what: row for row in older[-1].rows}
    for row in now.rows:
        if row.what in known and (said := _compared(known[row.what], row)):
            then = f"{known[row.what].measured} at {older[-1].commit}"
            yield f"{now.title}: {row.what}: {then}, now {row.measured}, {said}"


def _compared(before: Row, now: Row) -> str | None:
    old, new = _FIGURE.fullmatch(before.measured), _FIGURE.fullmatch(now.measured)
    if old is None or new is None or old[2] != new[2]:
        return None
    ratio = _number(new[1]) / max(_number(old[1]), 1e-9)
    return f"{ratio:.2f} times: {_verdict(before, now, ratio, new[2] in _MORE_IS_BETTER)}"


def _verdict(before: Row, now: Row, ratio: float, more_is_better: bool) -> str:
    old, new = _RANGE.fullmatch(before.spread), _RANGE.fullmatch(now.spread)
    if old is None or new is None:
        above, below = ratio > ONE_RUN_NOISE, ratio < 1 / ONE_RUN_NOISE
    else:
        above, below = _number(new[1]) > _number(old[2]), _number(new[2]) < _number(old[1])
    slower, faster = (below, above) if more_is_better else (above, below)
    return "SLOWER" if slower else "faster" if faster else "within noise"


def _number(text: str) -> float:
    return float(text.replace(",", ""))

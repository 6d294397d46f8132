"""The figures as a table on the screen and as a section of a file."""

from __future__ import annotations

import platform
import re
import statistics
import subprocess
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

HEAD = """# Results of the benchmark

Made by `make bench` of the newest lines of `results.jsonl`, which has those of earlier commits, too. Figures of
different machines, or of different days on a busy machine, do not compare; ratios within a section do.
"""

_COLUMNS = ("figure", "measured", "lowest to highest", "has to be", "")


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        limit: what the figure has to be, for figures that have to be something.
        reached: whether it is.
    """

    what: str
    measured: str
    spread: str = ""
    limit: str = ""
    reached: bool | None = None

    def cells(self) -> tuple[str, ...]:
        verdict = {None: "", True: "reached", False: "MISSED"}[self.reached]
        return self.what, self.measured, self.spread, self.limit, verdict


@dataclass
class Section:
    """The figures of one measurement, with what was measured in words."""

    title: str
    about: str
    rows: list[Row] = field(default_factory=list)

    def markdown(self, conditions: str) -> str:
        rows = [_COLUMNS, ("---",) * len(_COLUMNS), *(row.cells() for row in self.rows)]
        lines = [f"## {self.title}", "", self.about, "", *(f"| {' | '.join(cells)} |" for cells in rows)]
        return "\n".join([*lines, "", conditions, ""])


def table(sections: Sequence[Section]) -> Table:
    """All figures on one screen."""
    made = Table(*_COLUMNS)
    made.columns[0].no_wrap = True
    for section in sections:
        made.add_row(section.title, style="bold")
        for row in section.rows:
            made.add_row(*row.cells(), style={None: "", True: "green", False: "bold red"}[row.reached])
        made.add_section()
    return made


def at_most(what: str, value: float, limit: float, unit: str = "times") -> Row:
    """A figure that must not be greater."""
    return Row(what, f"{value:.2f} {unit}", "", f"at most {limit:.4g}", value <= limit)


def at_least(what: str, value: float, limit: float) -> Row:
    """A ratio that must not be less; any will do where the limit is 0."""
    return Row(
        what, f"{value:.1f} times", "", f"at least {limit:g}" if limit else "", value >= limit if limit else None
    )


def spread(values: Collection[float], digits: int = 2) -> str:
    """The lowest and the highest of some values, if there are several."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}" if len(values) > 1 else ""


def median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


class Conditions(NamedTuple):
    """When and on what figures were measured."""

    commit: str
    at: str
    machine: str
    text: str


def conditions(runs: int) -> Conditions:
    """Those of now."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numpy", "rocksdict"))
    now, machine, commit = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", _machine(), _commit()
    text = (
        f"*{now}, runs of each: {runs}; {machine}; "
        f"Python {platform.python_version()}, {packages}, {_java()}; commit {commit}.*"
    )
    return Conditions(commit, now, machine, text)


def changes(folder: Path = Path(__file__).parents[1]) -> list[str]:
    """What the tree has that its commit has not: figures of it would be figures of nothing that can be found again.

    Results themselves are no changes, so that one section after the other can be measured.
    """
    said = subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True).stdout
    return [line for line in said.splitlines() if not line[3:].startswith(("bench/results.jsonl", "bench/RESULTS.md"))]


def _machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", info, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    gigabytes = round(int(memory[1]) / 2**20) if memory else 0
    cores = info.count("\nprocessor") + info.startswith("processor")
    return f"{cores} cores of {model[1] if model else platform.machine()}, {gigabytes} GiB, {platform.system()}"


def _java() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "([^"]+)"', said)
    return f"Java {found[1] if found else 'unknown'}"


def _commit() -> str:
    folder = Path(__file__).parent
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=folder, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"

"""The figures as a table on the screen and as a section of a file."""

from __future__ import annotations

import platform
import re
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.table import Table

HEAD = """# Results of the benchmark

Written by `python -m bench` (`make bench`); `README.md` beside it says what is measured and how. Figures of different
machines, or of different days on a busy machine, do not compare; ratios within a section do.
"""

_COLUMNS = ("", "measured", "lowest to highest", "has to be", "")


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

    def table(self) -> Table:
        table = Table(*_COLUMNS, title=self.title, title_justify="left", caption=self.about, caption_justify="left")
        for row in self.rows:
            style = {None: "", True: "green", False: "bold red"}[row.reached]
            table.add_row(*row.cells(), style=style)
        return table

    def markdown(self, conditions: str) -> str:
        lines = [f"## {self.title}", "", self.about, "", "| figure | measured | lowest to highest | has to be | |"]
        lines += ["|---|---|---|---|---|", *(f"| {' | '.join(row.cells())} |" for row in self.rows)]
        return "\n".join([*lines, "", conditions, ""])


def at_most(what: str, value: float, limit: float, unit: str = "times", spread: str = "") -> Row:
    """A figure that must not be greater."""
    return Row(what, f"{value:.2f} {unit}", spread, f"at most {limit:g}", value <= limit)


def at_least(what: str, value: float, limit: float, unit: str = "times", spread: str = "") -> Row:
    """A figure that must not be less."""
    return Row(what, f"{value:.1f} {unit}", spread, f"at least {limit:g}", value >= limit)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The lowest and the highest of some values, if there are several."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}" if len(values) > 1 else ""


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def conditions(runs: int, quick: bool) -> str:
    """When and on what the figures were measured."""
    size = ", quick sizes: these figures only show that it runs" if quick else ""
    python = f"Python {platform.python_version()}"
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numpy", "rocksdict"))
    return (
        f"*{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {runs} runs of each{size}; {_machine()}; {python}, {packages}, "
        f"{_java()}; commit {_commit()}.*"
    )


def write(path: Path, sections: Sequence[Section], said: str) -> None:
    """Put the sections into the file, each in the place of an older one of the same title."""
    text = path.read_text() if path.exists() else HEAD
    for section in sections:
        new = section.markdown(said)
        old = re.compile(rf"^## {re.escape(section.title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
        text = old.sub(lambda _, new=new: f"{new}\n", text) if old.search(text) else f"{text.rstrip()}\n\n{new}"
    path.write_text(f"{text.rstrip()}\n")


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
    changed = subprocess.run(
        ["git", "status", "--porcelain", "../src", "."], cwd=folder, capture_output=True, text=True
    )
    return (found.stdout.strip() or "unknown") + (" with changes" if changed.stdout.strip() else "")

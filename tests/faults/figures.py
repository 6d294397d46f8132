"""Keeps what the long runs of this folder came to among the results of the benchmark."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench.report import Row, Section, at_least

from bench import history, run

__all__ = ["Row", "at_least", "counts_of", "keep", "none_differed"]


def keep(title: str, about: str, rows: list[Row]) -> None:
    """Add a section to ``bench/results.jsonl``; ``bench/RESULTS.md`` shows it in place of the one with its title."""
    run.keep(Section(title, about, rows), 1)


def counts_of(title: str) -> dict[str, int]:
    """The counts that were kept last under a title; without those that have to be something."""
    newest = [line for line in history.read(run.RESULTS) if line.title == title][-1:]
    return {row.what: int(row.measured) for line in newest for row in line.rows if not row.limit}


def none_differed(what: str) -> Row:
    """The last row of a section, of a run that would have ended otherwise."""
    return Row(f"{what} differed", "0", "", "0", True)

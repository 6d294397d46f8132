"""Headers after session windows: results keep the headers of the record that caused them, as after all other windows.

Kafka Streams 4.4 sends them without headers unless the store caches.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Comparison, Outcome, Row
from penstock.testing.oracle.steps import topics_below


def as_without_headers(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """Compare without the headers of results below sessions."""
    topics = {topic for step in case["topology"] if _makes_sessions(step) for topic in topics_below(case, step)}
    if not topics:
        return compare(case, outcome)
    expected = {**case["expected"], "output": _plain(case["expected"].get("output", []), topics)}
    return compare({**case, "expected": expected}, replace(outcome, output=_plain(outcome.output, topics)))


def _makes_sessions(step: Spec) -> bool:
    return step["op"] == "windowed_by" and str(step["windows"]["type"]) == "SessionWindows"


def _plain(rows: list[Row], topics: set[str]) -> list[Row]:
    return [
        {name: field for name, field in row.items() if name != "headers"} if row["topic"] in topics else row
        for row in rows
    ]

"""Functions for the rows of an outcome or of a case's expectations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from itertools import zip_longest

from penstock.testing.oracle.outcome import Row


def of_topic(rows: list[Row], topic: str) -> list[Row]:
    """Return the rows of a topic without the input entries that caused them."""
    return without_cause([row for row in rows if row["topic"] == topic])


def without_cause(rows: list[Row]) -> list[Row]:
    """Return rows without the input entries that caused them: they may come later, or with others."""
    return [{k: v for k, v in row.items() if k != "after"} for row in rows]


def but(rows: list[Row], topics: Collection[str]) -> list[Row]:
    """Return the rows of other topics."""
    return [row for row in rows if row["topic"] not in topics]


def plainly(ours: list[Row], theirs: list[Row]) -> list[str]:
    """Describe the differences between rows that must be equal, in the same order."""
    pairs = enumerate(zip_longest(ours, theirs))
    return [f"row {n} is {json.dumps(one)}, expected {json.dumps(other)}" for n, (one, other) in pairs if one != other]


def key_of(row: Row) -> str:
    """Return a row's key as text."""
    return json.dumps(row["key"], sort_keys=True)


def repeated(rows: list[Row]) -> list[str]:
    """Describe the keys that occur more than once."""
    counted = Counter(map(key_of, rows))
    return [f"{count} results for {key}" for key, count in counted.items() if count > 1]

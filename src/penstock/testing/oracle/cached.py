"""How cases are compared in which Kafka's cache still shows what its window or session store does not."""

from __future__ import annotations

import json
from typing import Any

from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Comparison, Outcome, Row
from penstock.testing.oracle.rows import but, of_topic
from penstock.testing.oracle.steps import (
    default_retention,
    has_sides,
    is_sliding,
    is_windowed,
    steps_below,
    store_of,
    times_of,
    topics_below,
    windows_above,
)


def as_if_expired(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """Without the rows of window and session stores that only Kafka's cache still shows. Where a record may have found
    such a row, what comes of it is another window: then the keys count."""
    expected = case["expected"]
    kept = expected.get("stores", {}).items()
    stores = {name: _unexpired(case, name, rows, outcome.stores.get(name, [])) for name, rows in kept}
    found = compare({**case, "expected": {**expected, "stores": stores}}, outcome)
    steps = [step for step in case["topology"] if _may_find_expired(case, step)]
    if not found or not steps or "error" in expected or outcome.error is not None:
        return found
    topics = {topic for step in steps for topic in topics_below(case, step)}
    names = {store_of(below) for step in steps for below in [step, *steps_below(case, step)]}
    rest = {
        **expected,
        "output": but(expected["output"], topics),
        "stores": {name: rows for name, rows in stores.items() if name not in names},
    }
    for part in ("dropped", "metrics"):
        rest.pop(part)
    plain = Outcome(**{**vars(outcome), "output": but(outcome.output, topics)})
    found = compare({**case, "expected": rest}, plain)
    for topic in sorted(topics):
        ours, theirs = of_topic(outcome.output, topic), of_topic(expected["output"], topic)
        keys = {_plain_key(row) for row in ours} ^ {_plain_key(row) for row in theirs}
        found += [f"output to {topic}: key {key} on one side only" for key in sorted(keys)]
    return found


def _plain_key(row: Row) -> str:
    key = row["key"]
    return json.dumps(key["key"] if isinstance(key, dict) else key)


def _is_cached(case: Spec, step: Spec) -> bool:
    """Whether a step is an aggregation in windows that close, with caching."""
    closes = is_windowed(case, step) and windows_above(case, step)["type"] != "UnlimitedWindows"
    return closes and bool((step.get("materialized") or {}).get("caching"))


def _retention(case: Spec, step: Spec) -> int:
    given = (step.get("materialized") or {}).get("retention_ms")
    return max(given or 0, default_retention(windows_above(case, step)))


def _may_find_expired(case: Spec, step: Spec) -> bool:
    """Whether a record may come that is not too late, for which the store shows less than its cache.

    A session lies exactly one retention back; sliding windows besides its own are looked at for a record that is past
    its grace period, but not its windows'; and each stream of a cogroup has a time of its own.
    """
    if not _is_cached(case, step):
        return False
    windows, times = windows_above(case, step), times_of(case)
    gaps = {later - earlier for later in times for earlier in times}
    if windows["type"] == "SessionWindows" and not has_sides(case, step):
        return _retention(case, step) in gaps
    if has_sides(case, step) and not is_sliding(windows):
        return max(gaps) >= _retention(case, step)
    return is_sliding(windows) and max(gaps) + windows["time_difference_ms"] + 1 >= _retention(case, step)


def _unexpired(case: Spec, store: str, rows: list[Any], ours: list[Any]) -> list[Any]:
    """The rows of a store without those that are not ours and may have expired."""
    for step in case["topology"]:
        if store_of(step) == store and _is_cached(case, step):
            bound = "end" if windows_above(case, step)["type"] == "SessionWindows" else "start"
            gone_until = max(times_of(case)) + 1 - _retention(case, step)
            return [row for row in rows if row in ours or row[0][bound] > gone_until]
    return rows

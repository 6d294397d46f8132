"""Comparisons for cases with caching: Kafka's cache shows rows that its window or session store no longer has, and
joined windows here hold no updates back.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Comparison, Outcome, Row
from penstock.testing.oracle.rows import but, key_of, of_topic
from penstock.testing.oracle.steps import (
    gathering_steps,
    gone_until,
    has_sides,
    is_sliding,
    is_windowed,
    lossy_closings,
    retention,
    steps_below,
    store_of,
    table_joins_below,
    times_of,
    topics_below,
    windows_above,
)

_WINDOW = re.compile(r"@\d+/\d+(?=\])")
"""The window in a windowed key's text, such as ``[a@5/15]``."""


def as_if_expired(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """Compare without rows of window and session stores that only Kafka's cache still shows.

    If a record may have found such a row, its results are in another window; then only the keys are compared.
    """
    expected = case["expected"]
    kept = expected.get("stores", {}).items()
    stores = {name: _unexpired(case, name, rows, outcome.stores.get(name, [])) for name, rows in kept}
    expected = {**expected, "stores": stores, "reads": _reads(case, outcome.reads or [])}
    found = compare({**case, "expected": expected}, outcome)
    steps = [step for step in case["topology"] if _may_find_expired(case, step) or _may_show_expired(case, step)]
    if not found or not steps or "error" in expected or outcome.error is not None:
        return found
    topics = {topic for step in steps for topic in topics_below(case, step)}
    names = {store_of(below) for step in steps for below in [step, *steps_below(case, step)]}
    rest = {
        **expected,
        "output": but(expected["output"], topics),
        "stores": {name: rows for name, rows in stores.items() if name not in names},
        "reads": [],
    }
    for part in ("dropped", "metrics"):
        rest.pop(part)
    plain = replace(outcome, output=but(outcome.output, topics), reads=None)
    found = compare({**case, "expected": rest}, plain)
    return found + _keys_on_one_side(case, steps, topics, outcome, expected["output"])


def _keys_on_one_side(
    case: Spec, steps: list[Spec], topics: set[str], outcome: Outcome, expected: list[Spec]
) -> list[str]:
    """Describe keys that only one side has in topics below steps, except below steps where that is allowed."""
    found = []
    may_be_more = _topics_below(case, lossy_closings(case))
    may_be_less = _topics_below(case, [join for step in steps for join in table_joins_below(case, step)])
    for topic in sorted(topics):
        ours, theirs = (set(map(_plain_key, of_topic(rows, topic))) for rows in (outcome.output, expected))
        more = ours - theirs if topic not in may_be_more else set()
        less = theirs - ours if topic not in may_be_less else set()
        found += [f"output to {topic}: key {key} on one side only" for key in sorted(more | less)]
    return found


def as_if_uncached(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """Compare where windows are joined with other tables, so that every update is sent at once.

    Only the final rows of tables are compared, and for results of several windows only the keys.
    """
    return _as_if_uncached(case, outcome, compare, _joined_caches(case), [])


def as_versions_are_kept(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """Compare where a versioned table's source table sends every update at once: only the final rows of tables count.

    A look-up of such a table may find an update that Kafka's cache has not sent yet, which changes later results too.
    """
    steps = [step for step in _caching(case) if any(_is_versioned(below) for below in steps_below(case, step))]
    made = {other["id"] for step in steps for other in [step, *steps_below(case, step)]}
    stores = {store_of(step) for step in case["topology"] if step["id"] in made} - {None}
    looking = [step for step in case["topology"] if step.get("with") in made or stores & set(step.get("stores", ()))]
    if not steps:
        return compare(case, outcome)
    expected = {name: part for name, part in case["expected"].items() if name not in ("dropped", "metrics")}
    return _as_if_uncached({**case, "expected": expected}, outcome, compare, steps, looking)


def _as_if_uncached(
    case: Spec, outcome: Outcome, compare: Comparison, steps: list[Spec], looking: list[Spec]
) -> list[str]:
    """Compare final rows below some steps, only keys for combined results, and nothing below other steps."""
    expected = case["expected"]
    if not steps or "error" in expected or outcome.error is not None:
        return compare(case, outcome)
    unseen = _topics_below(case, looking)
    topics = _topics_below(case, steps) - unseen
    gathered = _gathered(case, steps) | {str(store_of(low)) for step in looking for low in steps_below(case, step)}
    stores = {name: rows for name, rows in expected.get("stores", {}).items() if name not in gathered}
    metrics = {name: n for name, n in expected.get("metrics", {}).items() if not name.startswith("suppression-")}
    rest = {**expected, "output": but(expected["output"], topics | unseen), "stores": stores, "metrics": metrics}
    found = compare({**case, "expected": rest}, replace(outcome, output=but(outcome.output, topics | unseen)))
    for topic in sorted(topics):
        sides = (of_topic(rows, topic) for rows in (outcome.output, expected["output"]))
        ours, theirs = ({key_of(row): None if topic in gathered else row for row in rows} for rows in sides)
        differ = [key for key in sorted(ours.keys() | theirs.keys()) if ours.get(key, key) != theirs.get(key, key)]
        found += [f"output to {topic}: key {key} ends as {ours.get(key)}, expected {theirs.get(key)}" for key in differ]
    return found


def topic_by_topic(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """Compare without the order between topics: no reader of topics sees it within a commit.

    Kafka's caches are flushed one after the other; here their updates are sent in the order of the records that caused
    them.
    """
    is_cached = any((step.get("materialized") or {}).get("caching") for step in case["topology"])
    if not is_cached or "error" in case["expected"] or outcome.error is not None:
        return compare(case, outcome)
    return compare(case, replace(outcome, total_order=False))


def _joined_caches(case: Spec) -> list[Spec]:
    """Return the caching steps whose tables are joined in windows."""
    return [step for step in _caching(case) if any(windows_above(case, join) for join in table_joins_below(case, step))]


def _caching(case: Spec) -> list[Spec]:
    return [step for step in case["topology"] if (step.get("materialized") or {}).get("caching")]


def _is_versioned(step: Spec) -> bool:
    return (step.get("materialized") or {}).get("kind") == "versioned"


def _gathered(case: Spec, steps: list[Spec]) -> set[str]:
    """Return the topics and the stores of results that combine several others."""
    gathering = [other for step in steps for other in gathering_steps(case, step, joins=False)]
    written = {str(step["topic"]) for step in gathering if step["op"] == "to"}
    return written | _topics_below(case, gathering) | {str(store_of(step)) for step in gathering}


def _topics_below(case: Spec, steps: list[Spec]) -> set[str]:
    return {topic for step in steps for topic in topics_below(case, step)}


def _plain_key(row: Row) -> str:
    """Return the key without its window, which may be part of a text."""
    key = row["key"]
    if isinstance(key, dict):
        return json.dumps(key["key"])
    return json.dumps(_WINDOW.sub("", key) if isinstance(key, str) else key)


def _is_cached(case: Spec, step: Spec) -> bool:
    """Return whether a step is a caching aggregation in windows that close."""
    closes = is_windowed(case, step) and windows_above(case, step)["type"] != "UnlimitedWindows"
    return closes and bool((step.get("materialized") or {}).get("caching"))


def _may_find_expired(case: Spec, step: Spec) -> bool:
    """Return whether a record may arrive in time for whose window the store shows less than its cache.

    A session may be exactly one retention back. Sliding windows look up other windows for a record past its grace
    period but not that of its windows. Each stream of a cogroup has a separate time. A join of tables looks up the
    other side of a window whenever one side changes.
    """
    if not _is_cached(case, step):
        return False
    windows, times = windows_above(case, step), times_of(case)
    gaps = {later - earlier for later in times for earlier in times}
    if table_joins_below(case, step) and max(gaps) >= retention(case, step):
        return True
    if windows["type"] == "SessionWindows" and not has_sides(case, step):
        return retention(case, step) in gaps
    if has_sides(case, step) and not is_sliding(windows):
        return max(gaps) >= retention(case, step)
    return is_sliding(windows) and max(gaps) + windows["time_difference_ms"] + 1 >= retention(case, step)


def _may_show_expired(case: Spec, step: Spec) -> bool:
    """Return whether a processor reads such an aggregation's store, and so may see what only a cache still shows."""
    gap = max(times_of(case), default=0) - min(times_of(case), default=0)
    kept = [store_of(one) for one in case["topology"] if _is_cached(case, one) and gap >= retention(case, one)]
    return any(name in step.get("stores", ()) for name in kept)


def _unexpired(case: Spec, store: str, rows: list[Any], ours: list[Any]) -> list[Any]:
    """Return the rows of a store, without rows of Kafka Streams alone that may have expired."""
    for step in case["topology"]:
        if store_of(step) == store and _is_cached(case, step):
            bound = "end" if windows_above(case, step)["type"] == "SessionWindows" else "start"
            times = (row[0][bound] if isinstance(row[0], dict) else row[0] for row in rows)
            gone = gone_until(case, step)
            return [row for row, time in zip(rows, times, strict=True) if row in ours or time > gone]
    return rows


def _reads(case: Spec, ours: list[Row]) -> list[Row]:
    """Return the expected reads without rows that are not ours and may have expired."""
    found = {read["after"]: read["result"] for read in ours}
    return [
        {"after": at, "result": _unexpired(case, case["input"][at]["read"], read["result"], found.get(at, []))}
        for read in case["expected"].get("reads", [])
        for at in [read["after"]]
    ]

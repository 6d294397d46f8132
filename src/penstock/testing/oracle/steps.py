"""Questions about the steps of a case's topology: the steps above and below one, and its windows."""

from __future__ import annotations

from typing import Any

from penstock.testing.oracle.functions import Spec

_ONE_BY_ONE = ("to_stream", "to", "filter", "filter_not", "map_values", "peek", "suppress")
"""Steps that take one result of a window, and give at most one of the same key."""


def parents(step: Spec) -> set[str]:
    """Return the ids of a step's direct parents; a branch of a split counts as the split."""
    of = step.get("of")
    named = [*(of if isinstance(of, list) else [of]), step.get("with"), *(s["of"] for s in step.get("streams", []))]
    return {str(name).partition(".")[0] for name in named if name is not None}


def steps_above(case: Spec, step: Spec) -> list[Spec]:
    """Return the steps above a step, the nearest first; of two sides the left one."""
    by_id = {other["id"]: other for other in case["topology"]}
    above = []
    while (parent := by_id.get(str(step.get("of")).partition(".")[0])) is not None:
        above.append(parent)
        step = parent
    return above


def steps_below(case: Spec, step: Spec) -> list[Spec]:
    """Return the steps that a step's output reaches, in the order of the topology."""
    reached, below = {step["id"]}, []
    for other in case["topology"]:  # a step only refers to earlier ones
        if parents(other) & reached:
            reached.add(other["id"])
            below.append(other)
    return below


def topics_below(case: Spec, step: Spec) -> set[str]:
    """Return the topics that a step's output reaches, through other topics of the case too."""
    topics: set[str] = set()
    waiting = [step]
    while waiting:
        written = {other["topic"] for other in steps_below(case, waiting.pop()) if other["op"] == "to"} - topics
        topics |= written
        waiting += [source for source in case["topology"] if "of" not in source and source.get("topic") in written]
    return topics


def gathering_steps(case: Spec, step: Spec, joins: bool = True) -> list[Spec]:
    """Return the steps below one that change keys, or combine several results, and all below these.

    Args:
        joins: whether to include joins of tables, which combine two results with the same key.
    """
    found: list[Spec] = []
    for other in steps_below(case, step):
        is_plain = other["op"] in _ONE_BY_ONE or (not joins and other["op"] in _JOINS and _is_of_a_table(case, other))
        if not is_plain or parents(other) & {above["id"] for above in found}:
            found.append(other)
    return found


def windows_above(case: Spec, step: Spec) -> Any:
    """Return the windows of the nearest windowed aggregation above a step; None without one."""
    return next((above["windows"] for above in steps_above(case, step) if above["op"] == "windowed_by"), None)


def is_windowed(case: Spec, step: Spec) -> bool:
    """Return whether a step aggregates in windows, and not results of windows."""
    above = steps_above(case, step)[:1]
    return step["op"] in ("count", "reduce", "aggregate") and bool(above) and above[0]["op"] in _WINDOWED


_WINDOWED = ("windowed_by", "emit_strategy")
_JOINS = ("join", "left_join", "outer_join")
_TABLES = ("table", "to_table", "count", "reduce", "aggregate", "distinct")


def store_of(step: Spec) -> str | None:
    """Return the name that a step gives its store."""
    name: str | None = (step.get("materialized") or {}).get("store")
    return name


def is_sliding(windows: Any) -> bool:
    return windows is not None and windows["type"] == "SlidingWindows"


def has_sides(case: Spec, step: Spec) -> bool:
    """Return whether the nearest aggregation above a step has several streams, each with a separate time."""
    cogroup = next((above for above in steps_above(case, step) if above["op"] == "cogroup"), None)
    return cogroup is not None and len(cogroup["streams"]) > 1


def default_retention(windows: Any) -> int:
    """Return how long a window store keeps windows by default, in milliseconds."""
    kinds = {
        "TimeWindows": ("size_ms", 1),
        "SlidingWindows": ("time_difference_ms", 2),
        "SessionWindows": ("inactivity_gap_ms", 1),
    }
    field, times = kinds[windows["type"]]
    return int(windows[field] * times + windows.get("grace_ms", 0))


def lossy_closings(case: Spec) -> list[Spec]:
    """Return the aggregations that emit on close and whose store does not keep all windows until the end of the
    input.
    """
    found = []
    for step in case["topology"]:
        if not is_windowed(case, step) or not _emits_on_close(case, step):
            continue
        windows, times = windows_above(case, step), times_of(case)
        if windows is not None and windows["type"] != "UnlimitedWindows":
            given = (step.get("materialized") or {}).get("retention_ms")
            longest = default_retention(windows) + max(times, default=0) - min(times, default=0)
            if given is None or given <= longest:
                found.append(step)
    return found


def retention(case: Spec, step: Spec) -> int:
    """Return how long the store of an aggregation in windows that close keeps them, in milliseconds."""
    given = (step.get("materialized") or {}).get("retention_ms")
    return max(given or 0, default_retention(windows_above(case, step)))


def gone_until(case: Spec, step: Spec) -> int:
    """Return the last start of a window (end of a session) that an aggregation's store has certainly lost at the
    end.
    """
    return max(times_of(case)) + 1 - retention(case, step)


def table_joins_below(case: Spec, step: Spec) -> list[Spec]:
    """Return the joins of tables below a step."""
    return [below for below in steps_below(case, step) if below["op"] in _JOINS and _is_of_a_table(case, below)]


def _is_of_a_table(case: Spec, step: Spec) -> bool:
    made = (above["op"] for above in steps_above(case, step) if above["op"] in (*_TABLES, "stream", "to_stream"))
    return next(made, "stream") in _TABLES


def _emits_on_close(case: Spec, step: Spec) -> bool:
    above = steps_above(case, step)[0]
    return (above["op"], above.get("strategy")) == ("emit_strategy", "on_window_close")


def times_of(case: Spec) -> set[int]:
    """Return the timestamps of the input."""
    return {entry["timestamp"] for entry in case["input"] if "timestamp" in entry}


def last_times(case: Spec) -> set[int]:
    """Return the last time of all topics together, and of each: of all records, and of those that always reach
    windows.
    """
    every = [entry for entry in case["input"] if "topic" in entry]
    whole = [entry for entry in every if entry.get("key") is not None and entry.get("value") is not None]
    topics = [*({entry["topic"]} for entry in every), {entry["topic"] for entry in every}]
    chosen = [
        [entry["timestamp"] for entry in some if entry["topic"] in of] for some in (every, whole) for of in topics
    ]
    return {max(times) for times in chosen if times}

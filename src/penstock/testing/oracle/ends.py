"""Comparisons for cases whose tables have the same final rows, while their updates on the way differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from typing import Any

from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Comparison, Outcome, Row
from penstock.testing.oracle.rows import but, of_topic
from penstock.testing.oracle.steps import parents, store_of

_JOINS = ("join", "left_join", "outer_join")
_OF_SEVERAL = (*_JOINS, "cogroup", "merge")
_OF_UPDATES = ("filter", "filter_not", "select_key", "map", "flat_map", "merge")
"""Steps that leave out updates of a stream, change their keys, or mix them with others, so that the last one may be
lost.
"""
_IN_ANY_ORDER = ("sum", "subtract", "add_length", "subtract_length", "count_one", "uncount_one")

Steps = dict[str, Spec]


def as_caches_send(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """Compare final rows below joins of tables with caches, everything else plainly."""
    return _by_ends(case, outcome, compare, _caching_joins)


def as_topics_meet(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """Compare final rows below steps that one record reaches through several internal topics, everything else plainly.

    The test driver has to read the records of these topics in Kafka's order.
    """
    return compare(case, outcome) if outcome.total_order else _by_ends(case, outcome, compare, _meetings)


def _by_ends(
    case: Spec, outcome: Outcome, compare: Comparison, told_by: Callable[[Spec, Steps], set[str]]
) -> list[str]:
    expected = case["expected"]
    steps = {step["id"]: step for step in case["topology"]}
    alike = _all_below(case, told_by(case, steps))
    if "error" in expected or outcome.error is not None or not alike:
        return compare(case, outcome)
    ends = _topics_of(steps, alike)
    stores = {str(name): id_ for id_ in alike if (name := store_of(steps[id_])) in expected["stores"]}
    groups = {id_ for id_ in alike if _may_be_empty(steps, steps[id_])}
    by_group = _by_group(case, steps, groups)
    told = {id_ for id_ in alike if _tells_the_way(case, steps, steps[id_])}
    unlike = _all_below(case, told | (_all_below(case, groups) - by_group))
    found = _all_but(case, outcome, compare, ends, stores)
    for topic in sorted(ends - _topics_of(steps, unlike)):
        ours, theirs = (_last(of_topic(rows, topic)) for rows in (outcome.output, expected["output"]))
        is_same = _agree(ours, theirs) if topic in _topics_of(steps, by_group) else ours == theirs
        found += [] if is_same else [f"the end of {topic}: {ours}, expected {theirs}"]
    for name, id_ in sorted(stores.items()):
        if id_ not in unlike and not _is_versioned(steps[id_]):
            ours, theirs = (
                {json.dumps(row[0]): row[1] for row in of[name]} for of in (outcome.stores, expected["stores"])
            )
            empties = _empties(steps[id_]) if id_ in groups else None
            is_same = _agree(ours, theirs, empties) if id_ in by_group else ours == theirs
            found += [] if is_same else [f"the end of store {name}: {ours}, expected {theirs}"]
    return found


def _all_but(case: Spec, outcome: Outcome, compare: Comparison, topics: set[str], stores: dict[str, str]) -> list[str]:
    """Describe all differences outside some topics and stores."""
    expected = case["expected"]
    rest = {
        **expected,
        "output": but(expected["output"], topics),
        "stores": {name: rows for name, rows in expected["stores"].items() if name not in stores},
    }
    for part in ("dropped", "metrics"):
        rest.pop(part, None)
    return compare({**case, "expected": rest}, Outcome(**{**vars(outcome), "output": but(outcome.output, topics)}))


def _agree(ours: dict[str, Any], theirs: dict[str, Any], empties: tuple[Any, ...] | None = None) -> bool:
    """Return whether groups are equal; an empty group, or its result, may be on one side only."""
    lone = {key: {**ours, **theirs}[key] for key in ours.keys() ^ theirs.keys()}
    are_empty = empties is None or all(value in empties for value in lone.values())
    return are_empty and all(ours[key] == theirs[key] for key in ours.keys() & theirs.keys())


def _may_be_empty(steps: Steps, step: Spec) -> bool:
    """Return whether a step has groups of a table's rows.

    Such groups stay when their last row is gone, so a group whose rows come and go on the way may exist or not.
    """
    if step["op"] not in ("count", "reduce", "aggregate"):
        return False
    grouped = _of(steps, step)
    return grouped["op"] == "group_by" and _is_table(steps, _of(steps, grouped))


def _empties(step: Spec) -> tuple[Any, ...]:
    return (0, "0", step.get("initializer", {}).get("value", 0))


def _by_group(case: Spec, steps: Steps, groups: set[str]) -> set[str]:
    """Return groups of tables, and the steps below that have a row for each of them."""
    reached, size = set(groups), -1
    while size < len(reached):
        size = len(reached)
        for id_, step in steps.items():
            above = parents(step) or _writers(case, step)
            if _keeps_keys(step) and above and above <= reached:
                reached.add(id_)
    return reached


def _keeps_keys(step: Spec) -> bool:
    kinds = ("filter", "filter_not", "map_values", "to_stream", "to", "to_table", "table", "stream")
    return step["op"] in kinds and (step["op"] == "map_values" or "mapper" not in step)


def _topics_of(steps: Steps, ids: set[str]) -> set[str]:
    return {steps[id_]["topic"] for id_ in ids if steps[id_]["op"] == "to"}


def _last(rows: list[Row]) -> dict[str, Any]:
    """Return the final row of each key in a topic, without deleted keys."""
    last = {json.dumps(row["key"]): row["value"] for row in rows}
    return {key: value for key, value in last.items() if value is not None}


def _all_below(case: Spec, ids: set[str]) -> set[str]:
    """Return these steps and all below them, through topics of the case too."""
    reached, size = set(ids), -1
    while size < len(reached):
        size = len(reached)
        for step in case["topology"]:
            if parents(step) & reached or _writers(case, step) & reached:
                reached.add(step["id"])
    return reached


def _writers(case: Spec, source: Spec) -> set[str]:
    """Return the steps that write the topic that a step reads."""
    if "of" in source or "topic" not in source:
        return set()
    return {step["id"] for step in case["topology"] if step["op"] == "to" and step["topic"] == source["topic"]}


def _tells_the_way(case: Spec, steps: Steps, step: Spec) -> bool:
    """Return whether a step's final result depends on the number or the order of its updates."""
    if _is_written_by_others(case, step):
        return True
    if step["op"] in _OF_UPDATES and not _is_table(steps, step):
        return True
    if step["op"] in _JOINS:
        return not _is_table(steps, step) or _is_versioned(step)
    if step["op"] in ("count", "reduce", "aggregate"):
        grouped = _of(steps, step)
        is_of_table = grouped["op"] == "group_by" and _is_table(steps, _of(steps, grouped))
        functions = {step[name]["fn"] for name in ("adder", "subtractor") if name in step}
        return not is_of_table or _is_versioned(step) or not functions <= set(_IN_ANY_ORDER)
    return step["op"] == "suppress" or ("mapper" in step and step["op"] == "to_stream") or _is_versioned(step)


def _is_written_by_others(case: Spec, step: Spec) -> bool:
    """Return whether a step reads a topic that the case writes and that also has input."""
    is_input = "of" not in step and any(entry.get("topic") == step.get("topic") for entry in case["input"])
    return is_input and bool(_writers(case, step))


def _is_table(steps: Steps, step: Spec) -> bool:
    if step["op"] in ("filter", "filter_not", "map_values", "suppress", *_JOINS):
        return _is_table(steps, _of(steps, step))
    return step["op"] in ("table", "to_table", "count", "reduce", "aggregate")


def _of(steps: Steps, step: Spec) -> Spec:
    """Return the step that a step applies to; a cogroup's own."""
    return steps[str(step["of"]).partition(".")[0]] if "of" in step else step


def _is_versioned(step: Spec) -> bool:
    return (step.get("materialized") or {}).get("kind") == "versioned"


def _caching_joins(case: Spec, steps: Steps) -> set[str]:
    """Return the joins of tables that have a cache below them or on a side."""
    if not int(case.get("config", {}).get("statestore.cache.max.bytes", 0)):
        return set()
    found = set()
    for id_, step in steps.items():
        if step["op"] in _JOINS and _is_table(steps, step):
            found |= {id_} if any(_caches(steps[above]) for above in _all_above(case, steps, id_)) else set()
    return found


def _caches(step: Spec) -> bool:
    """Return whether a step has a store that caches, as source tables and joins do by default."""
    given = step.get("materialized")
    if given is None:
        return step["op"] in ("table", *_JOINS)
    return bool(given.get("caching")) and not _is_versioned(step)


def _meetings(case: Spec, steps: Steps) -> set[str]:
    """Return the steps where results of one record may arrive in another order.

    These are steps that the results reach on several ways, one of them through an internal topic. Others are steps that
    records reach through a topic of the case, which is read in a later commit than written. The rest are foreign-key
    joins in which one record may change a left row twice through a topic.
    """
    found = {id_ for id_, step in steps.items() if _is_written_by_others(case, step)}
    return found | {id_ for id_, step in steps.items() if step["op"] in _OF_SEVERAL and _meets(case, steps, step)}


def _meets(case: Spec, steps: Steps, step: Spec) -> bool:
    sides = sorted(parents(step))
    is_by_foreign_key = "foreign_key_extractor" in step
    reached = [_all_above(case, steps, side) for side in sides]
    if not any(_goes_through_a_topic(above) for above in (step, *(steps[id_] for side in reached for id_ in side))):
        return False
    comes_later = any(_writers(case, steps[above]) for side in reached for above in side)
    if is_by_foreign_key:
        left = _all_above(case, steps, step["of"])
        by_topic = any(_goes_through_a_topic(steps[above]) for above in left)
        return len(sides) == 1 or comes_later or by_topic or _share(steps, reached)
    return len(sides) > 1 and (comes_later or _share(steps, reached))


def _share(steps: Steps, sides: list[set[str]]) -> bool:
    """Return whether two sides read the same source."""
    shared = {above for one, other in combinations(sides, 2) for above in one & other}
    return any("of" not in steps[above] for above in shared)


def _goes_through_a_topic(step: Spec) -> bool:
    return (
        "foreign_key_extractor" in step
        or step["op"] in ("group_by", "repartition", "select_key", "map", "flat_map", "to")
        or (step["op"] == "to_stream" and "mapper" in step)
    )


def _all_above(case: Spec, steps: Steps, id_: str) -> set[str]:
    """Return a step and all steps above it, through topics of the case too."""
    found: set[str] = set()
    waiting = [id_]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [*parents(steps[one]), *_writers(case, steps[one])]
    return found

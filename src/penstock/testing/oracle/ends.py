"""How cases are compared whose tables end the same, and of which not every update on the way there is the same."""

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
"""What leaves out updates of a stream, gives them other keys, or mixes them with others: the last one may go."""
_IN_ANY_ORDER = ("sum", "subtract", "add_length", "subtract_length", "count_one", "uncount_one")

Steps = dict[str, Spec]


def as_caches_send(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """What is behind joins of tables of which some cache by how it ends, everything else plainly."""
    return _by_ends(case, outcome, compare, _caching_joins)


def as_topics_meet(case: Spec, outcome: Outcome, compare: Comparison) -> list[str]:
    """What is behind steps that one record reaches by way of several internal topics by how it ends, everything else
    plainly; the test driver has to take the records of these topics as Kafka's does."""
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
    """How all that is not in some topics and stores differs."""
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
    """Whether groups are the same; one that is empty, or what is made of it, may be on one side only."""
    lone = {key: {**ours, **theirs}[key] for key in ours.keys() ^ theirs.keys()}
    are_empty = empties is None or all(value in empties for value in lone.values())
    return are_empty and all(ours[key] == theirs[key] for key in ours.keys() & theirs.keys())


def _may_be_empty(steps: Steps, step: Spec) -> bool:
    """Whether a step has groups of a table's rows. They stay when their last row has gone, so that a group whose rows
    come and go on the way may be there or not."""
    if step["op"] not in ("count", "reduce", "aggregate"):
        return False
    grouped = _of(steps, step)
    return grouped["op"] == "group_by" and _is_table(steps, _of(steps, grouped))


def _empties(step: Spec) -> tuple[Any, ...]:
    return (0, "0", step.get("initializer", {}).get("value", 0))


def _by_group(case: Spec, steps: Steps, groups: set[str]) -> set[str]:
    """Groups of tables, and the steps below that have a row for each of them."""
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
    """What a topic ends with, key by key; deleted keys are not there."""
    last = {json.dumps(row["key"]): row["value"] for row in rows}
    return {key: value for key, value in last.items() if value is not None}


def _all_below(case: Spec, ids: set[str]) -> set[str]:
    """These steps and all below them, through topics of the case too."""
    reached, size = set(ids), -1
    while size < len(reached):
        size = len(reached)
        for step in case["topology"]:
            if parents(step) & reached or _writers(case, step) & reached:
                reached.add(step["id"])
    return reached


def _writers(case: Spec, source: Spec) -> set[str]:
    """The steps that write the topic that a step reads."""
    if "of" in source or "topic" not in source:
        return set()
    return {step["id"] for step in case["topology"] if step["op"] == "to" and step["topic"] == source["topic"]}


def _tells_the_way(case: Spec, steps: Steps, step: Spec) -> bool:
    """Whether what a step ends as depends on how many updates it gets, or in which order."""
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
    """Whether a step reads a topic that the case writes, and that its input is in as well."""
    is_input = "of" not in step and any(entry.get("topic") == step.get("topic") for entry in case["input"])
    return is_input and bool(_writers(case, step))


def _is_table(steps: Steps, step: Spec) -> bool:
    if step["op"] in ("filter", "filter_not", "map_values", "suppress", *_JOINS):
        return _is_table(steps, _of(steps, step))
    return step["op"] in ("table", "to_table", "count", "reduce", "aggregate")


def _of(steps: Steps, step: Spec) -> Spec:
    """The step that a step applies to; a cogroup's own."""
    return steps[str(step["of"]).partition(".")[0]] if "of" in step else step


def _is_versioned(step: Spec) -> bool:
    return (step.get("materialized") or {}).get("kind") == "versioned"


def _caching_joins(case: Spec, steps: Steps) -> set[str]:
    """The joins of tables behind which, or on a side of which, a store caches."""
    if not int(case.get("config", {}).get("statestore.cache.max.bytes", 0)):
        return set()
    found = set()
    for id_, step in steps.items():
        if step["op"] in _JOINS and _is_table(steps, step):
            found |= {id_} if any(_caches(steps[above]) for above in _all_above(case, steps, id_)) else set()
    return found


def _caches(step: Spec) -> bool:
    """Whether a step has a store that caches: source tables and joins do unless they say otherwise."""
    given = step.get("materialized")
    if given is None:
        return step["op"] in ("table", *_JOINS)
    return bool(given.get("caching")) and not _is_versioned(step)


def _meetings(case: Spec, steps: Steps) -> set[str]:
    """The steps that what one record causes reaches on several ways, of which one leads through an internal topic;
    those that records reach through a topic of the case's own, which is read in a later commit than it is written; and
    foreign-key joins of which one record may change a left row twice by way of a topic."""
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
    """Whether two sides read the same source."""
    shared = {above for one, other in combinations(sides, 2) for above in one & other}
    return any("of" not in steps[above] for above in shared)


def _goes_through_a_topic(step: Spec) -> bool:
    return (
        "foreign_key_extractor" in step
        or step["op"] in ("group_by", "repartition", "select_key", "map", "flat_map", "to")
        or (step["op"] == "to_stream" and "mapper" in step)
    )


def _all_above(case: Spec, steps: Steps, id_: str) -> set[str]:
    """A step and all that it stands on, through topics of the case too."""
    found: set[str] = set()
    waiting = [id_]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [*parents(steps[one]), *_writers(case, steps[one])]
    return found

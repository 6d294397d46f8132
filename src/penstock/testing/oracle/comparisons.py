"""Comparisons for cases in which Penstock deliberately differs from Kafka Streams: one for each rule, and for each case
that no rule covers, by the names in ``differences.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.errors import BufferFullError
from penstock.testing.oracle.cached import as_if_expired, as_if_uncached, as_versions_are_kept, topic_by_topic
from penstock.testing.oracle.ends import as_caches_send, as_topics_meet
from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.headers import as_without_headers
from penstock.testing.oracle.outcome import Comparison, Outcome, Row, differences
from penstock.testing.oracle.rows import but, key_of, of_topic, plainly, repeated, without_cause
from penstock.testing.oracle.steps import (
    gathering_steps,
    gone_until,
    has_sides,
    is_sliding,
    is_windowed,
    last_times,
    lossy_closings,
    steps_above,
    steps_below,
    store_of,
    times_of,
    topics_below,
    windows_above,
)


class Recomparison(Protocol):
    """Returns the differences that remain under a rule, after another comparison found some."""

    def __call__(self, case: Spec, outcome: Outcome, compare: Comparison) -> list[str]: ...


@dataclass(frozen=True)
class WholeRule:
    """A rule for whole cases."""

    applies: Callable[[Spec], bool]
    compare: Callable[[Spec, Outcome], list[str]]


@dataclass(frozen=True)
class TopicRule:
    """A rule for some topics of a case; everything else is compared plainly.

    Attributes:
        steps_of: the steps below which it applies.
        compare: compares the rows of a topic: ours, and the expected ones.
        holds_for: whether rows that equal the expected ones are as decided.
    """

    steps_of: Callable[[Spec], list[Spec]]
    compare: Callable[[Spec, list[Row], list[Row]], list[str]]
    holds_for: Callable[[Spec, list[Row]], bool] = lambda case, rows: True

    def topics_of(self, case: Spec) -> set[str]:
        return {topic for step in self.steps_of(case) for topic in topics_below(case, step)}


def compare_topics(case: Spec, outcome: Outcome, rules: Sequence[TopicRule]) -> list[str]:
    """Compare some topics by rules, everything else plainly. Equal results pass if they are as decided."""
    rule_of = {topic: rule for rule in reversed(rules) for topic in rule.topics_of(case)}
    topics = {topic: of_topic(outcome.output, topic) for topic in rule_of}
    if all(rule_of[topic].holds_for(case, rows) for topic, rows in topics.items()) and not differences(case, outcome):
        return []
    expected = case["expected"]
    if "output" not in expected:
        return differences(case, outcome)
    if _is_full_earlier(case, outcome):
        more = {topic for step in lossy_closings(case) for topic in topics_below(case, step)}
        others, theirs = (without_cause(but(rows, more)) for rows in (outcome.output, expected["output"]))
        return [f"unexpected {json.dumps(row)}" for row in others if row not in theirs]
    found = []
    for topic, ours in sorted(topics.items()):
        theirs = of_topic(expected["output"], topic)
        found += [f"output to {topic}: {difference}" for difference in rule_of[topic].compare(case, ours, theirs)]
    stores = dict(expected.get("stores", {}))
    found += _compare_stores(case, outcome, rules, stores)
    metrics = {name: n for name, n in expected.get("metrics", {}).items() if not name.startswith("suppression-")}
    plain_expected = {**expected, "output": but(expected["output"], topics), "metrics": metrics, "stores": stores}
    plain_case = {**case, "expected": plain_expected}
    plain_outcome = Outcome(**{**vars(outcome), "output": but(outcome.output, topics)})
    return found + differences(plain_case, plain_outcome)


def _compare_stores(case: Spec, outcome: Outcome, rules: Sequence[TopicRule], stores: dict[str, Any]) -> list[str]:
    """Compare the stores under a rule, and remove them from those to be compared plainly."""
    found = []
    kept_of_several = {name for rule in rules for name in _stores_made_of_several(case, rule)}
    for name in kept_of_several & stores.keys() & outcome.stores.keys():
        kept = [row for row in stores.pop(name) if not _may_be_gone(case, name, row)]
        ours, theirs = [[{"key": row[0]} for row in rows] for rows in (outcome.stores[name], kept)]
        found += [f"store {name}: {difference}" for difference in _from_the_same_results(case, ours, theirs)]
    for name in {name for rule in rules for name in _stores_one_by_one(case, rule)} & stores.keys():
        rows = _rows_differ(case, outcome.stores.get(name, []), stores.pop(name))
        found += [f"store {name}: {difference}" for difference in rows]
    return found


def _is_made_of_several(case: Spec, rule: TopicRule, topic: str) -> bool:
    """Return whether rows of a topic combine the results of several windows."""
    gathering = [step for above in rule.steps_of(case) for step in gathering_steps(case, above)]
    return any(topic == step.get("topic") or topic in topics_below(case, step) for step in gathering)


def _stores_made_of_several(case: Spec, rule: TopicRule) -> set[str]:
    """Return the stores that combine several results, which came at other times, and in another number."""
    gathering = [step for above in rule.steps_of(case) for step in gathering_steps(case, above)]
    return {name for step in gathering if (name := store_of(step))}


def _stores_one_by_one(case: Spec, rule: TopicRule) -> set[str]:
    """Return the stores below that have a row for each window."""
    below = [step for above in rule.steps_of(case) for step in steps_below(case, above)]
    return {name for step in below if (name := store_of(step))} - _stores_made_of_several(case, rule)


def _may_be_gone(case: Spec, store: str, row: list[Any]) -> bool:
    """Return whether a window has expired, if results that Kafka Streams lost are sent into its store."""
    (step,) = (step for step in case["topology"] if store_of(step) == store)
    if not lossy_closings(case) or not is_windowed(case, step) or _never_closes(case, step):
        return False
    is_session = windows_above(case, step)["type"] == "SessionWindows"
    return bool(row[0]["end" if is_session else "start"] <= gone_until(case, step))


def _never_closes(case: Spec, step: Spec) -> bool:
    return bool(windows_above(case, step)["type"] == "UnlimitedWindows")


def _rows_differ(case: Spec, ours: list[Any], theirs: list[Any]) -> list[str]:
    """Describe different rows, except those of windows that are still held, or that Kafka Streams lost."""
    mine, other = [{json.dumps(row[0], sort_keys=True): row for row in rows} for rows in (ours, theirs)]
    found = [f"row {mine[key]}, expected {other[key]}" for key in mine.keys() & other.keys() if mine[key] != other[key]]
    if not any(_closes_last(case, step) for step in _sliding_suppressions(case)):
        found += [f"missing {other[key]}" for key in other.keys() - mine.keys()]
    return found if lossy_closings(case) else found + [f"unexpected {mine[key]}" for key in mine.keys() - other.keys()]


# --- final results of sliding windows --------------------------------------------------------------------------------


def _sliding_suppressions(case: Spec) -> list[Spec]:
    """Return the suppressions of sliding windows until they close, if a record arrives just when a window closes in
    Kafka Streams: a millisecond later there is no difference.
    """
    return [
        step
        for step in case["topology"]
        if step["op"] == "suppress" and step["until"] == "window_closes" and is_sliding(windows_above(case, step))
    ]


def _each_window_once(case: Spec, ours: list[Row]) -> bool:
    rule = BY_TOPIC[_SLIDING]
    several = any(_is_made_of_several(case, rule, topic) for topic in {row["topic"] for row in ours})
    return several or any(has_sides(case, step) for step in rule.steps_of(case)) or not repeated(ours)


def _last_of_each_window(case: Spec, ours: list[Row], theirs: list[Row]) -> list[str]:
    """Compare one result for each key and window: the last expected one. Windows that close at the very end may be
    held.
    """
    rule = BY_TOPIC[_SLIDING]
    if not any(_may_close_early(case, step) for step in rule.steps_of(case)):
        return plainly(ours, theirs)
    if any(_is_made_of_several(case, rule, topic) for topic in {row["topic"] for row in [*ours, *theirs]}):
        return _from_the_same_results(case, ours, theirs)
    held = _may_be_held(case, theirs)
    if any(has_sides(case, step) for step in rule.steps_of(case)):
        return _some_of_each_window(ours, theirs, held)
    expected = {key_of(row): row for row in theirs}
    found = repeated(ours)
    found += [f"unexpected {json.dumps(row)}" for row in ours if expected.get(key_of(row)) != row]
    missing = expected.keys() - {key_of(row) for row in ours} - held
    return found + [f"missing {json.dumps(expected[key])}" for key in sorted(missing)]


def _some_of_each_window(ours: list[Row], theirs: list[Row], held: set[str]) -> list[str]:
    """Check that each window has some of the expected results, in order, including the last one unless it may be held.

    Each stream of a cogroup has a separate time: one may change a window that another one's time has closed.
    """
    found = []
    for key in sorted({key_of(row) for row in [*ours, *theirs]}):
        mine, other = [[row for row in rows if key_of(row) == key] for rows in (ours, theirs)]
        rest = iter(other)
        found += [f"unexpected, or out of order: {json.dumps(row)}" for row in mine if row not in rest]
        if mine[-1:] != other[-1:] and key not in held:
            found.append(f"missing {json.dumps(other[-1:])}")
    return found


def _from_the_same_results(case: Spec, ours: list[Row], theirs: list[Row]) -> list[str]:
    """Compare the keys of combined results, which depend on the times of their inputs.

    Keys are left out whose only results may be held, or were lost by Kafka Streams.
    """
    came, expected = {key_of(row) for row in ours}, {key_of(row) for row in theirs}
    found = [] if lossy_closings(case) else [f"unexpected key {key}" for key in sorted(came - expected)]
    held = any(_closes_last(case, step) for step in _sliding_suppressions(case))
    return found if held else found + [f"missing key {key}" for key in sorted(expected - came)]


def _may_close_early(case: Spec, step: Spec) -> bool:
    windows = windows_above(case, step)
    grace = windows.get("grace_ms", 0)
    return bool(_window_ends(case, windows) & {time - grace for time in times_of(case)})


def _closes_last(case: Spec, step: Spec) -> bool:
    """Return whether a window may close at the last time that the suppression sees: that of all topics, or of one."""
    windows = windows_above(case, step)
    return bool({time - windows.get("grace_ms", 0) for time in last_times(case)} & _window_ends(case, windows))


def _window_ends(case: Spec, windows: Any) -> set[int]:
    """Return where windows may end: at records, right after whose windows others begin, and at the end of the first
    one.
    """
    difference = windows["time_difference_ms"]
    return {end for time in times_of(case) for end in (time, time + 1 + difference)} | {difference}


def _may_be_held(case: Spec, theirs: list[Row]) -> set[str]:
    """Return the keys of the windows that Kafka Streams emitted last, if some record has the very time at which they
    close.

    Chained suppressions wait for the previous ones: each of them may hold one more end, and the ends within its waiting
    time before these.
    """
    steps = _sliding_suppressions(case)
    behind = [[below for below in steps_below(case, step) if below["op"] == "suppress"] for step in steps]
    depth = max((1 + len(below) for below in behind), default=0)
    ends = sorted({end for row in theirs if (end := _end(row["key"])) is not None})
    if not depth or not ends:
        return set()
    graces = {windows_above(case, step).get("grace_ms", 0) for step in steps}
    if depth == 1 and not {ends[-1] + grace for grace in graces} & times_of(case):
        return set()
    waited = max(sum(suppress.get("time_ms", 0) for suppress in below) for below in behind)
    first = ends[-depth:][0] - waited
    for _ in range(depth - 1):  # each chained suppression follows the times of the previous one's results
        gone = [row["timestamp"] for row in theirs if (end := _end(row["key"])) is not None and end < first]
        first = min(first, max(gone, default=-1) - max(graces))
    return {key_of(row) for row in theirs if (end := _end(row["key"])) is not None and end >= first}


def _end(key: Any) -> int | None:
    """Return the end of a windowed key, or of its text; None if a mapper removed the window."""
    if isinstance(key, dict):
        return int(key["end"])
    end = key[:-1].rpartition("/")[2]
    return int(end) if end.isdigit() else None


def _is_full_earlier(case: Spec, outcome: Outcome) -> bool:
    """Return whether a buffer that shuts down was full when Kafka's was not.

    Kafka's sends windows a moment earlier, or has lost some.
    """
    below = [low for step in lossy_closings(case) for low in steps_below(case, step) if low["op"] == "suppress"]
    buffers = [step.get("buffer_config") or {} for step in [*_sliding_suppressions(case), *below]]
    error = case["expected"].get("error", {"when": "run", "after": len(case["input"])})
    is_earlier = outcome.error_after is None or outcome.error_after <= error.get("after", -1)
    limited = any(buffer.get("when_full") == "shut_down" for buffer in buffers)
    return limited and isinstance(outcome.error, BufferFullError) and error["when"] == "run" and is_earlier


# --- emission on close from stores whose retention is too short ------------------------------------------------------


def _nothing_lost(case: Spec, ours: list[Row], theirs: list[Row]) -> list[str]:
    """Check that all expected rows exist, in order. Other windows may come in addition, each once, also in combined
    results.
    """
    rule = BY_TOPIC[_ON_CLOSE]
    if any(_is_made_of_several(case, rule, topic) for topic in {row["topic"] for row in [*ours, *theirs]}):
        return _from_the_same_results(case, ours, theirs)
    rest, held = iter(ours), _may_be_held(case, theirs)
    missing = [row for row in theirs if not (key_of(row) in held and row not in ours) and row not in rest]
    windowed = [row for row in ours if _end(row["key"]) is not None]  # other rows cannot be counted
    return [f"missing, or out of order: {json.dumps(row)}" for row in missing] + repeated(windowed)


# --- what fails in Kafka Streams for no reason -----------------------------------------------------------------------


def _fails(when: str, message: str) -> Callable[[Spec], bool]:
    """Return a test whether a case is expected to fail in a certain way."""

    def does(case: Spec) -> bool:
        error = case["expected"].get("error", {})
        return error.get("when") == when and message in error.get("message", "")

    return does


def _shares_group(case: Spec) -> bool:
    """Return whether a named group is aggregated both alone and in a cogroup."""
    users = [step["of"] for step in case["topology"] if step["op"] in ("count", "reduce", "aggregate") and "of" in step]
    users += [stream["of"] for step in case["topology"] for stream in step.get("streams", [])]
    return any(users.count(id_) > 1 for id_ in users)


def _suppresses_cogroup(case: Spec) -> bool:
    """Return whether the table of a windowed cogroup is suppressed."""
    chains = [steps_above(case, step) for step in case["topology"] if step["op"] == "suppress"]
    return any({"windowed_by", "cogroup"} <= {step["op"] for step in chain} for chain in chains)


def _goes_on(case: Spec, outcome: Outcome) -> list[str]:
    """Check that nothing fails but a full buffer, and that the output before Kafka's failure is as expected."""
    if outcome.error is not None and not isinstance(outcome.error, BufferFullError):
        return [f"failed ({outcome.error_when}): {type(outcome.error).__name__}: {outcome.error}"]
    found = []
    for topic in {row["topic"] for row in case["expected"].get("output", [])}:
        ours, theirs = of_topic(outcome.output, topic), of_topic(case["expected"]["output"], topic)
        found += plainly(ours[: len(theirs)], theirs)
    return found


# --- single cases ----------------------------------------------------------------------------------------------------


def _forwards_null_keys(case: Spec, outcome: Outcome) -> list[str]:
    """Check a left join with a grace period: a record without a key does not fail, and is joined with nothing."""
    if outcome.error is not None:
        return [f"failed ({outcome.error_when}): {type(outcome.error).__name__}: {outcome.error}"]
    join = next(step for step in case["topology"] if step["op"] == "left_join")
    stream = next(step for step in case["topology"] if step["id"] == join["of"])
    given = [entry["timestamp"] for entry in case["input"] if entry.get("topic") == stream["topic"]]
    without_key = [e["timestamp"] for e in case["input"] if e.get("topic") == stream["topic"] and e["key"] is None]
    came = [row["timestamp"] for row in outcome.output]
    came_without_key = [row["timestamp"] for row in outcome.output if row["key"] is None]
    found = []
    if sorted(came_without_key) != sorted(without_key):
        found.append(f"without a key came out {came_without_key}, expected {without_key} (timestamps)")
    if not set(came) <= set(given):
        found.append(f"came out {came}, which is more than went in: {given} (timestamps)")
    return found


_SLIDING = "SlidingWindows, then suppress until window_closes"
_ON_CLOSE = "emit_strategy on_window_close with a store of default retention"

BY_TOPIC = {
    _ON_CLOSE: TopicRule(lossy_closings, _nothing_lost),
    _SLIDING: TopicRule(_sliding_suppressions, _last_of_each_window, _each_window_once),
}
"""The rules for some topics of a case; the first match applies."""

WHOLE = {
    "SlidingWindows of a time difference of 0": WholeRule(
        _fails("run", "Window endMs must be greater than window startMs"), _goes_on
    ),
    "a join with the table of a windowed cogroup": WholeRule(
        _fails("build", "KTable source state store must implement either"), _goes_on
    ),
    "a versioned table, to_stream, then a windowed cogroup and suppress": WholeRule(
        lambda case: (
            _fails("build", "suppress() is only supported for non-versioned")(case) and _suppresses_cogroup(case)
        ),
        _goes_on,
    ),
    "a named group aggregated on its own and in a cogroup": WholeRule(
        lambda case: _fails("build", "-repartition-filter is already added")(case) and _shares_group(case), _goes_on
    ),
}
"""The rules for whole cases."""

OTHERWISE: dict[str, Recomparison] = {
    "several topics behind tables with caching": topic_by_topic,
    "a table of windows with caching, joined with another table": as_if_uncached,
    "a window or session store with caching": as_if_expired,
    "a versioned table made of a table with caching": as_versions_are_kept,
    "a join of tables with caching": as_caches_send,
    "one record reaches a step by several internal topics": as_topics_meet,
    "headers behind SessionWindows": as_without_headers,
}
"""The rules that repeat a comparison in another way."""

CASES = {"stream-table-left-join-grace-null-key": _forwards_null_keys}
"""The comparisons of single cases."""

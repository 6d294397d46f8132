"""Cases in which Penstock deliberately does other than Kafka Streams, compared as ``differences.json`` says.

The file names cases, and rules for all cases of a kind. What it says is prose; each rule and each case that no rule
covers has its comparison here, by the name that the file gives it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from penstock.testing.oracle.functions import CaseError, Spec
from penstock.testing.oracle.outcome import Outcome, Row, differences

FILE = "differences.json"


@dataclass(frozen=True)
class Decisions:
    """What one ``differences.json`` says: the names of its cases, and when its rules apply."""

    cases: frozenset[str] = frozenset()
    rules: tuple[str, ...] = ()

    @classmethod
    def beside(cls, folder: Path) -> Decisions:
        """Those of the file beside a folder of cases; none if there is no such file.

        Raises:
            CaseError: the file has a rule that has no comparison here.
        """
        file = folder.resolve().parent / FILE
        if not file.is_file():
            return cls()
        said = json.loads(file.read_text())
        rules = tuple(rule["when"] for rule in said["rules"])
        unknown = [when for when in rules if when not in _RULES]
        if unknown:
            raise CaseError(f"{file} has rules that this runner does not know: {'; '.join(unknown)}")
        return cls(frozenset(said["cases"]), rules)

    def comparison_of(self, case: Spec) -> Callable[[Spec, Outcome], list[str]] | None:
        """How a case is to be compared; None for plainly.

        Raises:
            CaseError: the file names the case, and there is no comparison for it here.
        """
        for when in self.rules:
            topics_of, compare = _RULES[when]
            if topics := topics_of(case):
                return lambda case, outcome: _compare_topics(case, outcome, topics, compare)
        if case["name"] not in self.cases:
            return None
        if case["name"] not in _CASES:
            raise CaseError(f"{FILE} names the case {case['name']}, and this runner does not know how to compare it")
        return _CASES[case["name"]]

    def differences(self, case: Spec, outcome: Outcome) -> list[str]:
        """What differs from the expectations of a case, as decided; nothing when it passed."""
        return (self.comparison_of(case) or differences)(case, outcome)


def _compare_topics(
    case: Spec, outcome: Outcome, topics: set[str], compare: Callable[[Spec, list[Row], list[Row]], list[str]]
) -> list[str]:
    """Some topics by a rule, everything else plainly."""
    expected = case["expected"]
    if "output" not in expected:
        return differences(case, outcome)
    found = []
    for topic in sorted(topics):
        ours, theirs = _of_topic(outcome.output, topic), _of_topic(expected["output"], topic)
        found += [f"output to {topic}: {difference}" for difference in compare(case, ours, theirs)]
    metrics = {name: n for name, n in expected.get("metrics", {}).items() if not name.startswith("suppression-")}
    stores = dict(expected.get("stores", {}))
    for name in _stores_made_of_several(case) & stores.keys() & outcome.stores.keys():
        ours, theirs = [[{"key": row[0]} for row in rows] for rows in (outcome.stores[name], stores.pop(name))]
        found += [f"store {name}: {difference}" for difference in _from_the_same_results(case, ours, theirs)]
    plain_expected = {**expected, "output": _but(expected["output"], topics), "metrics": metrics, "stores": stores}
    plain_case = {**case, "expected": plain_expected}
    plain_outcome = Outcome(**{**vars(outcome), "output": _but(outcome.output, topics)})
    return found + differences(plain_case, plain_outcome)


def _of_topic(rows: list[Row], topic: str) -> list[Row]:
    """The rows of a topic without the input entries that caused them: they may come later, or with others."""
    return [{k: v for k, v in row.items() if k != "after"} for row in rows if row["topic"] == topic]


def _but(rows: list[Row], topics: set[str]) -> list[Row]:
    return [row for row in rows if row["topic"] not in topics]


# --- final results of sliding windows --------------------------------------------------------------------------------


def _behind_sliding_suppressions(case: Spec) -> set[str]:
    """The topics behind suppressions of sliding windows until they close."""
    return {topic for step in _sliding_suppressions(case) for topic in _topics_below(case, step)}


def _sliding_suppressions(case: Spec) -> list[Spec]:
    return [
        step
        for step in case["topology"]
        if step["op"] == "suppress" and step["until"] == "window_closes" and _is_sliding(_windows_above(case, step))
    ]


def _last_of_each_window(case: Spec, ours: list[Row], theirs: list[Row]) -> list[str]:
    """One result for each key and window: the last one expected. Those that close at the very end may be held."""
    if not _may_close_early(case):
        return _plainly(ours, theirs)
    if any(_is_made_of_several(case, topic) for topic in {row["topic"] for row in [*ours, *theirs]}):
        return _from_the_same_results(case, ours, theirs)
    end_of_time = _end_of_time(case)
    expected = {_key(row): row for row in theirs}
    grace = _sliding_windows(case).get("grace_ms", 0)
    may_be_held = {key for key, row in expected.items() if _end(row["key"]) + grace == end_of_time}
    found = _repeated(ours)
    found += [f"unexpected {json.dumps(row)}" for row in ours if expected.get(_key(row)) != row]
    missing = expected.keys() - {_key(row) for row in ours} - may_be_held
    return found + [f"missing {json.dumps(expected[key])}" for key in sorted(missing)]


def _plainly(ours: list[Row], theirs: list[Row]) -> list[str]:
    """The same rows in the same order."""
    pairs = enumerate(zip_longest(ours, theirs))
    return [f"row {n} is {json.dumps(one)}, expected {json.dumps(other)}" for n, (one, other) in pairs if one != other]


def _from_the_same_results(case: Spec, ours: list[Row], theirs: list[Row]) -> list[str]:
    """What is made of several results depends on when each of them came, and on those that came twice or are held yet;
    the keys do not, but for those whose only results may be held."""
    came, expected = {_key(row) for row in ours}, {_key(row) for row in theirs}
    found = [f"unexpected key {key}" for key in sorted(came - expected)]
    closes_last = {
        end for end in _window_ends(case) if end + _sliding_windows(case).get("grace_ms", 0) == _end_of_time(case)
    }
    return found if closes_last else found + [f"missing key {key}" for key in sorted(expected - came)]


def _may_close_early(case: Spec) -> bool:
    """Whether a record comes just when a window closes in Kafka Streams: a millisecond later all is the same."""
    grace = _sliding_windows(case).get("grace_ms", 0)
    return bool(_window_ends(case) & {time - grace for time in _times(case)})


def _window_ends(case: Spec) -> set[int]:
    """Where windows may end: at records, right behind whose windows others begin, and at the end of the first one."""
    difference = _sliding_windows(case)["time_difference_ms"]
    return {end for time in _times(case) for end in (time, time + 1 + difference)} | {difference}


def _sliding_windows(case: Spec) -> Spec:
    windows: Spec = next(step["windows"] for step in case["topology"] if _is_sliding(step.get("windows")))
    return windows


def _times(case: Spec) -> list[int]:
    return [entry["timestamp"] for entry in case["input"] if "timestamp" in entry]


def _end_of_time(case: Spec) -> int:
    """The last time that windows see: records without a key or a value do not reach them."""
    seen = [entry for entry in case["input"] if entry.get("key") is not None and entry.get("value") is not None]
    last: int = max(entry["timestamp"] for entry in seen if "timestamp" in entry)
    return last


def _is_made_of_several(case: Spec, topic: str) -> bool:
    """Whether a row of a topic is made of the results of several windows, and not each of one."""
    return any(
        topic in _topics_below(case, step)
        for above in _sliding_suppressions(case)
        for step in _gathering_below(case, above)
    )


def _stores_made_of_several(case: Spec) -> set[str]:
    """The stores of such steps, where the results in them came at other times."""
    below = [step for above in _sliding_suppressions(case) for step in _gathering_below(case, above)]
    if not below or not _may_close_early(case):
        return set()
    return {str((step.get("materialized") or {}).get("store")) for step in below}


def _gathering_below(case: Spec, step: Spec) -> list[Spec]:
    """The steps below one that give results other keys, or make one of several."""
    below = [other for other in case["topology"] if step in _steps_above(case, other)]
    return [other for other in below if other["op"] not in _ONE_BY_ONE]


_ONE_BY_ONE = ("to_stream", "to", "filter", "filter_not", "map_values", "peek", "suppress")
"""What takes up one result of a window, and gives at most one of the same key."""


def _end(key: Any) -> int:
    """The end of a windowed key, or of its text."""
    return int(key["end"] if isinstance(key, dict) else key[:-1].rpartition("/")[2])


# --- emission on close from stores of default retention --------------------------------------------------------------


def _behind_emission_on_close(case: Spec) -> set[str]:
    """The topics behind aggregations that emit on close and whose store keeps no more than it must."""
    topics = set()
    for step in case["topology"]:
        if step["op"] not in ("count", "reduce", "aggregate") or not _emits_on_close(case, step):
            continue
        windows = _windows_above(case, step)
        retention = (step.get("materialized") or {}).get("retention_ms")
        closes = windows is not None and windows["type"] != "UnlimitedWindows"
        if closes and (retention is None or retention <= _default_retention(windows)):
            topics |= _topics_below(case, step)
    return topics


def _emits_on_close(case: Spec, step: Spec) -> bool:
    return any(
        above["op"] == "emit_strategy" and above["strategy"] == "on_window_close" for above in _steps_above(case, step)
    )


def _default_retention(windows: Spec) -> int:
    kinds = {
        "TimeWindows": ("size_ms", 1),
        "SlidingWindows": ("time_difference_ms", 2),
        "SessionWindows": ("inactivity_gap_ms", 1),
    }
    field, times = kinds[windows["type"]]
    return int(windows[field] * times + windows.get("grace_ms", 0))


def _nothing_lost(case: Spec, ours: list[Row], theirs: list[Row]) -> list[str]:
    """What is expected, in order; other windows may come out in addition, each once."""
    rest = iter(ours)
    missing = [row for row in theirs if row not in rest]
    return [f"missing, or out of order: {json.dumps(row)}" for row in missing] + _repeated(ours)


# --- single cases ----------------------------------------------------------------------------------------------------


def _forwards_null_keys(case: Spec, outcome: Outcome) -> list[str]:
    """A left join with a grace period does not fail on a record without a key: it goes out, joined with nothing."""
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


# --- helpers ---------------------------------------------------------------------------------------------------------


def _key(row: Row) -> str:
    return json.dumps(row["key"], sort_keys=True)


def _repeated(rows: list[Row]) -> list[str]:
    counted = Counter(map(_key, rows))
    return [f"{count} results for {key}" for key, count in counted.items() if count > 1]


def _steps_above(case: Spec, step: Spec) -> list[Spec]:
    """The steps that a step stands on, the nearest first."""
    by_id = {other["id"]: other for other in case["topology"]}
    above = []
    while (parent := by_id.get(str(step.get("of")).partition(".")[0])) is not None:
        above.append(parent)
        step = parent
    return above


def _windows_above(case: Spec, step: Spec) -> Any:
    return next((above["windows"] for above in _steps_above(case, step) if "windows" in above), None)


def _is_sliding(windows: Any) -> bool:
    return windows is not None and windows["type"] == "SlidingWindows"


def _topics_below(case: Spec, step: Spec) -> set[str]:
    """The topics that what comes out of a step reaches."""
    reached = {step["id"]}
    topics = set()
    for other in case["topology"]:  # a step only refers to earlier ones
        parents = {str(other.get(field)).partition(".")[0] for field in ("of", "with")}
        if parents & reached:
            reached.add(other["id"])
            if other["op"] == "to":
                topics.add(other["topic"])
    return topics


_RULES: dict[str, tuple[Callable[[Spec], set[str]], Callable[[Spec, list[Row], list[Row]], list[str]]]] = {
    "SlidingWindows, then suppress until window_closes": (_behind_sliding_suppressions, _last_of_each_window),
    "emit_strategy on_window_close with a store of default retention": (_behind_emission_on_close, _nothing_lost),
}

_CASES = {"stream-table-left-join-grace-null-key": _forwards_null_keys}

"""The outcome of a case, and its differences from the expected one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.figures.metrics import Metric
from penstock.plan.topology import Topology
from penstock.query.stores import AnyView, KeyValueView, SessionView, VersionedView, WindowView
from penstock.record import Record, Windowed
from penstock.testing.oracle.functions import Spec
from penstock.values.durations import MAX_MS

Row = dict[str, Any]


@dataclass
class Outcome:
    """The results, in the form of a case's ``expected``; None for facts that a way of running does not know."""

    output: list[Row] = field(default_factory=list)
    dropped: list[int] | None = None
    reads: list[Row] | None = None
    stores: dict[str, list[Any]] = field(default_factory=dict)
    dropped_total: int | None = None
    metrics: dict[str, Any] | None = None
    """The metrics that ``figures_of`` knows."""
    error: Exception | None = None
    error_when: str = ""
    error_after: int | None = None
    total_order: bool = True
    """Whether the order between topics is known, and the input record that caused each output."""
    by_key: bool = False
    """Whether only the order of the records of each key is known."""


def as_json(value: Any) -> Any:
    """Return a key or a value in the form of case files."""
    if isinstance(value, Windowed):
        return {"key": as_json(value.key), "start": value.start, "end": value.end}
    return value


_WITHOUT_TIMES = ("key_value", "window")


def headers_of(entry: Spec) -> list[tuple[str, bytes]]:
    """Return the headers of a record of a case's input."""
    return [(name, value.encode()) for name, value in entry.get("headers", [])]


def row_of(case: Spec, topic: str, record: Record) -> Row:
    """Return a result as a case has it; with headers if an input of the case has some."""
    row = {"topic": topic, "key": as_json(record.key), "value": as_json(record.value), "timestamp": record.timestamp}
    if any("headers" in entry for entry in case["input"]):
        row["headers"] = [[name, value.decode()] for name, value in record.headers]
    return row


def store_rows(view: AnyView, shape: str | None = None) -> list[Any]:
    """Return the rows of a store in the form of case files; some shapes of added stores have no timestamps."""
    if view.has_headers:
        return list(_rows_with_headers(view))
    end = -1 if shape in _WITHOUT_TIMES else None
    return [[as_json(row[0]), *row[1:end]] for row in view.all()]


def _rows_with_headers(view: AnyView) -> Iterator[list[Any]]:
    """Return the rows of a store with headers; those of sessions have no time."""
    if isinstance(view, SessionView):
        rows: Iterator[Any] = ((key, found.aggregation, None, found.headers) for key, found in view.all_with_headers())
    elif isinstance(view, WindowView):
        rows = ((key, *found) for key, found in view.fetch_all_with_headers())
    else:
        assert isinstance(view, KeyValueView)
        rows = ((key, *found) for key, found in view.range_with_headers())
    for key, value, timestamp, headers in rows:
        yield [as_json(key), value, timestamp, [[name, data.decode()] for name, data in headers]]


def read(view: AnyView, entry: Spec) -> list[Any]:
    """Return the result of a ``read`` entry."""
    if isinstance(view, WindowView):
        return [list(row) for row in view.fetch(entry["key"], entry["from"], entry["to"])]
    if isinstance(view, VersionedView):
        return _read_versions(view, entry)
    if isinstance(view, SessionView):
        rows = view.find_sessions(entry["key"], entry.get("from", 0), entry.get("to", MAX_MS))
        return [[{"key": key.key, "start": key.start, "end": key.end}, value] for key, value in rows]
    assert isinstance(view, KeyValueView)
    found = view.get_with_timestamp(entry["key"])
    return [] if found is None else [[entry["key"], *found]]


def _read_versions(view: VersionedView, entry: Spec) -> list[Any]:
    key = entry["key"]
    if entry.get("versions"):
        bounds = {"earliest": entry.get("from", 0), "latest": entry.get("to", MAX_MS)}
        return [[key, *version] for version in view.versions(key, **bounds)]
    found = view.get_version(key, entry.get("as_of"))
    return [] if found is None else [[key, found.value, found.timestamp, None]]


def differences(case: Spec, outcome: Outcome) -> list[str]:
    """Describe the differences from the expectations of a case; empty if it passed."""
    expected = case["expected"]
    found: list[str] = []
    if "error" in expected or outcome.error is not None:
        found += _error_differs(expected.get("error"), outcome)
        if expected.get("error", {}).get("when") == "build":
            return found
    if "error" in expected and not outcome.total_order:
        return found + _committed_differs(expected, outcome)
    found += _output_differs(*_before_failure(expected, outcome))
    if outcome.dropped is not None and "dropped" in expected:
        failed = expected.get("error", {}).get("after")
        ours, theirs = [sorted(n for n in drops if n != failed) for drops in (outcome.dropped, expected["dropped"])]
        if ours != theirs:
            found.append(f"dropped {ours}, expected {theirs}")
    total = expected.get("metrics", {}).get("dropped-records-total")
    if outcome.dropped_total is not None and total is not None and outcome.dropped_total != total:
        found.append(f"dropped-records-total {outcome.dropped_total}, expected {total}")
    if outcome.reads is not None and outcome.reads != expected.get("reads", []):
        found.append(_first_difference("reads", outcome.reads, expected.get("reads", [])))
    if "error" not in expected:
        found += _stores_differ(expected.get("stores", {}), outcome)
        found += _metrics_differ(expected.get("metrics", {}), outcome.metrics or {})
    return found


def _before_failure(expected: Spec, outcome: Outcome) -> tuple[list[Row], Outcome]:
    """Return the outputs without those of a failing entry.

    Here the entry's output is complete or missing. In Kafka Streams, output before the failure exists unless it goes
    through an internal topic.
    """
    after = expected.get("error", {}).get("after")
    if after is None:
        return expected["output"], outcome
    ours = [row for row in outcome.output if row.get("after") != after]
    return [row for row in expected["output"] if row["after"] != after], replace(outcome, output=ours)


def _metrics_differ(expected: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    wrong = [name for name in ours if name in expected and not np.allclose(ours[name], expected[name], 0, 1e-6)]
    return [f"{name} {ours[name]}, expected {expected[name]}" for name in wrong]


def figures_of(topology: Topology, metrics: Mapping[Metric, float]) -> dict[str, Any]:
    """Return the metrics of a case's ``metrics``.

    Lateness is left out if several topics are read: here every source uses its own time, in Kafka Streams that of all.
    """
    of_node: dict[tuple[str, str], float] = {(metric.node, metric.name): figure for metric, figure in metrics.items()}

    def figures(name: str, of: list[str]) -> list[float]:
        return [of_node.get((node, name), 0) for node in sorted(of)]

    suppressions = [node for node in topology.nodes if node.collapses_updates]
    buffers = [node.store.name for node in suppressions if node.store is not None]
    found: dict[str, Any] = {}
    if suppressions:
        found["suppression-emit-total"] = figures("suppression-emit-total", [node.name for node in suppressions])
        for what in ("count-avg", "count-max", "size-avg", "size-max"):
            found[f"suppression-buffer-{what}"] = figures(f"suppression-buffer-{what}", buffers)
    sources = [part for sub in topology.sub_topologies for part in sub.parts if part.kind == "source"]
    if len(sources) == 1 and len(sources[0].topics) == 1:
        for name in ("record-lateness-avg", "record-lateness-max"):
            (found[name],) = figures(name, [sources[0].name])
    return found


def _committed_differs(expected: Spec, outcome: Outcome) -> list[str]:
    """Describe differences before a failure: a commit fails as a whole, so the output is a prefix of Kafka's."""
    found = []
    for topic in dict.fromkeys(row["topic"] for row in outcome.output):
        ours, theirs = _of_topic(outcome.output, topic), _of_topic(expected["output"], topic)
        if ours != theirs[: len(ours)]:
            found.append(_first_difference(f"output to {topic}", ours, theirs))
    extra = Counter(outcome.dropped or []) - Counter(expected["dropped"])
    return [*found, f"dropped {sorted(extra.elements())} too"] if extra else found


def _error_differs(expected: Spec | None, outcome: Outcome) -> list[str]:
    if expected is None:
        return [f"failed ({outcome.error_when}): {type(outcome.error).__name__}: {outcome.error}"]
    if outcome.error is None:
        return [f"did not fail, expected {expected['type']} ({expected['when']})"]
    if outcome.error_when != expected["when"]:
        return [f"failed at {outcome.error_when} ({outcome.error}), expected {expected['type']} at {expected['when']}"]
    if outcome.error_after is not None and outcome.error_after != expected.get("after"):
        return [f"failed after {outcome.error_after}, expected after {expected.get('after')}"]
    return []


def _output_differs(expected: list[Row], outcome: Outcome) -> list[str]:
    if outcome.total_order:
        return [] if outcome.output == expected else [_first_difference("output", outcome.output, expected)]
    found = []
    for topic in dict.fromkeys(row["topic"] for row in [*expected, *outcome.output]):
        ours, theirs = _of_topic(outcome.output, topic), _of_topic(expected, topic)
        if outcome.by_key:
            ours, theirs = sorted(ours, key=_key_of), sorted(theirs, key=_key_of)
        if ours != theirs:
            found.append(_first_difference(f"output to {topic}", ours, theirs))
    return found


def _of_topic(rows: list[Row], topic: str) -> list[Row]:
    return [{k: v for k, v in row.items() if k != "after"} for row in rows if row["topic"] == topic]


def _key_of(row: Row) -> str:
    return json.dumps(row["key"], sort_keys=True)


def _stores_differ(expected: dict[str, list[Any]], outcome: Outcome) -> list[str]:
    found = []
    for name, rows in expected.items():
        ours = outcome.stores.get(name)
        if ours is None:
            found.append(f"no store {name}")
        elif _counted(ours) != _counted(rows) or (_is_plain(rows) and ours != rows and not outcome.by_key):
            found.append(_first_difference(f"store {name}", ours, rows))
    return found


def _counted(rows: list[Any]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def _is_plain(rows: list[Any]) -> bool:
    """Return whether the rows have plain keys, so that their order counts."""
    return not any(isinstance(row[0], dict) for row in rows)


def _first_difference(what: str, ours: list[Any], theirs: list[Any]) -> str:
    for i, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return f"{what}: row {i} is {json.dumps(one)}, expected {json.dumps(other)}"
    if len(ours) > len(theirs):
        return (
            f"{what}: {len(ours)} rows instead of {len(theirs)}; the first too many is {json.dumps(ours[len(theirs)])}"
        )
    return f"{what}: {len(ours)} rows instead of {len(theirs)}; the first missing is {json.dumps(theirs[len(ours)])}"


Runner = Callable[[Spec], Outcome]

Comparison = Callable[[Spec, Outcome], list[str]]
"""Describes the differences from the expectations of a case."""

"""Runs a case through the engine in this process, its input cut at random (see ``penstock.testing.cuts``)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import PenstockError
from penstock.plan.topology import Topology
from penstock.testing.cuts import CutDriver
from penstock.testing.oracle.build import Build
from penstock.testing.oracle.driver import settings_of
from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import (
    Outcome,
    Runner,
    differences,
    figures_of,
    headers_of,
    read,
    row_of,
    store_rows,
)

_COMMITS = 0.2
"""Behind which part of the records a commit is made."""

Then = Callable[[], None] | None


@dataclass(frozen=True)
class Cut:
    """Runs cases with cuts that follow from a seed; None for none at all, so that all input is one commit.

    Attributes:
        commits: if not None, commits are where they follow from this seed, whatever else is cut.
    """

    seed: int | None
    commits: int | None = None

    def __call__(self, case: Spec) -> Outcome:
        outcome = Outcome(dropped=[], reads=[], total_order=False)
        try:
            build = Build(case)
            topology = build.topology()
        except PenstockError as error:
            outcome.error, outcome.error_when = error, "build"
            return outcome
        settings = settings_of(case) | {"emit_interval_ms": 0}  # the wall clock is none that a case could advance
        seed = None if self.seed is None else f"{self.seed}-{case['name']}"
        with CutDriver(topology, seed, commits_behind=self._commits_behind(case), **settings) as driver:
            run_cut(case, build, driver, outcome)
        return outcome

    def shows(self, case: Spec, outcome: Outcome) -> list[str]:
        """How a case's outcome differs from that without cuts. It is asked where a rule decides what may differ from
        Kafka Streams: no rule says that cuts may show. Only caches do. If a topology reads a topic of the log that it
        also writes, its records arrive with a commit, so commits show. Such a case is compared with itself with commits
        at the same places. A failed case has no outcome."""
        caches = bool(int(case.get("config", {}).get("statestore.cache.max.bytes", 0)))
        if caches or outcome.error is not None:
            return []
        if reads_its_outputs(Build(case).topology()):
            outcome, uncut = (Cut(seed, commits=self.seed or 0)(case) for seed in (self.seed, None))
        elif differences(case, outcome):
            uncut = Cut(None)(case)
        else:
            return []
        here, there = (_by_place(one) for one in (outcome, uncut))
        places = sorted(place for place in here.keys() | there.keys() if here.get(place) != there.get(place))
        return [f"a cut shows in {place}: {here.get(place)}, without cuts {there.get(place)}" for place in places]

    def _commits_behind(self, case: Spec) -> list[int] | None:
        if self.commits is None:
            return None
        chosen = random.Random(f"{self.commits}-{case['name']}-commits")
        return [number for number in range(len(case["input"])) if chosen.random() < _COMMITS]


def runner(seed: int) -> Runner:
    """Runs cases with cuts that follow from a seed."""
    return Cut(seed)


def reads_its_outputs(topology: Topology) -> bool:
    """Whether a topology reads topics of the log that it writes; repartition topics are none."""
    outputs = set(topology.sink_topics) - topology.internal_topics
    return not outputs.isdisjoint(topology.source_topics)


def _by_place(outcome: Outcome) -> dict[str, Any]:
    """Return the results, topic by topic and store by store."""
    found: dict[str, Any] = {"drops": outcome.dropped_total}
    for row in outcome.output:
        found.setdefault(f"topic {row['topic']}", []).append(
            (row["key"], row["value"], row["timestamp"], row.get("headers"))
        )
    for name, rows in outcome.stores.items():
        found[f"store {name}"] = sorted(rows, key=repr)
    return found


def run_cut(case: Spec, build: Build, driver: CutDriver, outcome: Outcome, then: Then = None) -> None:
    """Feed a case's input, and record the results.

    Args:
        then: called when half of the input is there.
    """
    try:
        _feed(case, driver, outcome, then)
    except PenstockError as error:
        outcome.error, outcome.error_when = error, "run"
    entry_of = [index for index, entry in enumerate(case["input"]) if "topic" in entry]
    inputs = driver.dropped_inputs()
    outcome.dropped = None if -1 in inputs else [entry_of[number] for number in inputs]
    outcome.dropped_total = driver.dropped_records_total()
    outcome.metrics = figures_of(driver.topology, driver.metrics())
    if _has_suppression_of_several_topics(driver.topology):
        outcome.metrics = {name: of for name, of in outcome.metrics.items() if "buffer-size" not in name}
    for topic in build.outputs:
        outcome.output += [row_of(case, topic, record) for record in driver.read_output(topic)]
    outcome.stores = {name: store_rows(driver.store(name), build.shapes.get(name)) for name in build.stores}


def _has_suppression_of_several_topics(topology: Topology) -> bool:
    """Whether a task that suppresses reads several topics that the topology writes. Cut at random, records that one
    record caused stand at its position (``ArrivalReader``), which tells nobody the topic that a buffer counts."""
    written = {topic for sub in topology.sub_topologies for topic in sub.sink_topics}
    suppressing = (sub for sub in topology.sub_topologies if any(p.node.collapses_updates for p in sub.parts))
    return any(len(written.intersection(sub.source_topics)) > 1 for sub in suppressing)


def _feed(case: Spec, driver: CutDriver, outcome: Outcome, then: Then = None) -> None:
    assert outcome.reads is not None
    for index, entry in enumerate(case["input"]):
        if then is not None and index == len(case["input"]) // 2:
            then()
        if "topic" in entry:
            driver.pipe_input(entry["topic"], entry["key"], entry["value"], entry["timestamp"], headers_of(entry))
        elif "advance_wall_clock_ms" in entry:
            driver.advance_wall_clock_time(entry["advance_wall_clock_ms"])
        elif "read" in entry:
            outcome.reads.append({"after": index, "result": read(driver.store(entry["read"]), entry)})
    driver.commit()

"""A case through the engine in this process, its input cut at random (see ``penstock.testing.cuts``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.errors import PenstockError
from penstock.plan import nodes
from penstock.plan.topology import Topology
from penstock.testing.cuts import CutDriver
from penstock.testing.oracle.build import Build
from penstock.testing.oracle.driver import settings_of
from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Outcome, Row, Runner, as_json, figures_of, read, store_rows

Then = Callable[[], None] | None


def runner(seed: int) -> Runner:
    """Runs cases with cuts that follow from a seed."""

    def run(case: Spec) -> Outcome:
        outcome = Outcome(dropped=[], reads=[], total_order=False)
        try:
            build = Build(case)
            topology = build.topology()
        except PenstockError as error:
            outcome.error, outcome.error_when = error, "build"
            return outcome
        settings = settings_of(case) | {"emit_interval_ms": 0}  # the wall clock is none that a case could advance
        with CutDriver(topology, f"{seed}-{case['name']}", **settings) as driver:
            run_cut(case, build, driver, outcome)
        return outcome

    return run


def run_cut(case: Spec, build: Build, driver: CutDriver, outcome: Outcome, then: Then = None) -> None:
    """Feed a case's input, and note what came of it.

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
        outcome.output += _output(driver, topic)
    outcome.stores = {name: store_rows(driver.store(name), build.shapes.get(name)) for name in build.stores}


def _has_suppression_of_several_topics(topology: Topology) -> bool:
    """Whether a task that suppresses reads several topics that the topology writes. Cut at random, records that one
    record caused stand at its position (``ArrivalReader``), which tells nobody the topic that a buffer counts."""
    written = {topic for sub in topology.sub_topologies for topic in sub.sink_topics}
    suppressing = (sub for sub in topology.sub_topologies if any(isinstance(p.node, nodes.Suppress) for p in sub.parts))
    return any(len(written.intersection(sub.source_topics)) > 1 for sub in suppressing)


def _feed(case: Spec, driver: CutDriver, outcome: Outcome, then: Then = None) -> None:
    assert outcome.reads is not None
    for index, entry in enumerate(case["input"]):
        if then is not None and index == len(case["input"]) // 2:
            then()
        if "topic" in entry:
            driver.pipe_input(entry["topic"], entry["key"], entry["value"], entry["timestamp"])
        elif "advance_wall_clock_ms" in entry:
            driver.advance_wall_clock_time(entry["advance_wall_clock_ms"])
        elif "read" in entry:
            outcome.reads.append({"after": index, "result": read(driver.store(entry["read"]), entry)})
    driver.commit()


def _output(driver: CutDriver, topic: str) -> Iterator[Row]:
    for record in driver.read_output(topic):
        yield {
            "topic": topic,
            "key": as_json(record.key),
            "value": as_json(record.value),
            "timestamp": record.timestamp,
        }

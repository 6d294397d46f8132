"""Runs a case through the test driver, one record at a time."""

from __future__ import annotations

from typing import Any

from penstock.errors import PenstockError
from penstock.testing.driver import TopologyTestDriver
from penstock.testing.oracle.build import Build
from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Outcome, figures_of, headers_of, read, row_of, store_rows


def run(case: Spec) -> Outcome:
    """Pipe the input of a case through the test driver."""
    outcome = Outcome(dropped=[], reads=[])
    try:
        build = Build(case)
        driver = TopologyTestDriver(build.topology(), **settings_of(case))
    except PenstockError as error:
        outcome.error, outcome.error_when = error, "build"
        return outcome
    for index, entry in enumerate(case["input"]):
        dropped = driver.dropped_records_total()
        try:
            _feed(driver, entry, index, outcome)
        except PenstockError as error:
            outcome.error, outcome.error_when, outcome.error_after = error, "run", index
            break
        assert outcome.dropped is not None
        outcome.dropped += [index] * (driver.dropped_records_total() - dropped)
        for topic, record in driver.read_all_output():
            outcome.output.append({"after": index, **row_of(case, topic, record)})
    outcome.dropped_total = driver.dropped_records_total()
    outcome.metrics = figures_of(driver.topology, driver.metrics())
    outcome.stores = {name: store_rows(driver.store(name), build.shapes.get(name)) for name in build.stores}
    return outcome


_THROTTLED = ("windowed.aggregation", "outer.join.spurious.results.fix")


def settings_of(case: Spec) -> dict[str, Any]:
    """Return the settings of a case's configuration; every update is emitted by default."""
    config = case.get("config", {})
    format_ = {"dsl_store_format": config["dsl.store.format"]} if "dsl.store.format" in config else {}
    return format_ | {
        "application_id": config.get("application.id", "oracle"),
        "statestore_cache_max_bytes": int(config.get("statestore.cache.max.bytes", 0)),
        "emit_interval_ms": max(int(config.get(f"__emit.interval.ms.kstreams.{what}__", 0)) for what in _THROTTLED),
    }


def _feed(driver: TopologyTestDriver, entry: Spec, index: int, outcome: Outcome) -> None:
    if "advance_wall_clock_ms" in entry:
        driver.advance_wall_clock_time(entry["advance_wall_clock_ms"])
    elif "read" in entry:
        assert outcome.reads is not None
        outcome.reads.append({"after": index, "result": read(driver.store(entry["read"]), entry)})
    else:
        driver.pipe_input(entry["topic"], entry["key"], entry["value"], entry["timestamp"], headers_of(entry))

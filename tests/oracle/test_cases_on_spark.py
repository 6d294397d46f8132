"""Cases recorded from Kafka Streams, on Spark over a file log: with one partition, and with four where the results do
not depend on how keys are spread."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.oracle.__main__ import run_case
from penstock.testing.oracle.build import existing_operators
from penstock.testing.oracle.decisions import Decisions
from penstock.testing.oracle.spark import SparkRunner, order_allows_partitions

HERE = Path(__file__).parent
DECISIONS = Decisions.beside(HERE / "cases")

# Those whose operators, options and pairs of steps no others have; all cases are in test_cases.py.
NAMES = [
    "foreign-key-join-nulls-and-many",
    "grouped-aggregate-null-initializer",
    "grouped-aggregate-null-result",
    "grouped-reduce-null-result",
    "kip328-final-two-keys-same-end",
    "kip328-suppress-then-aggregate",
    "kip655-by-id-over-all-partitions",
    "kip655-by-key-and-id",
    "kip655-distinct-tumbling",
    "kip655-late-example-1",
    "kip655-random-1-0",
    "kip914-filter-tombstones-unversioned-to-unversioned",
    "map-flat-map-repartition",
    "nulls-group-by-value-count",
    "nulls-repartition",
    "processor-behind-process-repartitions",
    "processor-by-hand",
    "processor-transform-values-2",
    "processor-values-counted",
    "random-hopping-reduce-in-memory-2",
    "random-session-append-1",
    "random-sliding-append-1",
    "random-stateless-2",
    "random-suppress-time-1",
    "random-table-aggregations-2",
    "random-tumbling-on-close-1",
    "semantics-aggregate-of-reduce",
    "semantics-cogroup-plain-nulls",
    "semantics-cogroup-tumbling-nulls",
    "semantics-count-filter-at-least-2",
    "semantics-count-of-counts",
    "semantics-through-a-topic",
    "semantics-two-repartitions-and-a-direct-sink",
    "split-and-merge",
    "split-no-default",
    "stream-global-table-join",
    "stream-stream-join-basic",
    "stream-table-left-join-grace-zero",
    "table-aggregate-remove-old-before-add-new",
    "table-filter-not-stored",
    "table-filter-skips-null-to-repartition",
    "table-map-values-chain",
    "table-reduce-sum-plain",
    "table-table-left-join-plain",
    "table-table-outer-join-plain",
    "to-table-in_memory",
    "to-table-repartition",
    "topology-optimization-none",
    "window-store-retention-and-reads",
    "word-count",
]


def load(name: str) -> Any:
    folder = {"kip655": "kip655", "processor": "processors"}.get(name.partition("-")[0], "cases")
    return json.loads((HERE / folder / f"{name}.json").read_text())


SPREADABLE = [name for name in NAMES if order_allows_partitions(load(name))]


def test_the_cases_name_every_operator_that_exists() -> None:
    named = {step["op"] for name in NAMES for step in load(name)["topology"]}
    assert existing_operators() - named == set()


def test_there_are_enough_cases() -> None:
    assert len(NAMES) >= 30
    assert len(SPREADABLE) >= 10


@pytest.fixture(scope="module")
def one_partition() -> Iterator[SparkRunner]:
    runner = SparkRunner(1)
    yield runner
    runner.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_case_on_spark(name: str, one_partition: SparkRunner) -> None:
    assert run_case(load(name), one_partition, DECISIONS) == ("passed", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", SPREADABLE)
def test_a_case_on_spark_with_four_partitions(name: str, one_partition: SparkRunner) -> None:
    four_partitions = SparkRunner(4)  # on the same session
    assert run_case(load(name), four_partitions, DECISIONS) == ("passed", "")
    four_partitions.close()

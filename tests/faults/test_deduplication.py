"""kill -9 while duplicates are left out: none comes through and nothing is lost; at least once, nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import deduplication
import harness
import pytest

pytestmark = pytest.mark.slow

COUNT = 30_000
SCRIPT = Path(deduplication.__file__)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input topic, not processed."""
    return harness.prepared(tmp_path_factory.mktemp("events"), COUNT, SCRIPT)


@pytest.fixture(scope="module")
def undisturbed(events: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nothing is killed."""
    return harness.undisturbed(events, tmp_path_factory.mktemp("undisturbed"), deduplication.topology(), SCRIPT)


def forwarded(outcome: dict[str, Any], topic: str) -> Counter[int]:
    """How often each id was forwarded to a topic."""
    rows = [row for name, rows in outcome.items() if name.startswith(f"{topic}[") for row in rows]
    return Counter(json.loads(value)["id"] for _, value, _ in rows)


ONCE = Counter(range(COUNT))


def test_undisturbed_every_id_is_forwarded_once(undisturbed: dict[str, Any]) -> None:
    assert forwarded(undisturbed, "by-key-out") == ONCE
    assert forwarded(undisturbed, "by-id-out") == ONCE


@pytest.mark.kip("655-10")
@pytest.mark.parametrize("seed", range(2))
def test_many_kills_let_no_duplicate_through_and_lose_nothing(
    seed: int, events: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = harness.copy_of(events, tmp_path)
    assert harness.run_to_the_end(folder, "--local", ["driver"], kills=12, seed=seed, script=SCRIPT) >= 8
    outcome = harness.outcome(folder, deduplication.topology())
    assert forwarded(outcome, "by-key-out") == ONCE
    assert forwarded(outcome, "by-id-out") == ONCE
    assert outcome == undisturbed


@pytest.mark.kip("655-11")
def test_at_least_once_without_a_crash_every_id_is_forwarded_once(events: Path, tmp_path: Path) -> None:
    folder = harness.copy_of(events, tmp_path)
    assert harness.Program(folder, "--at-least-once", SCRIPT).wait()
    outcome = harness.outcome(folder, deduplication.topology())
    assert forwarded(outcome, "by-key-out") == ONCE
    assert forwarded(outcome, "by-id-out") == ONCE


@pytest.mark.kip("655-11")
def test_at_least_once_a_record_whose_offset_was_not_recorded_is_forwarded_again(events: Path, tmp_path: Path) -> None:
    """Its entry is in the store with its own offset; its duplicates, whose offsets are others, stay out."""
    folder = harness.copy_of(events, tmp_path)
    harness.run_with_crashes_at(folder, "--at-least-once", ["before-offsets"], 1, SCRIPT)
    outcome = harness.outcome(folder, deduplication.topology())
    for topic in ("by-key-out", "by-id-out"):
        times = forwarded(outcome, topic)
        assert set(times) == set(ONCE)
        assert set(times.values()) == {1, 2}
    twice = {id_ for id_, n in forwarded(outcome, "by-key-out").items() if n == 2}
    for partition in range(deduplication.PARTITIONS):  # they are those of the first commit
        ids = range(partition, COUNT, deduplication.PARTITIONS)
        in_order = [id_ in twice for id_ in ids]
        assert in_order.count(True) > 100
        assert in_order == sorted(in_order, reverse=True)


@pytest.mark.kip("655-11")
def test_at_least_once_many_kills_lose_nothing(events: Path, tmp_path: Path) -> None:
    folder = harness.copy_of(events, tmp_path)
    assert harness.run_to_the_end(folder, "--at-least-once", ["driver"], kills=8, seed=5, script=SCRIPT) >= 6
    outcome = harness.outcome(folder, deduplication.topology())
    assert set(forwarded(outcome, "by-key-out")) == set(forwarded(outcome, "by-id-out")) == set(ONCE)

"""Every topology of ``support/topologies.py`` as a batch: outputs, stores and drops are those of the live engine.

Here the stages run in this process, without Spark: what it does to rows is in ``test_run_batch.py``.
"""

from __future__ import annotations

import random
from zlib import crc32

import pytest

from penstock import Topology
from penstock.engine.batch.task import BatchTask
from support.batches import Outcome, as_batch, live, log_of
from support.flows import Row
from support.topologies import CACHED, EXAMPLES, topology_of

UNCACHED = {"statestore_cache_max_bytes": 0}


def random_rows(topology: Topology, seed: int, count: int = 60) -> list[Row]:
    """Records with null keys, null values and disorder in time."""
    chosen = random.Random(seed)
    topics = [topic for topic in topology.source_topics if topic not in topology.sink_topics]

    def row() -> Row:
        time = chosen.choice([*[chosen.randint(0, 30)] * 3, 31, 100, 1000])
        return chosen.choice(topics), chosen.choice(["a", "b", "c", "d", None]), chosen.choice([1, 2, 3, 0, None]), time

    return [row() for _ in range(count)]


FEW = {"processor_of_values": 20}
"""Numbers grow too large for their type there with every record."""


def compare(name: str, partitions: int, seed: int | None, **settings: int) -> None:
    topology = topology_of(name)
    rows = random_rows(topology, crc32(name.encode()), FEW.get(name, 60))
    expected = live(topology, log_of(topology, rows, partitions), **settings)
    found = as_batch(topology, log_of(topology, rows, partitions), seed, **settings)
    for field in Outcome._fields:
        assert getattr(found, field) == getattr(expected, field), field


SOME = [pytest.param(name, marks=[pytest.mark.slow] if number % 3 else []) for number, name in enumerate(EXAMPLES)]
"""All of them; a third in ``make quick``."""


@pytest.mark.parametrize("name", SOME)
def test_a_topology_gives_the_same_as_a_batch(name: str) -> None:
    compare(name, partitions=3, seed=crc32(name.encode()), **UNCACHED)


DIRECT = [
    "filter",
    "merge",
    "global_table_join",
    "final_results",
    "stream_table_join_with_grace_by_new_keys",
    "three_stages",
]


@pytest.mark.parametrize("name", DIRECT)
def test_tasks_that_read_nothing_but_topics_of_the_log_read_them_themselves(name: str) -> None:
    compare(name, partitions=3, seed=None, **UNCACHED)


SMALL = {"commit_max_bytes": 100, "chunk_records": 7, "flush_rows": 3, "flush_commits": 2, "hot_max_bytes": 1}


@pytest.mark.parametrize(
    "name", ["sessions", "final_results", "three_stages", "table_join", "cycle_of_two_sub_topologies"]
)
def test_local_commits_do_not_show(name: str) -> None:
    topology = topology_of(name)
    rows = random_rows(topology, 7)
    found = as_batch(topology, log_of(topology, rows, 2), 7, **SMALL, **UNCACHED)
    assert found == live(topology, log_of(topology, rows, 2), **UNCACHED)


@pytest.mark.parametrize("name", CACHED)
def test_with_a_cache_the_last_update_of_each_key_comes_out_of_the_whole_batch(name: str) -> None:
    topology = topology_of(name)
    rows = random_rows(topology, 11)
    found = as_batch(topology, log_of(topology, rows), 11, **SMALL)
    assert found == live(topology, log_of(topology, rows))


@pytest.mark.parametrize(
    ("name", "step"), [("tumbling_windows", 7), ("hopping_windows", 7), ("sliding_windows", 7), ("sessions", 3)]
)
def test_updates_of_closed_windows_go_out_before_the_end_and_come_once(
    name: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a cache that holds five updates is not full, and lets none go that changes afterwards."""
    topology, rows = topology_of(name), random_rows(topology_of(name), 3)
    rows = [(topic, key, value, step * number) for number, (topic, key, value, _) in enumerate(rows)]
    monkeypatch.setattr(BatchTask, "released_records", 0)
    monkeypatch.setattr(BatchTask, "held_records", 5)
    assert as_batch(topology, log_of(topology, rows), 11, **SMALL) == live(topology, log_of(topology, rows))


def test_a_cache_that_is_full_lets_go_early(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = topology_of("count")
    rows = random_rows(topology, 11)
    monkeypatch.setattr(BatchTask, "held_records", 0)
    early = as_batch(topology, log_of(topology, rows), 11, **SMALL)
    late = live(topology, log_of(topology, rows))
    assert early.stores == late.stores
    assert len(late.outputs["out"]) == 4
    assert len(early.outputs["out"]) > 4
    assert {r["key"]: r["value"] for r in early.outputs["out"]} == {r["key"]: r["value"] for r in late.outputs["out"]}

"""How many rows a store has, in its figures: as many as whoever reads it sees."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.engine.local import LocalApplication
from penstock.query.rows import rows_of
from penstock.testing import TopologyTestDriver
from support.every_store import KEYS, Program, every_kind_of_store
from support.topologies import EXAMPLES, topology_of

KEEPING = [name for name in EXAMPLES if topology_of(name).facts.named()]


@pytest.mark.parametrize("name", KEEPING)
def test_a_store_in_memory_has_as_many_rows_as_are_read(name: str) -> None:
    """With updates in disorder, and a jump of stream time at which some of them expire."""
    choose = random.Random(name)
    driver = TopologyTestDriver(topology_of(name), statestore_cache_max_bytes=0)
    topics = [topic for topic in driver.topology.source_topics if topic not in driver.topology.sink_topics]
    for number in range(45):
        time = number + choose.randrange(8) + (200_000 if number > 40 else 0)
        driver.pipe_input(choose.choice(topics), choose.choice("abcd"), choose.choice([1, 2, 3, None]), time)
        if number in (20, 40, 44):
            stores = [(name, store) for _, state, _ in driver._tasks for name, store in state.stores.items()]
            counted = {store: one.approximate_rows() for store, one in stores}  # a global one is the same everywhere
            read = {store: len(list(driver.store(store).all())) for store in driver.topology.facts.named()}
            assert {store: counted[store] for store in read} == read


def test_rows_on_disk_only_are_counted_about(tmp_path: Path) -> None:
    program = Program(tmp_path, every_kind_of_store(), 2)
    for first in (0, 300):  # the second time most rows are on disk only
        program.produce(*((KEYS[(7 * i) % 12], (5 * i) % 9, 2 * i) for i in range(first, first + 300 - first // 2)))
        application = LocalApplication(
            program.topology, "app", program.settings, program.log, program.storage, program.folder / "tasks"
        )
        application.run_until()
        stores = application.stores()
        tasks = application.host._tasks.values()
        for name in program.topology.facts.named():
            rows = sum(task.state.stores[name].approximate_rows() for task in tasks if name in task.state.stores)
            read = len(list(rows_of(stores.view(name))))
            if first:
                assert read / 3 - 5 <= rows <= 3 * read + 5, name
            else:
                assert rows == read, name
        application.close()

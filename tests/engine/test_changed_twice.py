"""A left row of a foreign-key join that changes twice in one commit, because both tables it is made of were cached."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.log.base import TopicInfo
from penstock.log.produce import produce
from support.topologies import topology_of
from support.world import World

ROWS = [("in", "a", 1, 0), ("in", "b", 1, 0), ("other", "b", 1, 0)]


@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("later", [0, 5])
@pytest.mark.parametrize("commits", [(3,), (1, 2), (2, 1)])
@pytest.mark.parametrize("chunk_records", [1, 1000])
def test_it_ends_as_its_last_change(
    tmp_path: Path, partitions: int, later: int, commits: tuple[int, ...], chunk_records: int
):
    topology = topology_of("table_join_by_foreign_key_behind_joins_and_groups")
    settings = {"statestore_cache_max_bytes": 10 << 20, "chunk_records": chunk_records}
    world = World(tmp_path, topology, **settings)
    for topic in ("in", "other"):
        world.log.create_topic(TopicInfo(topic, partitions, key="str", value="int"))
    application = world.start()
    waiting = iter(ROWS)
    for count in commits:
        for _ in range(count):
            topic, key, value, time = next(waiting)
            produce([(key, value, time + later * (topic == "other"))], topic, value=int, log=world.log)
        application.run_until()
    application.close()
    assert dict(world.output()) == {"a": "1|2", "b": "2|0"}

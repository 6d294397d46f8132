"""Batches that are the commits of an application, and live programs in between: one result, whoever made which commit.

Here the stages run in this process, without Spark; ``test_commits_on_spark.py`` has them there.
"""

from __future__ import annotations

import random
from contextlib import closing
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest

from batch.test_every_topology import SMALL, UNCACHED, random_rows
from penstock import StreamsBuilder, Topology
from penstock.engine.batch.attempt import BatchAttempt, Job
from penstock.engine.local import LocalApplication
from penstock.errors import CorruptDataError
from penstock.log.base import Log, TopicInfo
from penstock.log.memory import MemoryLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.batches import Outcome, append, batch_after_batch, done_by, live, log_of, seeded
from support.flows import Row
from support.topologies import EXAMPLES, topology_of

SOME = [pytest.param(name, marks=[pytest.mark.slow] if number % 6 else []) for number, name in enumerate(EXAMPLES)]
"""All of them; a sixth in ``make quick``."""


@pytest.mark.parametrize("name", SOME)
def test_batches_and_live_programs_take_turns_and_give_what_one_run_gives(name: str) -> None:
    topology = topology_of(name)
    chosen = random.Random(crc32(name.encode()))
    rows = random_rows(topology, chosen.randint(0, 1000), 20 if name == "processor_of_values" else 40)
    ends = sorted(chosen.sample(range(len(rows) + 1), 3))
    parts = [rows[begin:end] for begin, end in zip([0, *ends], [*ends, len(rows)], strict=True)]
    settings = {**UNCACHED, **(SMALL if chosen.random() < 0.3 else {})}
    found = batch_after_batch(topology, parts, chosen, **settings)
    expected = live(topology, log_of(topology, []), parts, **UNCACHED)
    for field in Outcome._fields:
        assert getattr(found, field) == getattr(expected, field), field


@pytest.mark.parametrize("name", SOME)
def test_a_seed_and_a_live_program_behind_it_give_what_one_run_gives_from_there_on(name: str) -> None:
    topology = topology_of(name)
    chosen = random.Random(crc32(name.encode()) + 1)
    rows = random_rows(topology, chosen.randint(0, 1000), 20 if name == "processor_of_values" else 40)
    at = chosen.randint(1, len(rows) - 1)
    found, expected = (
        seeded(topology, rows[:at], rows[at:], chosen, by_batch, **UNCACHED) for by_batch in (True, False)
    )
    for field in Outcome._fields:
        assert getattr(found, field) == getattr(expected, field), field


class Copy(MemoryLog):
    """One of several copies of a log: the topic that is read has the same id in all of them."""

    def topic_id(self, name: str) -> str:
        return "of all copies" if name == "in" else super().topic_id(name)


def of_one_topic(topology: Topology, rows: list[Row]) -> Log:
    log = Copy()
    log.create_topic(TopicInfo("in", 1))
    append(topology, log, rows)
    return log


def test_a_batch_refuses_a_topic_that_was_brought_back_from_an_older_copy_and_has_grown_past_what_was_read(
    tmp_path: Path,
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count("counts").to_stream().to("out")
    topology = builder.build()
    rows = [("in", "a", "x", time) for time in range(4)]

    def batch(log: Log) -> None:
        settings = Settings.load(environment={})
        local = LocalApplication(topology, "app", settings, log, LocalStorage(tmp_path / "checkpoint"), None)
        attempts = partial(BatchAttempt, Job({}, partial(done_by, log, lambda: None)))
        with closing(local):
            local.coordinator.step(local.coordinator.end_offsets(), attempts=attempts)
            local.coordinator.publishing.finish()

    batch(of_one_topic(topology, rows))
    batch(of_one_topic(topology, [*rows, rows[0]]))  # goes on, and has read the offsets 0 to 4
    with pytest.raises(CorruptDataError, match="has processed the records up to offset 4, and another record is at"):
        batch(of_one_topic(topology, [*rows, ("in", "b", "y", 9), rows[0]]))

"""Batches that are the commits of an application, and live programs in between: one result, whoever made which commit.

Here the stages run in this process, without Spark; ``test_commits_on_spark.py`` has them there.
"""

from __future__ import annotations

import random
from zlib import crc32

import pytest

from batch.test_every_topology import SMALL, UNCACHED, random_rows
from support.batches import Outcome, batch_after_batch, live, log_of, seeded
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

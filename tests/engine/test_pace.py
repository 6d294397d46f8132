"""``commit_cpu_percent``: commits that take more than a share of one core are further apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.commit import loop
from penstock.engine.commit.loop import CommitLoop
from penstock.engine.commit.pace import MOST_SECONDS, Pace
from penstock.log.produce import produce
from support.world import World


def paced(share: float, *costs: float) -> list[float]:
    """The seconds between the beginnings of commits, each of which costs so many CPU seconds in slots and driver."""
    used = {"slots": 0.0, "driver": 0.0}
    pace = Pace(share, lambda: used["slots"], lambda: used["driver"])
    found = []
    for cost in costs:
        used["slots"] += cost / 2
        used["driver"] += cost / 2
        found.append(round(pace.seconds(), 6))
    return found


def test_commits_take_their_share_of_a_core():
    assert paced(0.25, 0.010, 0.010, 0.008) == [0.04, 0.04, 0.032]


def test_a_share_of_0_makes_no_pauses():
    assert paced(0.0, 0.010, 1.0) == [0.0, 0.0]


def test_the_first_commit_which_costs_more_than_others_sets_no_longer_pause_than_a_tenth_of_a_second():
    assert paced(0.25, 3.0, 0.008) == [MOST_SECONDS, 0.032]


def test_one_dear_commit_among_cheap_ones_does_not_slow_them_down():
    assert paced(0.25, 0.010, 0.500, 0.010) == [0.04, 0.044, 0.04]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    produce([], "in", key=str, value=str, log=world.log)
    return world


class Long(Pace):
    """A pace that no test outlasts."""

    def seconds(self) -> float:
        return 3600.0


@pytest.fixture
def looped(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommitLoop]:
    monkeypatch.setattr(loop, "Pace", Long)
    application = world.start()
    made = CommitLoop(application.coordinator, 0.0, False, lambda done, ends: None, share=0.2)
    made.start()
    yield made
    made.stop()
    application.close()


def test_a_record_that_comes_to_an_idle_program_is_committed_at_once_and_the_next_one_waits(
    world: World, looped: CommitLoop
):
    world.produce("a")
    while not world.output():
        time.sleep(0.01)
    world.produce("a")
    time.sleep(0.3)  # as good as 3600
    assert world.output() == [("a", 1)]
    looped.process_all_available()  # who waits for everything is not kept
    assert world.output() == [("a", 1), ("a", 2)]


def test_a_program_that_is_behind_does_not_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loop, "Pace", Long)
    world = World(tmp_path, statestore_uncommitted_max_records=1)
    world.produce("a", "a", "a", "a")
    application = world.start()
    made = CommitLoop(application.coordinator, 0.0, False, lambda done, ends: None, share=0.2)
    made.start()
    while len(world.output()) < 4:
        time.sleep(0.01)
    made.stop()
    application.close()
    assert world.output() == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]

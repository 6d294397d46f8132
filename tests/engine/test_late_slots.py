"""Slots that come late, or not at all: the others do their work until then, and no result differs.

The slots are processes as Spark's are, started without Spark (``support/forked_slots.py``).
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from penstock.errors import ConfigError, SparkLostError
from penstock.log.produce import produce
from support.forked_slots import ForkedHost, Nobody
from support.slotted import KEYS, Application, expected, put
from support.world import World

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("little_patience")]


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.slots.sessions._GRACE_SECONDS", 0.1)
    monkeypatch.setattr("penstock.engine.slots.sessions._NONE_SECONDS", 0.1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    produce([], "in", key=str, value=str, partitions=4, log=world.log)
    return world


def started(world: World, late: set[int], has_numbers: bool = True) -> Application:
    host = ForkedHost(4)
    host.late, host.has_numbers = set(late), has_numbers
    return Application(world, host)


def shares(application: Application) -> list[int | None]:
    """By slot the one that has its tasks in its place."""
    places = application.coordinator.manifest.places
    assert places is not None
    return [slot.shared_by for slot in places.slots]


@pytest.mark.parametrize("has_numbers", [True, False], ids=["numbered", "numbered at the door"])
def test_slots_that_have_come_do_the_work_of_the_others_until_these_come(
    world: World, caplog: pytest.LogCaptureFixture, has_numbers: bool
):
    application = started(world, {1, 2, 3}, has_numbers)
    put(world)
    application.process()
    assert Counter(shares(application)) == {0: 3, None: 1} if has_numbers else {shares(application)[0]: 3, None: 1}
    assert "application 'app': 1 of 4 slots have come, and do the work of all" in caplog.text
    rounds = 1
    for slot in (3, 1, 2):
        application.host.come(slot)
        come = shares(application).count(None)
        while shares(application).count(None) == come:
            put(world)
            application.process()
            rounds += 1
    assert shares(application) == [None] * 4
    assert "application 'app': all 4 slots have come" in caplog.text
    put(world)
    application.process()
    assert len(application.host.jobs) == 1, "those that were there stayed"
    assert Counter(world.output()) == expected(rounds + 1)
    assert Counter(dict(world.counts())) == Counter(key for key in KEYS for _ in range(rounds + 1))
    application.close()


def test_what_is_shared_is_said_by_slot(world: World):
    application = started(world, {1, 3})
    put(world)
    application.process()
    places = application.coordinator.manifest.places
    assert places is not None
    assert (shares(application), places.come) == ([None, 0, None, 2], 2)
    assert [slot.tasks for slot in places.slots] == [1, 1, 1, 1]
    application.close()


@pytest.mark.parametrize("at", range(4))
def test_a_slot_that_is_lost_while_others_are_missing_is_an_attempt_more(world: World, at: int):
    """The survivor had all tasks, and a part of them only afterwards, or the other way round."""
    application = started(world, {1, 2, 3})
    put(world)
    application.process()
    for slot in [1, 2, 3][:at]:
        application.host.come(slot)
    put(world)
    application.process()
    os.kill(application.slot(0), signal.SIGKILL)
    application.host.late = {2}
    rounds = 2
    while rounds == 2 or shares(application) != [None, None, 0, None]:  # they come one after the other
        put(world)
        application.process()
        rounds += 1
    assert Counter(world.output()) == expected(rounds)
    application.close()


def test_where_no_slot_can_come_the_program_ends_with_the_reason(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ForkedHost, "start", lambda *_: Nobody())
    application = started(world, {0, 1, 2, 3})
    put(world)
    with pytest.raises(ConfigError, match=r"^start: no slot has come for 0.1 s, and none can: there is no room"):
        application.process()
    application.close()


def test_a_host_that_is_lost_while_it_is_asked_for_room_ends_the_program(world: World, monkeypatch: pytest.MonkeyPatch):
    def room(host: ForkedHost) -> int:
        host.is_gone = True
        raise RuntimeError("no answer")

    monkeypatch.setattr(ForkedHost, "room", room)
    application = started(world, {1, 2, 3})
    put(world)
    with pytest.raises(SparkLostError, match="gone"):
        application.process()
    application.close()


def test_a_slot_that_comes_and_is_lost_before_it_gets_work_harms_nothing(world: World):
    application = started(world, {1, 2, 3})
    put(world)
    application.process()
    application.host.come(2)
    os.kill(application.host.jobs[-1].pids()[-1], signal.SIGKILL)
    for _ in range(3):
        put(world)
        application.process()
    assert Counter(world.output()) == expected(4)
    application.close()

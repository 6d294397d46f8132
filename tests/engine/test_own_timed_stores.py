"""Window, session and versioned stores that users bring, wherever Penstock's may stand: what comes out, and what is in
them, whatever leaves memory and whenever the program is killed (KIP-892, KIP-914)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Topology, faults
from penstock.faults import POINTS, STORE_POINTS
from penstock.log.produce import produce
from support.own_everywhere import everywhere, records, shown_by
from support.world import World

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.kip("KS-20")]

MEDIUMS = ("memory", "flushed", "sqlite")


class Killed(BaseException):
    """What a test has happen at a crash point."""


def world_of(folder: Path, topology: Topology, **settings: Any) -> World:
    world = World(folder, topology, **{"chunk_records": 7, "statestore_uncommitted_max_records": 150, **settings})
    for topic in ("in", "prices", "others"):
        rows = [tuple(record) for to, *record in records() if to == topic]
        produce(rows, topic, key=str, value=str, log=world.log, partitions=1)
    return world


def outcome(world: World) -> dict[str, Any]:
    outputs: dict[str, Any] = {topic: world.output(topic) for topic in world.topology.sink_topics}
    return outputs | {
        name: world.counts(name) for name in ("windows", "final", "sliding", "sessions", "prices", "dearest")
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out of the same topology with Penstock's stores."""
    world = world_of(tmp_path_factory.mktemp("undisturbed"), everywhere(None)[0])
    application = world.start()
    application.run_until()
    application.close()
    found = outcome(world)
    assert all(found.values())
    return found


@pytest.fixture(scope="module")
def rows_undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What users' stores have when nothing is killed, by medium."""
    found = {}
    for medium in MEDIUMS:
        topology, made = everywhere(medium)
        world = world_of(tmp_path_factory.mktemp(medium), topology)
        application = world.start()
        application.run_until()
        found[medium] = shown_by(made)
        application.close()
    return found


@pytest.fixture(autouse=True)
def _not_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    yield
    faults.listener = None


@pytest.mark.parametrize("hot", [10**9, 1])
@pytest.mark.parametrize("medium", MEDIUMS)
def test_steps_in_users_stores_give_what_they_give_in_those_of_the_engine(medium, hot, undisturbed, tmp_path):
    """With little memory rows leave it after each commit, so that the stores are asked."""
    topology, made = everywhere(medium)
    world = world_of(tmp_path, topology, hot_max_bytes=hot)
    application = world.start()
    application.run_until()
    asked = {name: len(supplier.made[-1].asked) for name, supplier in made.items()}
    application.close()
    assert outcome(world) == undisturbed
    assert all(asked.values())


@pytest.mark.parametrize("medium", MEDIUMS)
def test_users_stores_have_what_penstock_says(medium, tmp_path):
    topology, made = everywhere(medium)
    world = world_of(tmp_path, topology)
    application = world.start()
    application.run_until()
    shown = shown_by(made)
    application.close()
    windows = {(key.decode(), start): value[8:].decode() for (key, start, _), value in shown["windows"].items()}
    assert {(window.key, window.start): value for window, value in world.counts("windows")}.items() <= windows.items()
    sessions = {
        (key.decode(), start, end): int.from_bytes(value) for (key, end, start), value in shown["sessions"].items()
    }
    assert {(key.key, key.start, key.end): count for key, count in world.counts("sessions")}.items() <= sessions.items()


def killed_at(world: World, point: str, count: int = 2) -> bool:
    """Start a program and kill it when it comes to a point for the so-many-th time; False when it gets to its end."""
    hits = iter(range(count - 1))

    def listen(name: str) -> None:
        if name == point and next(hits, None) is None:
            faults.listener = None
            raise Killed

    application, faults.listener = None, listen
    try:
        application = world.start()
        application.run_until()
    except BaseException as error:
        if faults.listener is not None:
            raise error
    for task in application.host.tasks() if application else ():
        task.state.abandon()
    return faults.listener is None


@pytest.mark.slow
@pytest.mark.kip("892-08")
@pytest.mark.kip("892-13")
@pytest.mark.parametrize("medium", MEDIUMS)
def test_programs_killed_at_every_step_leave_what_an_undisturbed_one_leaves(
    medium, undisturbed, rows_undisturbed, tmp_path
):
    topology, made = everywhere(medium)
    world = world_of(tmp_path, topology, hot_max_bytes=1, statestore_uncommitted_max_records=25)
    for point in (*POINTS, *STORE_POINTS):
        assert killed_at(world, point), f"the program got to its end without coming to {point} twice"
    application = world.start()
    application.run_until()
    shown = shown_by(made)
    application.close()
    assert outcome(world) == undisturbed
    if medium != "memory":  # which has only what can still be seen, once it is restored
        assert shown == rows_undisturbed[medium]


@pytest.mark.slow
@pytest.mark.kip("892-08")
@pytest.mark.kip("892-13")
@pytest.mark.parametrize("point", STORE_POINTS)
@pytest.mark.parametrize("medium", MEDIUMS)
def test_programs_killed_in_their_first_commits_go_on(medium, point, undisturbed, rows_undisturbed, tmp_path):
    """One store after the other has rows then, and nothing says yet how far it is."""
    topology, made = everywhere(medium)
    world = world_of(tmp_path, topology)
    for count in (1, 2, 5, 8):
        assert killed_at(world, point, count)
    application = world.start()
    application.run_until()
    shown = shown_by(made)
    application.close()
    assert outcome(world) == undisturbed
    if medium != "memory":  # which has only what can still be seen, once it is restored
        assert shown == rows_undisturbed[medium]

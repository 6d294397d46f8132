"""The driver's loop: commits as records come, spaced by ``commit_interval``, until it is stopped or has read all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Suppressed, TimeWindows, Topology
from penstock.engine.local import LocalApplication
from penstock.engine.loop import CommitLoop
from penstock.errors import ProcessingError
from penstock.log.produce import produce
from support.world import World


class Looped:
    """An application of a world whose commits a loop makes."""

    def __init__(self, world: World, interval: float = 0.0, ends_with_input: bool = False):
        self.application: LocalApplication = world.start()
        self.commits: list[tuple[int, int]] = []
        self.loop = CommitLoop(self.application.coordinator, interval, ends_with_input, self._note)
        self.loop.start()

    def _note(self, done: Any, ends: Any) -> None:
        self.commits.append((done.commit, done.records))

    def close(self) -> None:
        self.loop.stop()
        self.application.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    produce([], "in", key=str, value=str, log=world.log)
    return world


@pytest.fixture
def looped(world: World) -> Iterator[Looped]:
    made = Looped(world)
    yield made
    made.close()


def test_records_are_committed_as_they_come(world: World, looped: Looped):
    for key in "aab":
        world.produce(key)
        looped.loop.process_all_available()
    assert looped.commits == [(1, 1), (2, 1), (3, 1)]
    assert world.output() == [("a", 1), ("a", 2), ("b", 1)]


def test_a_loop_without_records_makes_no_commit(looped: Looped):
    looped.loop.process_all_available()
    assert (looped.commits, looped.loop.has_ended) == ([], False)


def test_a_loop_that_ends_with_its_input_leaves_what_comes_later(world: World):
    world.produce("a", "b")
    looped = Looped(world, ends_with_input=True)
    assert looped.loop.wait(20)
    world.produce("c")
    looped.close()
    assert world.output() == [("a", 1), ("b", 1)]


def test_an_interval_lets_records_gather_for_the_next_commit(world: World):
    began = time.monotonic()
    looped = Looped(world, interval=0.3)
    while not (len(looped.commits) > 2 and any(records > 1 for _, records in looped.commits)):
        assert time.monotonic() < began + 60, looped.commits
        world.produce("a")
        time.sleep(0.01)
    looped.loop.stop()
    assert len(looped.commits) <= (time.monotonic() - began) / 0.3 + 2  # the first and the last wait for nothing
    looped.application.close()


def test_who_waits_for_everything_is_not_kept_by_the_interval(world: World):
    looped = Looped(world, interval=3600)
    for _ in range(3):
        world.produce("a")
        looped.loop.process_all_available()
    looped.close()
    assert world.output() == [("a", 1), ("a", 2), ("a", 3)]


def test_time_goes_on_without_records(tmp_path: Path):
    builder = StreamsBuilder()
    windows = builder.stream("in", value=str).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(100)).count()
    final = Suppressed.until_window_closes().with_idle_advance("50 ms")
    windows.suppress(final).to_stream().to("out")
    world = World(tmp_path, builder.build())
    world.produce("a", "a")
    looped = Looped(world)
    over = time.monotonic() + 30
    while not world.output() and time.monotonic() < over:
        time.sleep(0.01)
    looped.close()
    assert [value for _, value in world.output()] == [2]


def failing() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(lambda value: int(value), value=int).to("out")
    return builder.build()


def test_what_goes_wrong_ends_the_loop_and_whoever_waits(tmp_path: Path):
    world = World(tmp_path, failing())
    produce([], "in", key=str, value=str, log=world.log)
    looped = Looped(world)
    world.produce("a")
    looped.loop.process_all_available()
    assert looped.loop.has_ended
    assert isinstance(looped.loop.error, ProcessingError)
    looped.close()


def test_what_a_listener_raises_is_told_with_the_commit(world: World):
    application = world.start()

    def fails(*_: Any) -> None:
        raise ValueError("no more")

    loop = CommitLoop(application.coordinator, 0.0, False, fails)
    loop.start()
    world.produce("a")
    assert loop.wait(20)
    loop.stop()
    application.close()
    assert "application 'app' stopped at commit 2: ValueError: no more; everything committed before is safe" in str(
        loop.error
    )


def test_a_stop_comes_from_any_thread_and_twice(world: World, looped: Looped):
    others = [threading.Thread(target=looped.loop.stop) for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    looped.loop.stop()
    assert looped.loop.has_ended
    looped.loop.process_all_available()  # at once

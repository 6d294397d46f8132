"""The driver's loop: commits as records come, spaced by ``commit_interval``, until it is stopped or has read all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Suppressed, TimeWindows, Topology
from penstock.engine.commit.loop import CommitLoop
from penstock.engine.local import LocalApplication
from penstock.engine.shared.manifest import Manifest
from penstock.errors import CommitError, ProcessingError, SparkLostError
from penstock.log.produce import produce
from support.world import World


class Looped:
    """An application of a world whose commits a loop makes."""

    def __init__(self, world: World, interval: float = 0.0, ends_with_input: bool = False, begins: bool = True):
        self.application: LocalApplication = world.start()
        self.commits: list[tuple[int, int]] = []
        self.loop = CommitLoop(self.application.coordinator, interval, ends_with_input, self._note)
        if begins:
            self.begin()

    def begin(self) -> None:
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


def test_without_records_the_loop_looks_as_often_as_its_runner_wants_whether_that_is_lost(world: World):
    """As in micro-batches: nobody tells of a Spark that was lost between two commits."""
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 4:
            raise SparkLostError("it is gone")

    application = world.start()
    application.look_seconds = 0.001
    loop = CommitLoop(application.coordinator, 0.0, False, lambda done, ends: None, check)
    loop.start()
    assert loop.wait(50)  # one wait for records takes 60 s
    assert str(loop.error) == "it is gone"
    application.close()


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


def hold_back(monkeypatch: pytest.MonkeyPatch, points: set[str]) -> list[str]:
    """Have what a loop publishes beside the next commit wait until that waits for it; which points come when."""
    seen: list[str] = []
    is_awaited = threading.Event()

    def hear(point: str) -> None:
        is_beside = "publishes" in threading.current_thread().name
        if point == "awaits-publish":
            is_awaited.set()
        elif point == "before-publish" and is_beside:
            assert is_awaited.wait(60)
            is_awaited.clear()
        if point in points:
            seen.append(f"{point} beside" if is_beside else point)

    monkeypatch.setattr("penstock.faults.listener", hear)
    monkeypatch.setattr("penstock.engine.commit.loop.MOST_SECONDS_BESIDE", 60.0)
    return seen


def test_a_commit_is_published_beside_the_work_on_the_next_one_whose_manifest_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world = World(tmp_path, commit_max_bytes=1, chunk_records=1)
    produce([(key, "x", 0) for key in "aab"], "in", key=str, value=str, log=world.log)
    seen = hold_back(monkeypatch, {"after-delta", "before-manifest", "before-publish", "after-publish"})
    looped = Looped(world, ends_with_input=True)
    assert looped.loop.wait(60)
    looped.close()
    assert world.output() == [("a", 1), ("a", 2), ("b", 1)]
    assert looped.commits == [(1, 1), (2, 1), (3, 1)]
    first = ["after-delta", "before-manifest", "before-publish", "after-publish"]  # which tells how long commits take
    second = ["after-delta", "before-manifest"]
    third = ["after-delta", "before-publish beside", "after-publish beside", "before-manifest"]
    assert seen == first + second + third + ["before-publish beside", "after-publish beside"]


def test_what_goes_wrong_beside_the_next_commit_ends_the_loop_before_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world = World(tmp_path, commit_max_bytes=1, chunk_records=1)
    produce([(key, "x", 0) for key in "aab"], "in", key=str, value=str, log=world.log)
    hold_back(monkeypatch, set())
    looped = Looped(world, ends_with_input=True, begins=False)
    publishing = looped.application.coordinator.publishing
    publish = publishing.publish

    def fails_at_second(manifest: Manifest) -> None:
        if manifest.commit == 2:
            raise CommitError("the disk is full")
        publish(manifest)

    monkeypatch.setattr(publishing, "publish", fails_at_second)
    looped.begin()
    assert looped.loop.wait(60)
    looped.close()
    assert str(looped.loop.error) == "the disk is full"
    assert looped.commits == [(1, 1)]
    assert world.output() == [("a", 1)]
    monkeypatch.undo()
    world.run()
    assert world.output() == [("a", 1), ("a", 2), ("b", 1)]


def test_what_the_application_reads_itself_is_never_published_beside_a_commit(tmp_path: Path):
    builder = StreamsBuilder()
    short = builder.stream("in", value=str).filter(lambda key, value: len(value) < 3)
    short.map_values(lambda value: value + "x", value=str).to("in")
    world = World(tmp_path, builder.build())
    produce([("a", "x", 0)], "in", key=str, value=str, log=world.log)
    looped = Looped(world)
    assert not looped.application.coordinator.publishing.can_be_beside()
    looped.close()


def test_where_the_interpreter_begins_no_threads_any_more_a_commit_is_published_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world = World(tmp_path, commit_max_bytes=1, chunk_records=1)
    produce([(key, "x", 0) for key in "ab"], "in", key=str, value=str, log=world.log)

    class Ended(ThreadPoolExecutor):
        def submit(self, *_: Any) -> Any:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr("penstock.engine.commit.publishing.ThreadPoolExecutor", Ended)
    monkeypatch.setattr("penstock.engine.commit.loop.MOST_SECONDS_BESIDE", 60.0)
    looped = Looped(world, ends_with_input=True)
    assert looped.loop.wait(60)
    looped.close()
    assert looped.loop.error is None
    assert world.output() == [("a", 1), ("b", 1)]

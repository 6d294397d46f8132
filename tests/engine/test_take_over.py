"""A rival: another program takes an application over while the first one lives, at any step of a commit (KIP-892)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from penstock import StreamsBuilder, Topology, faults
from penstock.engine.commit import forgetting, opening
from penstock.engine.local import LocalApplication
from penstock.errors import ConfigError, CorruptDataError, FencedError
from penstock.faults import POINTS, START_POINTS
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.storage.base import LocalStorage
from support.world import World

pytestmark = [pytest.mark.kip("892-13"), pytest.mark.slow]

WORDS = [(f"k{n % 7}", f"word {n % 5}", n) for n in range(90)]


def two_stages() -> Topology:
    """Counts by key, and by value behind a repartition."""
    builder = StreamsBuilder()
    words = builder.stream("in", value=str)
    words.group_by_key().count("by-key").to_stream().to("by-key-out")
    words.group_by(lambda key, word: word).count("by-word").to_stream().to("by-word-out")
    return builder.build()


def world_in(folder: Path) -> World:
    """Some ten commits to make: a task takes no more than a few records in each."""
    limits = {"chunk_records": 3, "statestore_uncommitted_max_records": 6, "snapshot_commits": 3}
    return World(folder, two_stages(), **limits)


def fill(world: World) -> None:
    produce(WORDS, "in", value=str, log=world.log, partitions=1)


def outcome(world: World) -> dict[str, Any]:
    """All that was put out, and all that the stores hold when they are put together without any database."""
    outputs = {topic: world.output(topic) for topic in ("by-key-out", "by-word-out")}
    return outputs | {store: world.counts(store) for store in ("by-key", "by-word")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out when nobody interferes."""
    world = world_in(tmp_path_factory.mktemp("undisturbed"))
    fill(world)
    world.run()
    return outcome(world)


@pytest.fixture(autouse=True)
def _not_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests kill no process."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_in(tmp_path)


@pytest.fixture
def at_point() -> Iterator[Callable[[str, int, Callable[[], None]], None]]:
    """Have something happen when a program comes to a point for the so-many-th time."""

    def set_up(point: str, count: int, action: Callable[[], None]) -> None:
        passed = [0]

        def listen(name: str) -> None:
            passed[0] += name == point
            if name == point and passed[0] == count:
                faults.listener = None
                action()

        faults.listener = listen

    yield set_up
    faults.listener = None


def stops_at_once(rival: LocalApplication) -> None:
    pass


def makes_two_commits(rival: LocalApplication) -> None:
    for _ in range(2):
        rival.coordinator.step(rival.coordinator.end_offsets())


@pytest.mark.parametrize("does", [stops_at_once, makes_two_commits])
@pytest.mark.parametrize("point", POINTS)
def test_whoever_is_taken_over_inside_a_commit_stops_and_nothing_is_lost_or_done_twice(
    point: str, does: Callable[..., None], world: World, undisturbed: dict[str, Any], at_point: Any
):
    """The rival runs on another machine; then the application comes back to the first one, with its old databases."""
    fill(world)
    ran = []

    def interfere() -> None:
        rival = world.start(machine="other machine")
        does(rival)
        rival.close()
        ran.append(rival)

    first = world.start()
    at_point(point, 2, interfere)
    with pytest.raises(FencedError, match=r"'app' was taken over by process \d+ on .*this program stops"):
        first.run_until()
    first.close()
    assert ran
    world.run()
    assert outcome(world) == undisturbed


@pytest.mark.parametrize("does", [stops_at_once, makes_two_commits])
@pytest.mark.parametrize("point", START_POINTS)
def test_a_third_program_that_starts_inside_the_start_of_the_second_fences_both(
    does: Callable[..., None], point: str, world: World, undisturbed: dict[str, Any], at_point: Any
):
    """And the second, when it goes on with its start, removes nothing that the third one has written since."""
    fill(world)
    first = world.start()
    first.coordinator.step(first.coordinator.end_offsets())

    def start_a_third() -> None:
        third = world.start(machine="third")
        does(third)
        third.close()

    at_point(point, 1, start_a_third)
    second = world.start(machine="second")
    stopped = [first] if point == "before-take-over" else [first, second]
    for application in stopped:
        with pytest.raises(FencedError):
            application.run_until()
    for application in (first, second):
        application.close()
    world.run()
    assert outcome(world) == undisturbed


def test_a_start_that_slept_removes_nothing_of_a_commit_that_another_program_is_about_to_make(
    world: World, undisturbed: dict[str, Any], at_point: Any
):
    """The files of the second stage are there, and no manifest names them yet."""
    fill(world)
    sleeps, goes_on, started = Event(), Event(), []

    def sleep() -> None:
        sleeps.set()
        goes_on.wait(60)

    at_point("after-take-over", 1, sleep)
    sleeper = Thread(target=lambda: started.append(world.start(machine="sleeper")))
    sleeper.start()
    sleeps.wait(60)
    rival = world.start()

    def wake() -> None:
        goes_on.set()
        sleeper.join()

    at_point("before-manifest", 2, wake)
    rival.run_until()
    assert len(started) == 1
    for application in (*started, rival):
        application.close()
    assert outcome(world) == undisturbed


def test_a_program_that_slept_for_many_commits_is_fenced_though_their_manifests_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_point: Any
):
    """It puts nothing out that a topic could refuse: only the number of its next commit tells."""
    monkeypatch.setattr(forgetting, "KEEP_MANIFESTS", 2)
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count("counts")
    world = World(tmp_path, builder.build(), chunk_records=3, statestore_uncommitted_max_records=6)
    fill(world)
    woken: list[list[Path]] = []

    def sleep() -> None:
        rival = world.start(machine="other machine")
        rival.run_until()
        rival.close()
        numbers = rival.coordinator.manifests.numbers()
        assert len(numbers) < rival.coordinator.manifest.commit  # some are forgotten
        woken.append(files(world))

    sleeper = world.start()
    at_point("before-manifest", 2, sleep)
    with pytest.raises(FencedError, match="was taken over by process"):
        sleeper.run_until()
    assert files(world) == woken[0]
    sleeper.close()
    world.run()
    assert world.counts() == [(f"k{n}", 13 if n < 6 else 12) for n in range(7)]


def files(world: World) -> list[Path]:
    return sorted(path for path in world.storage.root.rglob("*") if path.is_file())


def test_two_first_starts_at_once_are_of_one_checkpoint_and_the_later_takes_over(
    world: World, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """The rival makes checkpoint and claim after this start has seen that there are none."""
    fill(world)
    rivals = []

    def interfere(*arguments: Any) -> None:
        monkeypatch.setattr(opening, "create_sink_topics", create_sink_topics)
        create_sink_topics(*arguments)
        rivals.append(world.start(machine="other machine"))

    create_sink_topics = opening.create_sink_topics
    monkeypatch.setattr(opening, "create_sink_topics", interfere)
    world.run()
    assert outcome(world) == undisturbed
    with pytest.raises(FencedError):
        makes_two_commits(rivals[0])
    rivals[0].close()
    assert outcome(world) == undisturbed


def test_a_start_that_is_refused_stops_nobody(world: World, undisturbed: dict[str, Any]):
    fill(world)
    first = world.start()
    assert first.coordinator.step({"in": [3]}) is not None
    with pytest.raises(ConfigError, match="belongs to application 'app', not to 'other'"):
        world.start(application_id="other", machine="other machine")
    first.run_until()
    first.close()
    assert outcome(world) == undisturbed


def test_a_checkpoint_of_another_application_is_named_before_anything_of_its_topics(world: World, tmp_path: Path):
    world.run("a", "b")
    other_log = FileLog(tmp_path / "other log")
    produce([("a", "x", 0)], "in", value=str, log=other_log)
    world.log = other_log
    with pytest.raises(ConfigError, match="belongs to application 'app', not to 'other'"):
        world.start(application_id="other")
    assert other_log.topics() == ["in"]


# --- the claim of a checkpoint on a log ------------------------------------------------------------------------------


def elsewhere(world: World) -> LocalStorage:
    return LocalStorage(world.folder / "elsewhere" / "checkpoint")


def test_the_same_id_and_log_from_another_folder_is_refused_and_doubles_nothing(
    world: World, undisturbed: dict[str, Any]
):
    fill(world)
    world.run()
    with pytest.raises(ConfigError, match=r"writes into the log .* from the checkpoint .*/checkpoint; this start has"):
        world.start(storage=elsewhere(world), machine="elsewhere")
    assert not elsewhere(world).root.exists()  # so that the right one can be brought there
    assert outcome(world) == undisturbed


def test_a_checkpoint_that_was_removed_is_told_from_one_at_another_place(world: World):
    fill(world)
    world.run()
    shutil.rmtree(world.storage.root)
    with pytest.raises(ConfigError, match=r"one, new at the same place, .* To continue, put back the folder"):
        world.start()


def test_a_living_program_that_has_put_out_nothing_yet_keeps_its_claim(world: World):
    fill(world)
    first = world.start()
    with pytest.raises(ConfigError, match="would process everything and write all results a second time"):
        world.start(storage=elsewhere(world), machine="elsewhere")
    first.close()


def test_a_checkpoint_that_was_moved_goes_on(world: World, undisturbed: dict[str, Any]):
    fill(world)
    first = world.start()
    assert first.coordinator.step({"in": [30]}) is not None
    first.close()
    moved = elsewhere(world)
    moved.root.parent.mkdir()
    world.storage.root.rename(moved.root)
    world.storage = moved
    world.run()
    assert outcome(world) == undisturbed


def test_once_checkpoint_and_outputs_are_removed_all_begins_anew(world: World, undisturbed: dict[str, Any]):
    fill(world)
    world.run()
    world.storage.root.rename(world.folder / "gone")
    with pytest.raises(ConfigError, match=r"remove the topics it wrote into, or the file .*/@applications/app\.json"):
        world.start()
    for topic in ("by-key-out", "by-word-out"):
        world.log.delete_topic(topic)
    world.run()
    assert outcome(world) == undisturbed


def test_once_the_claim_is_removed_everything_is_put_out_again(world: World, undisturbed: dict[str, Any]):
    fill(world)
    world.run()
    (world.log.root / "@applications" / "app.json").unlink()
    again = world.start(storage=elsewhere(world), machine="elsewhere")
    again.run_until()
    again.close()
    assert world.output("by-key-out") == 2 * undisturbed["by-key-out"]


# --- the file that says whose checkpoint it is -----------------------------------------------------------------------


def test_a_lost_application_file_is_made_anew_from_the_manifests_and_nothing_is_put_out_twice(
    world: World, undisturbed: dict[str, Any]
):
    fill(world)
    world.run()
    file = world.storage.root / "application.json"
    before = file.read_bytes()
    file.unlink()
    world.run()
    assert outcome(world) == undisturbed
    assert before[17:40] == file.read_bytes()[17:40]  # the identity


def test_an_application_file_of_another_checkpoint_is_refused(world: World):
    fill(world)
    world.run()
    other = World(world.folder / "other world", two_stages())
    fill(other)
    other.run()
    os.replace(other.storage.root / "application.json", world.storage.root / "application.json")
    with pytest.raises(CorruptDataError, match=r"application\.json belongs to another checkpoint"):
        world.start()


def test_a_lost_application_file_beside_manifests_that_do_not_tell_is_refused(world: World):
    """As versions before this one wrote them."""
    fill(world)
    world.run()
    (world.storage.root / "application.json").unlink()
    for path in sorted(world.storage.root.glob("starts/*")):
        path.unlink()
    with pytest.raises(CorruptDataError, match=r"starts/.* is missing though the newest manifest names it"):
        world.start()

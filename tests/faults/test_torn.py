"""What chaos damages: files of attempts that did not become commits, and no others; and a disk that is full."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock import faults
from penstock.engine.local import LocalApplication
from penstock.engine.shared.runner import StageRunner
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.errors import StoreError
from penstock.testing.chaos.torn import tear, unfinished
from support.world import World

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A program in the folders in which chaos has them."""
    world = World(tmp_path, flush_commits=1, snapshot_commits=2)
    world.storage.root = tmp_path / "state" / "checkpoint"
    return world


class Killed(BaseException):
    pass


def attempt(world: World) -> None:
    """Write everything of a commit, and be killed before its manifest."""
    world.produce("a", "b")
    application = world.start()

    class Dies(StageRunner):
        def run(self, stage: StageWork, label: str) -> list[TaskDone]:
            application.host.run(stage)
            raise Killed

    application.coordinator.runner = Dies()
    with pytest.raises(Killed):
        application.run_until()
    for task in application.host.tasks():
        task.state.abandon()


@pytest.mark.kip("892-13")
def test_all_files_of_an_attempt_and_no_others_are_torn_and_nothing_is_lost(world: World):
    for _ in range(6):
        world.run("a", "b")
    assert list(unfinished(world.folder)) == []
    attempt(world)
    [delta, segment] = sorted(path.relative_to(world.folder).parts[0] for path in unfinished(world.folder))
    assert (delta, segment) == ("log", "state")
    torn = [tear(world.folder, random.Random(seed)) for seed in range(4)]
    assert {len(files) for files in torn} > {0}
    world.run()
    assert world.counts() == [("a", 7), ("b", 7)]
    assert world.output()[-2:] == [("a", 7), ("b", 7)]


def run_on(world: World, application: LocalApplication) -> None:
    for _ in range(4):
        application.run_until()
        world.produce("a")


@pytest.mark.kip("892-13")
@pytest.mark.parametrize("point", ["before-delta", "before-manifest", "after-manifest", "before-flush", "after-flush"])
def test_a_disk_that_is_full_from_a_point_on_ends_the_program_with_a_clear_error_and_it_goes_on_with_room(
    world: World, point: str, monkeypatch: pytest.MonkeyPatch
):
    world.run("a")
    world.produce("a")
    application = world.start()
    monkeypatch.setattr(faults, "_seen", {})
    monkeypatch.setattr(faults, "_is_full", False)
    monkeypatch.setenv("PENSTOCK_FULL_AT", point)
    with pytest.raises(StoreError, match="No space left on device"):
        run_on(world, application)
    monkeypatch.delenv("PENSTOCK_FULL_AT")
    monkeypatch.setattr(faults, "_is_full", False)
    for task in application.host.tasks():
        task.state.abandon()
    world.run("b")
    counts = dict(world.counts())
    assert counts == {"a": sum(key == "a" for key, _ in world.output()), "b": 1}
    assert [value for key, value in world.output() if key == "a"] == list(range(1, counts["a"] + 1))

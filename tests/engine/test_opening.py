"""Before an application runs: what is looked at, what is refused, and that nobody is stopped by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.engine.commit.coordinator import Coordinator
from penstock.engine.commit.opening import Opened, open_application
from penstock.engine.shared.runner import StageRunner
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.errors import ConfigError, CorruptDataError
from penstock.query.committed import committed_store
from support.world import World


class NoTasks(StageRunner):
    """Runs nothing, which nobody asks for."""

    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        raise AssertionError(label)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def opened(world: World, application_id: str = "app") -> Opened:
    return open_application(world.topology, application_id, world.settings, world.log, world.storage)


def files(world: World) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in world.folder.rglob("*") if path.is_file()}


def test_an_output_with_the_results_of_a_later_commit_says_that_manifests_are_missing(world: World):
    world.run("a")
    world.run("a")
    newest = world.file("manifests/*.json", -1)
    backup = newest.read_bytes()
    newest.unlink()
    with pytest.raises(
        CorruptDataError,
        match=r"manifests/0{15}3.json is missing: topic 'out' has the output of commit 3 of application 'app', but the "
        r"newest manifest is of commit 2; manifests are missing. Restore the checkpoint from a backup",
    ):
        opened(world)
    newest.write_bytes(backup)
    assert opened(world).manifest.commit == 3


def test_opening_stops_nobody(world: World):
    world.produce("a")
    running = world.start()
    assert opened(world).application == running.coordinator.application
    running.run_until()
    assert world.output() == [("a", 1)]
    running.close()


def test_what_is_refused_changes_nothing(world: World):
    world.run("a")
    before = files(world)
    with pytest.raises(ConfigError, match="belongs to application 'app', not to 'other'"):
        opened(world, "other")
    assert files(world) == before


def test_a_second_look_changes_nothing_and_finds_the_same(world: World):
    world.run("a", "b", "a")
    first, before = opened(world), files(world)
    second = opened(world)
    assert files(world) == before
    assert (first.application, first.manifest) == (second.application, second.manifest)
    assert second.offsets(second.manifest) == {"in": [3]}
    with committed_store(second, "counts") as counts:
        assert sorted(row[:2] for row in counts.all()) == [("a", 2), ("b", 1)]


def test_a_coordinator_reads_and_writes_nothing_until_it_takes_over(world: World, monkeypatch: pytest.MonkeyPatch):
    world.run("a")
    found = opened(world)
    before = files(world)

    def asked(name: str) -> Callable[..., None]:
        def fails(*given: object, **more: object) -> None:
            raise AssertionError(f"it asks for {name}")

        return fails

    with monkeypatch.context() as closed:
        for one in (type(world.storage), type(world.log)):
            for name in [name for name in vars(one) if not name.startswith("_") and callable(vars(one)[name])]:
                closed.setattr(one, name, asked(name))
        coordinator = Coordinator(found, NoTasks())
    assert files(world) == before
    coordinator.take_over()
    assert coordinator.manifest.commit == found.manifest.commit + 1

"""Old files go, some with each commit; what a task without work for long is restored from stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine.commit import forgetting
from penstock.engine.commit.needed import NeededManifests
from penstock.log.base import TopicInfo
from support.world import World


def numbers(world: World, pattern: str) -> list[int]:
    return sorted(int(path.name[:16]) for path in world.storage.root.glob(pattern))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Of the keys, a and d have a partition each."""
    monkeypatch.setattr(forgetting, "KEEP_MANIFESTS", 5)
    world = World(tmp_path, flush_commits=2, snapshot_commits=6)
    world.log.create_topic(TopicInfo("in", 2, "str", "str"))
    return world


def test_files_stay_bounded_while_a_program_runs(world: World):
    application = world.start()
    for _ in range(60):
        world.produce("a", "d")
        application.run_until()
        assert len(numbers(world, "manifests/*")) < 25
        assert max(len(numbers(world, f"deltas/{task}/*")) for task in ("0_0", "0_1")) <= 14
    application.close()


def test_no_more_than_some_files_go_with_a_commit(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forgetting, "_AT_LEAST", 1)
    application = world.start()
    before, most = 0, 0
    for _ in range(40):
        world.produce("a", "d")
        application.run_until()
        files = len(numbers(world, "manifests/*")) + len(numbers(world, "deltas/*/*"))
        most, before = max(most, before - files), files
    application.close()
    assert 0 < most <= 4 - 3  # twice as many as there are tasks, and each commit makes three


@pytest.mark.kip("892-08")
def test_a_task_without_work_for_long_is_restored_from_its_old_commits(world: World):
    world.run("d")
    for _ in range(4):
        world.run("a", crash=True)
    quiet = world.start()
    for _ in range(40):
        world.produce("d")
        quiet.run_until()
    quiet.close()
    assert len(numbers(world, "manifests/*")) < 40
    world.lose_local_state()
    world.run("a", "d")
    assert world.counts() == [("a", 5), ("d", 42)]
    assert sorted(world.output()) == [*(("a", n) for n in range(1, 6)), *(("d", n) for n in range(1, 43))]


def test_what_is_needed_is_known_without_reading_manifests_again(world: World, monkeypatch: pytest.MonkeyPatch):
    world.run("d")
    for _ in range(3):
        world.run("a", crash=True)
    application = world.start()
    manifests = application.coordinator.manifests
    needed, asked, reads = NeededManifests(manifests), [], []
    read = manifests.read
    monkeypatch.setattr(manifests, "read", lambda commit: asked.append(commit) or read(commit))
    for keys in (["a"], ["d"], ["a", "d"], ["a"], ["a"], ["d"], ["a"]):
        world.produce(*keys)
        before = application.coordinator.manifest
        application.run_until()
        now = application.coordinator.manifest
        for task, entry in now.tasks.items():
            if entry is not before.tasks[task]:
                needed.note(task, entry)
        asked.clear()
        found = needed.of(now)
        reads.append(len(asked))
        chains = (manifests.chain(task, entry, entry.kept_since) for task, entry in now.tasks.items())
        assert found == {entry.changed for chain in chains for entry in chain}
    application.close()
    assert reads[0] > 0
    assert set(reads[1:]) == {0}

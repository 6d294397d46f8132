"""Copies of tasks on another machine, which follow commit by commit (Kafka's num.standby.replicas)."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.local import LocalApplication
from penstock.engine.slots.followers import Followers
from penstock.engine.slots.links import Follow, Followed
from penstock.state.restoring import END, START, RestoreStep
from penstock.storage.base import FileRef, Storage
from support.every_store import LATER, THIRDS, Program, every_kind_of_store
from support.world import World

pytestmark = pytest.mark.slow


class Copies:
    """The copies of all tasks of an application, on a machine of their own."""

    def __init__(self, application: LocalApplication, folder: Path):
        self.coordinator = application.coordinator
        self.answers: list[Followed] = []
        self._has_come = threading.Condition()
        given = self.coordinator.layout, self.coordinator.settings, self.coordinator.storage, folder
        self.followers = Followers(self.coordinator.topology, *given, self._hear)

    def _hear(self, answer: Followed) -> None:
        with self._has_come:
            self.answers.append(answer)
            self._has_come.notify_all()

    def follow(self) -> Followed:
        """Bring them to the newest commit; the answer."""
        number = len(self.answers)
        self.take()
        with self._has_come:
            assert self._has_come.wait_for(lambda: len(self.answers) > number, 60)
        return self.answers[-1]

    def take(self) -> None:
        manifest = self.coordinator.manifest
        self.followers.take(Follow(self.coordinator.application, manifest.commit, manifest.tasks))

    def close(self) -> None:
        self.followers.close()


def test_a_program_goes_on_from_copies_of_every_kind_of_store_as_from_its_own_state(tmp_path: Path):
    calm, moved = (Program(tmp_path / name, every_kind_of_store(), 1) for name in ("calm", "moved"))
    for third in THIRDS:
        calm.process(*third)
    calm.process(*LATER)
    application = LocalApplication(
        moved.topology, "app", moved.settings, moved.log, moved.storage, moved.folder / "tasks"
    )
    copies = Copies(application, moved.folder / "copies")
    for third in THIRDS:
        for half in (third[:12], third[12:]):
            moved.produce(*half)
            application.run_until()
            copies.follow()
    copies.close()
    assert {failed for answer in copies.answers for failed in answer.failed} == set()
    for task in application.host.tasks():
        task.state.abandon()  # their machine is gone
    steps: list[RestoreStep] = []
    moved.produce(*LATER)
    again = LocalApplication(moved.topology, "app", moved.settings, moved.log, moved.storage, moved.folder / "copies")
    again.host.on_restore = steps.append
    again.run_until()
    again.close()
    assert {step.at for step in steps if step.kind == START}.isdisjoint({-1})
    assert sum(step.rows for step in steps if step.kind == END) == 0, "nothing was missing"
    assert moved.tables() == calm.tables()
    for store in ("counts", "windows", "sessions", "sliding", "versions", "keys", "owners"):
        assert moved.rows(store) == calm.rows(store)


@pytest.fixture
def following(tmp_path: Path) -> tuple[World, LocalApplication, Copies]:
    world = World(tmp_path, flush_commits=500, snapshot_commits=500)
    world.produce("a", "b")
    application = world.start()
    application.run_until()
    return world, application, Copies(application, tmp_path / "copies")


def make_commits(world: World, application: LocalApplication, count: int) -> None:
    for _ in range(count):
        world.produce("a")
        application.run_until()


def test_copies_write_nothing_into_the_checkpoint(following: tuple[World, LocalApplication, Copies], tmp_path: Path):
    world, application, copies = following
    for _ in range(3):
        make_commits(world, application, 2)  # the first of which it is not told of, and reads in the manifests
        before = world.storage.list("")
        answer = copies.follow()
        assert (answer.number, answer.failed) == (application.coordinator.manifest.commit, [])
        assert world.storage.list("") == before
    copies.close()
    assert world.storage.list("") == before
    application.close()


def test_a_copy_that_cannot_follow_harms_nobody_and_is_begun_anew(
    following: tuple[World, LocalApplication, Copies],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr("penstock.engine.slots.followers._PAUSE_SECONDS", 0.0)
    world, application, copies = following
    copies.follow()
    make_commits(world, application, 2)
    deltas = world.storage.root / "deltas"
    shutil.move(deltas, tmp_path / "aside")  # as those go that a snapshot has made superfluous
    assert copies.follow().failed == ["0_0"]
    assert "the copy of task 0_0 does not follow" in caplog.text
    make_commits(world, application, 1)
    shutil.copytree(tmp_path / "aside", deltas, dirs_exist_ok=True)
    assert copies.follow().failed == []
    copies.close()
    application.close()
    world.produce("a")
    again = world.start(machine="copies")
    again.run_until()
    again.close()
    assert world.output()[-1] == ("a", 5)


def test_a_copy_whose_slot_ends_in_the_middle_of_an_order_keeps_what_it_has_taken_up(
    following: tuple[World, LocalApplication, Copies], monkeypatch: pytest.MonkeyPatch
):
    world, application, copies = following
    copies.follow()
    known = application.coordinator.manifest.commit
    make_commits(world, application, 3)
    read, ends = Storage.read_verified, threading.Thread(target=copies.close)

    def read_and_end(self: Storage, ref: FileRef) -> Any:
        if not ends.is_alive():
            ends.start()
            assert copies.followers._is_over.wait(60)
        return read(self, ref)

    monkeypatch.setattr(Storage, "read_verified", read_and_end)
    copies.take()
    copies.followers._thread.join(60)
    monkeypatch.undo()
    ends.join()
    application.close()
    steps: list[RestoreStep] = []
    again = world.start(machine="copies")
    again.host.on_restore = steps.append
    world.produce("a")
    again.run_until()
    again.close()
    assert [step.at for step in steps if step.kind == START] == [known + 1]
    assert world.output()[-1] == ("a", 5)

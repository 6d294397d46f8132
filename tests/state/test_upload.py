"""Snapshots go to an object store while their task goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.state.upload import Upload
from penstock.storage.objects import ObjectStorage
from support.world import World


class Slow(ObjectStorage):
    """An object store in which snapshots wait until they may go on."""

    def __init__(self) -> None:
        super().__init__("memory:///")
        self.may_go_on = threading.Event()
        self.asked = threading.Event()

    def _put(self, name: str, path: Path) -> None:
        if name.startswith("snapshots/"):
            self.asked.set()
            assert self.may_go_on.wait(60)
        super()._put(name, path)


def test_commits_go_on_while_a_snapshot_is_on_its_way_and_it_counts_when_it_has_come(tmp_path: Path):
    world, storage = World(tmp_path, flush_commits=1, snapshot_commits=2), Slow()
    world.produce("a")
    application = world.start(storage=storage)
    for _ in range(5):
        world.produce("a")
        application.run_until()
    assert storage.asked.wait(60)
    assert application.coordinator.manifest.tasks["0_0"].snapshot == -1
    assert world.output()[-1] == ("a", 6)
    storage.may_go_on.set()
    application.close()  # waits for it
    assert [name for name in storage.list("snapshots") if name.endswith(".snapshot")]
    world.lose_local_state()
    again = world.start(storage=storage)
    world.produce("a")
    again.run_until()
    assert again.coordinator.manifest.tasks["0_0"].snapshot > 0
    assert world.output()[-1] == ("a", 7)
    again.close()


def test_an_upload_that_fails_is_told_when_it_is_taken_and_the_next_one_may_begin():
    upload = Upload()

    def fail() -> None:
        raise StoreError("cannot write s3://bucket/app/a")

    upload.begin(3, fail, "failing")
    with pytest.raises(StoreError, match="cannot write"):
        upload.taken(waits=True)
    assert not upload.is_under_way
    upload.begin(4, lambda: None, "well")
    assert upload.taken(waits=True) == 4
    assert upload.taken() is None

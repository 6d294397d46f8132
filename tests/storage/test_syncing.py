"""Files of a commit are made durable together, before anybody counts on them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.storage import syncing
from penstock.storage.base import LocalStorage
from penstock.storage.syncing import SyncTogether
from support.world import World


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were made durable."""
    found: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return found


def test_what_is_gathered_is_durable_after_sync_and_what_is_not_at_once(tmp_path: Path, synced: list[str]):
    storage, together = LocalStorage(tmp_path), SyncTogether()
    with together.gathering():
        for name in ("a/1", "a/2", "b/3"):
            with storage.write(name) as file:
                file.write(b"x")
    assert synced == []
    together.sync()
    assert sorted(synced) == [str(tmp_path / name) for name in ("a", "a/1", "a/2", "b", "b/3")]
    synced.clear()
    with storage.write("c") as file:
        file.write(b"x")
    assert synced == [str(tmp_path / "c"), str(tmp_path)]
    together.sync()
    together.close()
    assert len(synced) == 2


@pytest.mark.parametrize(("quick_seconds", "expected"), [(10.0, [4, 0, 3, 0]), (-1.0, [4, 2, 3, 2])])
def test_a_quick_disk_is_asked_by_one_thread_and_a_slow_one_by_more_from_its_second_file_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_seconds: float, expected: list[int]
):
    """How many files and folders are made durable, and how many of these by other threads; then those of two files."""
    others: list[bool] = []
    own, together, storage = threading.get_ident(), SyncTogether(), LocalStorage(tmp_path)
    monkeypatch.setattr(syncing, "_AT_ONCE_SECONDS", quick_seconds)
    monkeypatch.setattr(os, "fsync", lambda descriptor: others.append(threading.get_ident() != own))
    found = []
    for names in ("abc", "de"):
        with together.gathering():
            for name in names:
                with storage.write(name) as file:
                    file.write(b"x")
        others.clear()
        together.sync()
        found += [len(others), sum(others)]
    together.close()
    assert found == expected


def test_all_files_of_a_commit_are_durable_before_its_manifest_is_there(tmp_path: Path, synced: list[str]):
    world = World(tmp_path)
    world.run("a")
    synced.clear()
    world.produce("b")
    application = world.start()
    synced.clear()
    application.run_until()
    manifest = next(n for n, path in enumerate(synced) if "/manifests/" in path)
    for pattern in ("checkpoint/deltas/0_0/*", "log/out/data/*.arrow"):
        newest = max(tmp_path.glob(pattern), key=lambda path: path.stat().st_mtime_ns)
        assert {str(newest), str(newest.parent)} <= set(synced[:manifest])
    application.close()


def test_a_disk_that_fails_as_files_are_made_durable_fails_the_commit_and_nothing_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world = World(tmp_path)
    world.run("a")
    world.produce("a")
    application = world.start()
    before = application.coordinator.manifest.commit
    fsync = os.fsync

    def fail(descriptor: int) -> None:
        if "/deltas/" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(PenstockError, match=r"cannot write .*nothing was committed"):
            application.run_until()
    assert application.coordinator.manifest.commit == before
    application.run_until()
    application.close()
    assert world.output() == [("a", 1), ("a", 2)]

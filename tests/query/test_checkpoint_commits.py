"""The newest commit of a checkpoint, as others see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.query.commits import StoredCommits
from support.world import World


@pytest.mark.parametrize("behind", ["hours", "not at all"])
def test_a_commit_is_seen_though_the_clock_of_the_folder_is_behind_and_stands_still(
    tmp_path: Path, behind: str, monkeypatch: pytest.MonkeyPatch
):
    world = World(tmp_path)
    world.run("a")
    ticks = 10**9 if behind == "hours" else world.storage.changed_at("manifests")
    monkeypatch.setattr("penstock.storage.base.LocalStorage.changed_at", lambda self, folder: ticks)
    commits = StoredCommits(world.storage)
    newest = commits.newest().commit
    world.run("a")  # within the same tick of that clock
    assert not commits.is_newest(newest)

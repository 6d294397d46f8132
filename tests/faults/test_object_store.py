"""kill -9 with the checkpoint in an object store: nothing is lost, and nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest

from support.s3 import S3Server

pytestmark = pytest.mark.slow

_POINTS = (
    "after-delta",
    "before-manifest",
    "after-manifest",
    "after-forget",
    "during-snapshot",
    "after-snapshot",
    "before-take-over",
    "after-take-over",
)
"""Between any two things that are written there."""


def test_crashes_change_nothing_with_commits_in_an_object_store(
    small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with S3Server() as server:
        server.be_found(monkeypatch)
        monkeypatch.setenv("CHECKPOINT", server.bucket())
        folder = harness.copy_of(small_base, tmp_path)
        harness.run_with_crashes_at(folder, "--local", _POINTS, 1)
        assert harness.outcome(folder) == small_undisturbed


def test_slots_on_spark_that_are_killed_change_nothing_with_a_store_that_fails_and_is_late_now_and_then(
    small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with S3Server() as server:
        server.be_found(monkeypatch)
        monkeypatch.setenv("CHECKPOINT", server.bucket())
        server.tell(every=9, seconds=0.3)
        folder = harness.copy_of(small_base, tmp_path)
        assert harness.run_to_the_end(folder, "--spark", ["slot"], 4, 11) == 4
        server.tell(every=0)
        assert harness.outcome(folder) == small_undisturbed

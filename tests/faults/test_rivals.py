"""A program that sleeps in the middle of a commit while another process takes the application over, and then goes on.

Its processes are stopped by the kernel (``SIGSTOP``), as when a machine is suspended: it looks at nothing and lets go
of nothing meanwhile. ``tests/engine/test_take_over.py`` has the same inside one process, at every point.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import program
import pytest

from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.storage.base import LocalStorage
from support.folders import MEMORY

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An input topic for some five commits."""
    folder = tmp_path_factory.mktemp("few")
    program.fill(FileLog(folder / "log"), 1_500)
    return folder


@pytest.fixture(scope="module")
def few_undisturbed(few: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = harness.copy_of(few, tmp_path_factory.mktemp("undisturbed"))
    started(folder, "state").run_until()
    return harness.outcome(folder)


@pytest.fixture
def folder(few: Path) -> Iterator[Path]:
    """A folder with the input, in memory: the disk is not what these tests are about."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield harness.copy_of(few, Path(name))


def started(folder: Path, state: str) -> LocalApplication:
    """A program in this process, with its databases in a folder of that name."""
    log, storage = FileLog(folder / "log"), LocalStorage(folder / "state" / "checkpoint")
    known = program.settings(folder)
    return LocalApplication(program.two_stages(), program.APPLICATION, known, log, storage, folder / state / "tasks")


def take_over(folder: Path, state: str, commits: int | None = None) -> None:
    """A program that makes so many commits, or all that there are to make, and ends."""
    rival = started(folder, state)
    if commits is None:
        rival.run_until()
    else:
        for _ in range(commits):
            assert rival.coordinator.step(rival.coordinator.end_offsets()) is not None
    rival.close()


def assert_fenced_after_a_sleep(sleeper: harness.Program, folder: Path) -> None:
    """One of its processes stops where it was told to; it goes on when a rival has made two commits, and ended."""
    try:
        asleep = sleeper.wait_until_stopped()
        take_over(folder, "elsewhere", commits=2)
        os.kill(asleep, signal.SIGCONT)
        assert not sleeper.wait()
    finally:
        sleeper.kill_what_is_left()
    last = sleeper.errors().strip().splitlines()[-1]
    by = f"penstock.errors.FencedError: application 'crash' was taken over by process {os.getpid()} on "
    assert last.startswith(by), sleeper.errors()
    assert "this program stops. Its results up to commit" in last


@pytest.mark.parametrize(
    ("point", "count"),
    [
        ("after-take-over", 1),
        ("after-delta", 9),
        ("before-manifest", 2),
        ("after-manifest", 2),
        ("during-publish", 5),
    ],
)
def test_a_program_that_slept_inside_a_commit_is_told_and_nothing_is_lost_or_done_twice(
    point: str, count: int, folder: Path, few_undisturbed: dict[str, Any]
):
    """Then the application comes back to where it slept, with the databases that lie there."""
    assert_fenced_after_a_sleep(harness.Program(folder, "--local", PENSTOCK_STOP_AT=f"{point}:{count}"), folder)
    take_over(folder, "state")
    assert harness.outcome(folder) == few_undisturbed


def test_a_slot_of_spark_that_slept_ends_its_program_and_nothing_is_lost_or_done_twice(
    folder: Path, few_undisturbed: dict[str, Any]
):
    first = f"after-delta:5:{folder / 'slept'}"
    assert_fenced_after_a_sleep(harness.Program(folder, "--spark", PENSTOCK_STOP_AT=first), folder)
    take_over(folder, "state")
    assert harness.outcome(folder) == few_undisturbed

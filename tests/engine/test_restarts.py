"""A program that is killed and started again and again: nothing grows but its results."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock import consume, produce
from support import restarting

RESTARTS = 5


def feed(folder: Path, number: int) -> None:
    for topic in ("in", "other"):
        rows = [(f"k{n % 12}", n % 9, 200 * number + n) for n in range(60)]
        produce(rows, topic, str, int, partitions=2, log=folder / "log")


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    command = [sys.executable, restarting.__file__, str(folder), *more]
    environment = os.environ | {"TMPDIR": str(folder / "tmp")}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def finish(folder: Path) -> None:
    with started(folder, "--once") as last:
        last.communicate(timeout=120)
    assert last.returncode == 0


def kill_at_a_random_moment(running: subprocess.Popen[str], moments: random.Random) -> None:
    """Within some commits, or on the way to the first one."""
    assert running.stdout is not None
    for _ in range(moments.randrange(4)):
        running.stdout.readline()
    time.sleep(moments.random() / 2)
    running.kill()
    running.communicate()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.slow
def test_restarts_after_kills_leave_nothing_behind(tmp_path: Path):
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    moments = random.Random(28)
    for number in range(RESTARTS):
        for folder in (killed, undisturbed):
            (folder / "tmp").mkdir(parents=True, exist_ok=True)
            feed(folder, number)
        kill_at_a_random_moment(started(killed), moments)
    for folder in (killed, undisturbed):
        finish(folder)

    def left(folder: Path) -> list[str]:
        return sorted(str(path.relative_to(folder)) for path in (folder / "tmp").rglob("*"))

    assert left(killed) == left(undisturbed)
    assert len(files(killed / "state" / "tasks")) <= 2 * len(files(undisturbed / "state" / "tasks"))
    topics = {path.name for path in (killed / "log").iterdir()}
    assert topics == {path.name for path in (undisturbed / "log").iterdir()}
    for topic in topics:
        few = len(files(undisturbed / "log" / topic)) + 20
        assert len(files(killed / "log" / topic)) <= few, topic
    for topic in ("counts", "by-value", "sessions", "joined"):
        tables = [
            {repr(record.key): record.value for record in consume(topic, log=folder / "log")}
            for folder in (killed, undisturbed)
        ]
        assert tables[0] == tables[1] != {}, topic

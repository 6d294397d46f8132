"""What killed processes leave in the folder for temporary files goes, and nothing of anybody else."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from penstock.files import temporary

HOLDER = """
import sys, time
from penstock.files import temporary
path = temporary.folder("store")
(path / "rows").write_text("rows")
print(path, flush=True)
time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that is this test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def holder() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_the_folder_of_a_killed_process_goes_with_the_next_one_and_that_of_a_living_one_stays(place: Path):
    killed, left = holder()
    living, used = holder()
    kill(killed)
    assert (left / "rows").exists()
    own = temporary.folder("store")
    try:
        assert (left.exists(), (used / "rows").read_text(), own.exists()) == (False, "rows", True)
    finally:
        kill(living)
    temporary.remove(own)
    assert temporary.sweep() == [used]
    assert list(place.iterdir()) == []


def test_a_folder_whose_process_was_killed_before_it_locked_it_goes_as_well(place: Path):
    old, new, held = (place / f".penstock.store.{name}" for name in ("aaaaaaaa", "bbbbbbbb", "cccccccc"))
    for path in (old, new, held):
        path.mkdir()
    an_hour_ago = time.time() - 3600
    for path in (old, held):
        os.utime(path, (an_hour_ago, an_hour_ago))
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        assert temporary.sweep() == [old]
    finally:
        os.close(descriptor)
    assert (new.exists(), held.exists()) == (True, True)


def test_a_folder_stays_while_a_process_lives_that_inherited_its_lock(place: Path):
    own = temporary.folder("spark")
    child = subprocess.Popen(["sleep", "60"], pass_fds=[temporary.lock_of(own)])
    os.close(temporary._held.pop(own))  # as when this process is killed
    assert (temporary.sweep(), own.exists()) == ([], True)
    child.kill()
    child.wait()
    assert (temporary.sweep(), own.exists()) == ([own], False)


def test_nothing_of_anybody_else_goes(place: Path):
    outside = place / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    for name in ("penstock-store-12345678", "penstock.store.1234", "penstock.store.12345678.kept", "spark-0f"):
        (place / name).mkdir()  # of releases before, or of somebody else
    (place / "penstock.store.abcdefgh").symlink_to(outside)
    os.mkfifo(place / "penstock.store.pipe0000")
    (place / "penstock.store.file0000").write_text("a file")
    before = sorted(place.rglob("*"))
    assert temporary.sweep() == []
    assert sorted(place.rglob("*")) == before


def test_a_link_in_a_folder_that_goes_takes_nothing_with_it(place: Path, tmp_path_factory: pytest.TempPathFactory):
    precious = tmp_path_factory.mktemp("elsewhere") / "precious"
    precious.write_text("precious")
    killed, left = holder()
    kill(killed)
    (left / "link").symlink_to(precious.parent)
    assert temporary.sweep() == [left]
    assert precious.read_text() == "precious"

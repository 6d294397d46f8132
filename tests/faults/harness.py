"""The programs of this folder, each start of which is killed in its own way, and what they leave behind."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import program

from penstock import Topology
from penstock.state.folder_lock import lockable, takes
from penstock.testing.chaos import outcome as outcomes
from penstock.testing.chaos import processes

_PROGRAM = Path(program.__file__)
_MOST_STARTS = 200


def prepared(folder: Path, count: int, script: Path = _PROGRAM) -> Path:
    """A folder with the input topics."""
    subprocess.run([sys.executable, str(script), str(folder), "--fill", str(count)], check=True)
    return folder


def copy_of(base: Path, folder: Path) -> Path:
    """Another folder with the same input topics, and nothing done with them."""
    shutil.copytree(base / "log", folder / "log")
    return folder


def outcome(folder: Path, topology: Topology | None = None) -> dict[str, Any]:
    """Everything that a program put out, record for record, and what its stores hold."""
    known = program.APPLICATION, program.settings(folder), program.checkpoint(folder)
    return outcomes.outcome(folder, topology or program.two_stages(), *known)


def undisturbed(base: Path, folder: Path, topology: Topology | None = None, script: Path = _PROGRAM) -> dict[str, Any]:
    """What comes out of the input topics when nothing is killed."""
    copied = copy_of(base, folder)
    assert Program(copied, "--local", script).wait()
    return outcome(copied, topology)


class Program(processes.Program):
    """One start of a program of this folder."""

    def __init__(self, folder: Path, mode: str, script: Path = _PROGRAM, **environment: str):
        has_slots = mode in ("--spark", "--slots", "--micro")
        if has_slots:  # else it would be done before anything could be killed
            interval = "700 ms" if mode == "--micro" else "150 ms"
            environment = {"PENSTOCK_COMMIT_INTERVAL": interval, **environment}
        super().__init__([str(script), str(folder), mode], is_forked=not has_slots, **environment)
        self._folder = folder
        self._is_remote = {**os.environ, **environment}.get("SPARK_MASTER", "").startswith("sc://")

    def processes(self, kind: str) -> list[int]:
        """Its processes of a kind; its slots, too, if they are processes of a Connect server."""
        if self._is_remote and kind == "slot":
            return slot_pids(self._folder / "state")
        return super().processes(kind)


def slot_pids(state: Path) -> list[int]:
    """The processes that are slots now, in the order of slots, as the locks say that they hold."""
    files = sorted(file for file in (state / "slots").glob("*") if file.name.isdecimal())
    said = [file.read_text().rpartition(" ")[2] for file in files if not takes(lockable(file))]
    return [int(pid) for pid in said if pid]  # one that has just begun has not said its number yet


def run_to_the_end(folder: Path, mode: str, kinds: list[str], kills: int, seed: int, script: Path = _PROGRAM) -> int:
    """Start the program until it ends by itself, killing parts of it at random moments; how often it was killed."""
    rng = random.Random(seed)
    killed = 0
    for _ in range(_MOST_STARTS):
        running = Program(folder, mode, script)
        if killed < kills:
            killed += _kill_some(running, rng, kinds, kills - killed, 0.03 if mode == "--local" else 0.3)
        if running.wait():
            return killed
    raise AssertionError(f"not done after {_MOST_STARTS} starts")


def _kill_some(running: Program, rng: random.Random, kinds: list[str], most: int, seconds: float) -> int:
    """Kill slots now and then, for as long as the program lives; a driver or a JVM once, which ends it.

    Commits are counted rather than seconds: so that a fast machine has not done everything before all kills came.
    """
    kind = rng.choice(kinds)
    if kind != "driver" or rng.random() < 0.8:  # now and then a driver dies while it starts
        running.wait_for_commits(rng.randint(1, 3))
    time.sleep(rng.uniform(0, seconds))
    if kind != "slot":
        return int(running.is_running and running.kill(kind, rng))
    killed = 0
    while running.is_running and killed < most:
        killed += running.kill("slot", rng)
        time.sleep(rng.uniform(0.2, 1.2))
    return killed


def run_with_crashes_at(folder: Path, mode: str, points: Sequence[str], count: int, script: Path = _PROGRAM) -> None:
    """Have the first process that comes to each of the named points for the so-many-th time killed there, one start
    after the other; then to the end."""
    markers = {point: folder / f"{point}-{count}" for point in points}
    at = ",".join(f"{point}:{count}:{marker}" for point, marker in markers.items())
    for _ in range(_MOST_STARTS):
        if Program(folder, mode, script, PENSTOCK_CRASH_AT=at).wait():
            missed = [point for point, marker in markers.items() if not marker.exists()]
            assert not missed, f"no process came to these points {count} times: {', '.join(missed)}"
            return
    raise AssertionError(f"not done after {_MOST_STARTS} starts")

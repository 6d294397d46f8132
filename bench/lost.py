"""A machine that dies while a program runs on a cluster: the time without a commit, with copies of state and without.

The cluster is a standalone master with two workers on this machine; a worker is killed with all that it started.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench import data
from bench.measure import RunError
from bench.plan import Plan
from bench.report import Section, at_most, median, spread
from bench.running import PATIENCE, check, running, wait_for
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.storage.base import LocalStorage
from penstock.testing.chaos.processes import kill_all_with

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.standalone import StandaloneCluster  # type: ignore[import-not-found]

ENTRIES = 1_000_000
WORKERS, CORES, SLOTS = 2, 2, 2
APPEND, EVERY_SECONDS = 100, 0.05
AT_MOST_WITH_COPIES, AT_MOST = 3.0, 6.0
_WARM_SECONDS, _WATCHED_SECONDS = 5.0, 25.0
_LOOK_SECONDS = 0.005


def measure(plan: Plan) -> Section:
    """The longest time between two commits, with copies and without."""
    entries = plan.size(ENTRIES)
    gaps: dict[int, list[float]] = {1: [], 0: []}
    for _ in range(plan.runs):
        for copies, found in gaps.items():
            found.append(_gap(plan, entries, copies))
            plan.say(f"a machine dies, standby_replicas={copies}: {found[-1]:.2f} s without a commit")
    section = Section(
        "LOST: a machine dies",
        f"Seconds from the last commit before to the first behind, while {APPEND} records come every "
        f"{EVERY_SECONDS * 1000:.0f} ms. {SLOTS} slots on a standalone cluster of {WORKERS} workers with {CORES} cores "
        f"each, and windows of {entries:,} records as their state; one worker is killed with its executor and the slot "
        "in it. Without copies the time has the restore of half of the state in it.",
    )
    for copies, limit, what in (1, AT_MOST_WITH_COPIES, "standby_replicas=1"), (0, AT_MOST, "without copies"):
        row = at_most(what, median(gaps[copies]), limit, "s")
        section.rows.append(replace(row, spread=spread(gaps[copies])))
    return section


def _gap(plan: Plan, entries: int, copies: int) -> float:
    plan.penstock.clear("in", "out")
    columns = data.distinct(entries)
    data.fill(plan.penstock.log, "in", columns)
    manifests = Manifests(LocalStorage(plan.penstock.work / "state" / "checkpoint"))
    with (
        tempfile.TemporaryDirectory(dir=plan.penstock.work) as folder,
        StandaloneCluster(Path(folder), WORKERS, CORES) as cluster,
    ):
        options = ["--live", "--master", cluster.url, "--slots", str(SLOTS), "--set", f"standby_replicas={copies}"]
        with running(plan.penstock.job("W9", ["in"], options)) as process:
            wait_for(process, plan.penstock.log, "out", entries)
            with _coming(plan, columns):
                _wait_until_ready(process, manifests, copies)
                time.sleep(_WARM_SECONDS)
                return _without_commits(manifests, Path(folder))


def _wait_until_ready(process: subprocess.Popen[str], manifests: Manifests, copies: int) -> None:
    """Wait until slots have places, and copies if they are to have some."""
    until = time.monotonic() + PATIENCE
    while not _is_ready(manifests.newest(), copies):
        check(process)
        if time.monotonic() > until:
            raise RunError(f"no copies were there after {PATIENCE:g} s")
        time.sleep(_LOOK_SECONDS)


def _is_ready(newest: Manifest | None, copies: int) -> bool:
    if newest is None or newest.places is None:
        return False
    return all(slot.copy or not copies for slot in newest.places.slots)


def _without_commits(manifests: Manifests, folder: Path) -> float:
    """Kill a machine; the longest time between two commits since."""
    newest = manifests.newest()
    assert newest is not None
    assert newest.places is not None
    number = int(newest.places.slots[0].host.rpartition(".")[2]) - 2
    seen, at, longest = newest.commit, time.monotonic(), 0.0
    kill_all_with(str(folder / f"worker-{number}"))
    until = at + _WATCHED_SECONDS
    while (now := time.monotonic()) < until:
        commit = manifests.numbers()[-1]
        if commit > seen:
            longest = max(longest, now - at)
            seen, at = commit, now
        time.sleep(_LOOK_SECONDS)
    return max(longest, now - at)


@contextmanager
def _coming(plan: Plan, columns: data.Columns) -> Iterator[None]:
    """Have records come again and again."""
    ended = threading.Event()
    key, value, timestamp = columns

    def produce() -> None:
        rng = np.random.default_rng(1)
        while not ended.wait(EVERY_SECONDS):
            rows = np.sort(rng.choice(len(timestamp), APPEND, replace=False))
            data.produce(plan.penstock.log, "in", (key.take(rows), value.take(rows), timestamp[rows]))

    producing = threading.Thread(target=produce)
    producing.start()
    try:
        yield
    finally:
        ended.set()
        producing.join()

"""Kills and stops all processes of a program on Spark, at random; what comes of it is that of an undisturbed run.

python tests/faults/kills_on_spark.py --until 200 --seconds 280 --tally FILE [--seed N] [--master MASTER]

It ends at the first round after so many seconds; the tally goes on from the file, so that it can be run in pieces. Each
round is one program, which is started until it has done everything. In each start its slots, the daemon that they are
forked from and, on a cluster (such as ``local-cluster[2,1,1024]``), its executors are killed or stopped for longer than
``slot_timeout``; its driver and its JVM as well, which mostly ends it. Now and then the driver sleeps while another
program takes over.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import harness

RECORDS = 12_000
SLEEP = 2.2
ENVIRONMENT = {"PENSTOCK_SLOT_TIMEOUT": "1500 ms", "PENSTOCK_COMMIT_INTERVAL": "100 ms"}
_MOST_STARTS = 60


class Round:
    """One program, from its first start to its end."""

    def __init__(self, folder: Path, rng: random.Random, tally: Counter[str], master: str):
        self._folder, self._rng, self._tally = folder, rng, tally
        self._environment = {**ENVIRONMENT, **({"SPARK_MASTER": master} if master else {})}
        self._kinds = ["slot"] * 10 + ["daemon", "driver", "jvm"] + (["executor"] * 4 if "cluster" in master else [])

    def run(self, until: float) -> None:
        """Start it until it has done everything, disturbed until that time."""
        for _ in range(_MOST_STARTS):
            running = self._start()
            if time.monotonic() < until:
                self._disturb(running, until)
            if running.wait():
                return
        raise AssertionError(f"not done after {_MOST_STARTS} starts")

    def _start(self, **more: str) -> harness.Program:
        return harness.Program(self._folder, "--spark", **{**self._environment, **more})

    def _disturb(self, running: harness.Program, until: float) -> None:
        rng = self._rng
        running.wait_for_commits(rng.randint(0, 2))
        while running.is_running and time.monotonic() < until:
            time.sleep(rng.uniform(0, 0.5))
            kind = rng.choice(self._kinds)
            if rng.random() < 0.8:
                if running.kill(kind, rng):
                    self._tally[f"kill {kind}"] += 1
                    if kind in ("driver", "jvm"):
                        break
            else:
                self._stop(running, kind)

    def _stop(self, running: harness.Program, kind: str) -> None:
        """Stop a process for longer than the time-out; a driver sometimes until another program has taken over."""
        found = running.processes(kind)
        if not found or not running.is_running:
            return
        pid = self._rng.choice(found)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self._tally[f"stop {kind}"] += 1
            try:
                if kind == "driver" and self._rng.random() < 0.5:
                    self._take_over()
                time.sleep(SLEEP)
            finally:
                os.kill(pid, signal.SIGCONT)

    def _take_over(self) -> None:
        """Another program, as if on another machine, makes some commits and is killed."""
        rival = self._start(STATE="other")
        rival.wait_for_commits(2)
        if rival.is_running and rival.kill("driver", self._rng):
            self._tally["taken over while the driver slept"] += 1
        rival.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--until", type=int, default=200, help="how many kills and stops there are to be")
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--master", default="")
    parser.add_argument("--tally", type=Path, required=True)
    given = parser.parse_args()
    tally: Counter[str] = Counter(json.loads(given.tally.read_text()) if given.tally.exists() else {})
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        base, expected = _undisturbed(Path(name))
        number, deadline = 0, time.monotonic() + given.seconds
        while time.monotonic() < deadline and tally.total() - tally["rounds"] < given.until:
            folder = harness.copy_of(base, Path(name, f"round-{number}"))
            Round(folder, rng, tally, given.master).run(deadline)
            assert harness.outcome(folder) == expected, f"round {number} of seed {given.seed} came out differently"
            number += 1
            tally["rounds"] += 1
            given.tally.write_text(json.dumps(tally))
            print(f"seed {given.seed}: {dict(tally)}", flush=True)


def _undisturbed(folder: Path) -> tuple[Path, dict[str, Any]]:
    base = harness.prepared(folder / "base", RECORDS)
    alone = harness.copy_of(base, folder / "alone")
    assert harness.Program(alone, "--local").wait()
    return base, harness.outcome(alone)


if __name__ == "__main__":
    main()

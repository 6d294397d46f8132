"""Kills and stops all processes of a program on Spark, at random; what comes of it is that of an undisturbed run.

python tests/faults/kills_on_spark.py --until 200 --seconds 280 --tally FILE [--seed N] [--master MASTER] [--kinds K,K]
    [--workers N] [--programs P,P]

It ends at the first round after so many seconds; the tally goes on from the file, so that it can be run in pieces. Each
round is one program, which is started until it has done everything. In each start its slots and the daemon that they
are forked from are killed or stopped for longer than ``slot_timeout``; its driver and its JVM as well, which mostly
ends it. On a cluster (``local-cluster[2,2,1024]``, or ``standalone``: a master and its workers that are started for
it) so are its executors: the JVM alone, or as a ``machine`` with its daemon and slots in one go; of a standalone
cluster the ``master`` and each ``worker`` are killed as well, and started anew. Now and then the driver sleeps while
another program takes over. In half of the starts that happens at named points instead, of the protocol and of a
commit, at which whoever comes there is killed or stopped.

``--kinds executor,machine`` disturbs these and nothing else. ``--programs joining,suppression`` takes these in turn, of
the programs of this folder.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import figures
import harness
import program

from penstock.testing.chaos import processes

sys.path.insert(0, str(Path(__file__).parent.parent))
from support.standalone import StandaloneCluster

PROGRAMS = ("program", "joining", "circling", "suppression", "deduplication", "own_stores")
"""Those of this folder that run on Spark, all crash topologies."""
RECORDS = 12_000
SLEEP = 2.2
ENVIRONMENT = {"PENSTOCK_SLOT_TIMEOUT": "1500 ms", "PENSTOCK_COMMIT_INTERVAL": "100 ms"}
_MOST_STARTS = 60

OF_SLOTS = ("before-answer", "after-answer", "before-delta", "after-delta", "before-local-commit", "after-local-commit")
"""Where a slot is that was sent an order, has done it, has its answer out, or hears that all of it counts."""

OF_CLUSTERS = ("executor", "machine")
"""The JVM of an executor, and one with the daemon and the slots that it started."""

OF_STANDALONE = ("master", "worker")
"""Spark's own processes, another of which is started at once."""

OF_DRIVERS = ("after-order", "before-manifest", "after-manifest", "during-publish", "after-publish")

Cluster = str | StandaloneCluster
"""The address of a master, or a whole cluster of this machine."""


class Subject:
    """A program of this folder, its input, and what comes of it when nothing disturbs it."""

    def __init__(self, name: str, folder: Path):
        module = importlib.import_module(name)
        self.name = name
        self.script = Path(str(module.__file__))
        self._topology = module.two_stages() if name == "program" else module.topology()
        filler = self.script if name == "deduplication" else Path(program.__file__)
        self._base = harness.prepared(folder / name, RECORDS, filler)
        alone = self.copy(folder / f"{name}-alone")
        assert harness.Program(alone, "--local", self.script).wait()
        self.expected = self.outcome(alone)

    def copy(self, folder: Path) -> Path:
        return harness.copy_of(self._base, folder)

    def outcome(self, folder: Path) -> dict[str, Any]:
        return harness.outcome(folder, self._topology)


class Round:
    """One program, from its first start to its end."""

    def __init__(
        self,
        folder: Path,
        script: Path,
        rng: random.Random,
        tally: Counter[str],
        cluster: Cluster,
        kinds: list[str],
    ):
        self._folder, self._script = folder, script
        self._rng, self._tally, self._cluster = rng, tally, cluster
        master = cluster.url if isinstance(cluster, StandaloneCluster) else cluster
        self._environment = {**ENVIRONMENT, **({"SPARK_MASTER": master} if master else {})}
        self._has_room = isinstance(cluster, str)
        """Whether another program finds cores while this one keeps its own."""
        self._at_points = not kinds
        of_cluster = (
            [kind for kind in OF_CLUSTERS for _ in range(4)] if "cluster" in master or not self._has_room else []
        )
        of_cluster += [] if self._has_room else OF_STANDALONE
        self._kinds = kinds or ["slot"] * 10 + ["daemon", "driver", "jvm"] + of_cluster

    def run(self, until: float) -> None:
        """Start it until it has done everything, disturbed until that time."""
        for number in range(_MOST_STARTS):
            if time.monotonic() < until and self._at_points and self._rng.random() < 0.5:
                running = self._disturbed_at_points(number)
            else:
                running = self._start()
                if time.monotonic() < until:
                    self._disturb(running, until)
            if running.wait():
                return
        raise AssertionError(f"not done after {_MOST_STARTS} starts, the last of which said:\n{running.errors()}")

    def _start(self, **more: str) -> harness.Program:
        return harness.Program(self._folder, "--spark", self._script, **{**self._environment, **more})

    def _disturb(self, running: harness.Program, until: float) -> None:
        rng = self._rng
        running.wait_for_commits(rng.randint(0, 2))
        while running.is_running and time.monotonic() < until:
            time.sleep(rng.uniform(0, 0.5))
            kind = rng.choice(self._kinds)
            if kind in OF_STANDALONE:
                self._replace(kind)
            elif rng.random() < 0.8:
                if self._kill(running, kind):
                    self._tally[f"kill {kind}"] += 1
                    if kind in ("driver", "jvm"):
                        break
            else:
                self._stop(running, kind)

    def _disturbed_at_points(self, number: int) -> harness.Program:
        """Have whoever comes to some points first killed or stopped there, one after the other; who was stopped goes on
        after the time-out."""
        rng = self._rng
        kinds = [(point, rng.choice(("kill", "kill", "stop")), rng.randint(1, 5)) for point in OF_SLOTS]
        kinds += [(point, "stop", rng.randint(2, 6)) for point in rng.sample(OF_DRIVERS, 1)]
        kinds += [(point, "kill", rng.randint(10, 20)) for point in rng.sample(OF_DRIVERS, 1)]
        markers = {self._folder / f"{number}-{way}-{point}": (way, point, count) for point, way, count in kinds}
        told = {
            variable: ",".join(f"{p}:{count}:{file}" for file, (way, p, count) in markers.items() if way == meant)
            for variable, meant in (("PENSTOCK_CRASH_AT", "kill"), ("PENSTOCK_STOP_AT", "stop"))
        }
        running = self._start(**told)
        since: dict[int, float] = {}
        for _ in range(int(processes.PATIENCE / 0.1)):
            if not running.is_running:
                break
            time.sleep(0.1)
            sleeping = {pid for pid in self._all_of(running) if processes.is_stopped(pid)}
            since = {pid: since.get(pid, time.monotonic()) for pid in sleeping}
            _signal([pid for pid, began in since.items() if time.monotonic() > began + SLEEP], signal.SIGCONT)
        for file, (way, point, _) in markers.items():
            if file.exists():
                self._tally[f"{way} at {point}"] += 1
        return running

    def _all_of(self, running: harness.Program) -> list[int]:
        return running.processes("driver") + self._found(running, "slot")

    def _found(self, running: harness.Program, kind: str) -> list[int]:
        """Its processes of a kind; those of a standalone cluster are children of its workers, which are ours."""
        kind = "executor" if kind == "machine" else kind
        found = running.processes(kind)
        return found or (processes.own(kind) if kind in ("slot", "daemon", "executor") else [])

    def _victims(self, running: harness.Program, kind: str) -> list[int]:
        """One of its processes of a kind, of executors one that has slots; of a machine all of them."""
        found = self._found(running, kind)
        if kind in OF_CLUSTERS:
            found = [pid for pid in found if processes.started_by(pid)]
        if not found or not running.is_running:
            return []
        pid = self._rng.choice(found)
        return [pid, *processes.started_by(pid)] if kind == "machine" else [pid]

    def _kill(self, running: harness.Program, kind: str) -> bool:
        victims = self._victims(running, kind)
        return _signal(victims, signal.SIGKILL)

    def _replace(self, kind: str) -> None:
        assert isinstance(self._cluster, StandaloneCluster)
        if kind == "master":
            self._cluster.replace_master()
        else:
            self._cluster.replace_worker(self._rng.randrange(self._cluster.workers))
        self._tally[f"kill {kind}"] += 1

    def _stop(self, running: harness.Program, kind: str) -> None:
        """Stop a process for longer than the time-out; a driver sometimes until another program has taken over."""
        victims = self._victims(running, kind)
        try:
            if _signal(victims, signal.SIGSTOP):
                self._tally[f"stop {kind}"] += 1
                if kind == "driver" and self._has_room and self._rng.random() < 0.5:
                    self._take_over()
                time.sleep(SLEEP)
        finally:
            _signal(victims, signal.SIGCONT)

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
    parser.add_argument("--workers", type=int, default=2, help="how many workers a standalone cluster has")
    parser.add_argument("--programs", default="program", help=f"with commas, of {', '.join(PROGRAMS)}")
    parser.add_argument("--kinds", default="", help="which processes, with commas; by default all kinds, and points")
    parser.add_argument("--tally", type=Path, required=True)
    parser.add_argument("--keep", action="store_true", help="keep the tally in bench/results.jsonl and RESULTS.md")
    given = parser.parse_args()
    tally: Counter[str] = Counter(json.loads(given.tally.read_text()) if given.tally.exists() else {})
    rng = random.Random(given.seed)
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)  # where a program has its own stores
    kinds = given.kinds.split(",") if given.kinds else []
    with (
        tempfile.TemporaryDirectory(prefix="kills-") as name,
        _cluster(given.master, Path(name), given.workers) as cluster,
    ):
        subjects = [Subject(one, Path(name)) for one in given.programs.split(",")]
        number, deadline = 0, time.monotonic() + given.seconds
        while time.monotonic() < deadline and _disturbances(tally) < given.until:
            subject = subjects[number % len(subjects)]
            folder = subject.copy(Path(name, f"round-{number}"))
            Round(folder, subject.script, rng, tally, cluster, kinds).run(deadline)
            where = f"round {number} of seed {given.seed}, {subject.name},"
            assert subject.outcome(folder) == subject.expected, f"{where} came out differently"
            number += 1
            tally[f"{_ROUNDS}{subject.name}"] += 1
            given.tally.write_text(json.dumps(tally))
            print(f"seed {given.seed}: {dict(tally)}", flush=True)
    if given.keep:
        _keep(tally)


_ROUNDS = "rounds of "
"""Before the name of a program, in a tally: how many of it came to their ends."""


def _disturbances(tally: Counter[str]) -> int:
    """How many kills and stops there were."""
    return tally.total() - _rounds(tally)


def _rounds(tally: Counter[str]) -> int:
    return sum(count for what, count in tally.items() if what.startswith(_ROUNDS))


def _keep(tally: Counter[str]) -> None:
    """Keep the counts among the results of the benchmark."""
    about = (
        "Programs on Spark (`local[2]`, `local-cluster`, a standalone master with two to four workers), their slots, "
        "the daemon of these, executors with all they started, their JVM and driver, the master and the workers killed "
        "(and started anew), or stopped for longer than `slot_timeout`, at random and at named points; "
        "`tests/faults/kills_on_spark.py`."
    )
    rows = [figures.Row(what, f"{count}") for what, count in sorted(tally.items())]
    rows += [
        figures.Row("in all", f"{_disturbances(tally)}"),
        figures.Row("programs", f"{_rounds(tally)}"),
        figures.none_differed("programs whose outputs or state"),
    ]
    figures.keep("KILLS: a program on Spark", about, rows)


@contextmanager
def _cluster(master: str, folder: Path, workers: int) -> Iterator[Cluster]:
    """The master's address; a cluster that is started for it, where that was asked for."""
    if master == "standalone":
        with StandaloneCluster(folder / "cluster", workers) as cluster:
            yield cluster
    else:
        yield master


def _signal(pids: list[int], number: int) -> bool:
    """Send a signal to processes; whether one of them was there to get it."""
    got = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            got += 1
    return got > 0


if __name__ == "__main__":
    main()

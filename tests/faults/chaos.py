"""Runs the programs of this folder and of ``examples`` under chaos, by the tool that users have (``penstock chaos``).

python tests/faults/chaos.py --kills 500 --seed 7 [--mode local|slots|spark] [--round N] [--folder FOLDER] [--keep]

Besides what that tool does, some of these programs have producers that write and are killed meanwhile, and what is
processed is removed from their input; once a program is done and compared, one of its topics is removed and created
again.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import circling
import deduplication
import demo
import figures
import harness
import joining
import program
import suppression

import live
from penstock import Topology
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifests
from penstock.faults import LOG_POINTS, POINTS, START_POINTS
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.testing.chaos.outcome import checkpoint
from penstock.testing.chaos.processes import Program
from penstock.testing.chaos.round import Tally
from penstock.testing.chaos.rounds import chaos
from penstock.testing.chaos.subject import MODES, ChaosError, Subject


class Own(Subject):
    """A program of this folder.

    Args:
        script: runs it.
        records: how many its input has.
        filler: makes its input.
    """

    def __init__(
        self, script: str | None, topology: Callable[[], Topology], records: int, filler: str | None, *modes: str
    ):
        self._script, self._filler = Path(str(script)), Path(str(filler))
        self._records = records
        super().__init__(self._script.stem, topology(), program.APPLICATION, modes or MODES)

    def command(self, folder: Path, mode: str) -> list[str]:
        return [str(self._script), str(folder), f"--{mode}"]

    def settings(self, folder: Path) -> Settings:
        return program.settings(folder)

    def prepare(self, folder: Path) -> None:
        harness.prepared(folder, self._records, self._filler)

    def afterwards(self, folder: Path, rng: random.Random) -> str:
        """Remove a topic behind its back and make it anew: it goes on with new outputs, or refuses by name."""
        log = FileLog(folder / "log")
        topic = rng.choice([*self.topology.source_topics, *self.topology.sink_topics])
        is_source, info = topic in self.topology.source_topics, log.topic(topic)
        log.delete_topic(topic)
        if is_source or rng.random() < 0.5:
            log.create_topic(info)
        again = self.start(folder, "local")
        done = again.wait()
        if is_source and done:
            raise ChaosError(f"{topic} was made anew, and the program goes on as if nothing had happened")
        if not done and (topic not in again.errors() or "KeyError" in again.errors()):
            raise ChaosError(f"{topic} was made anew:\n{again.errors()}")
        for name in log.topics():
            for partition, (start, end) in enumerate(zip(log.start_offsets(name), log.end_offsets(name), strict=True)):
                for _ in log.read(name, partition, start, end):
                    pass
        return f"{topic}: {'goes on' if done else again.errors().strip().splitlines()[-1][:120]}"


class Live(Own):
    """The program whose input is written and removed while it runs."""

    def beside(self, folder: Path) -> Program:
        return Program([str(self._script), str(folder), "--produce"], is_forked=True)

    def undisturbed(self, folder: Path, mode: str, is_forked: bool = True) -> dict[str, object]:
        return {}  # what has to come out is known without a run

    def compare(self, folder: Path) -> None:
        live.check(folder, self.outcome(folder))

    def meanwhile(self, folder: Path, rng: random.Random) -> str | None:
        """Remove what is processed from the input topic."""
        newest = Manifests(checkpoint(folder)).newest()
        if newest is None or rng.random() < 0.5:
            return None
        offsets = {
            TaskId.parse(task).partition: entry.offsets[program.INPUT]
            for task, entry in newest.tasks.items()
            if program.INPUT in entry.offsets
        }
        FileLog(folder / "log").trim(program.INPUT, offsets)
        return "trim"


def subjects() -> list[Subject]:
    """All programs, none of them run yet."""
    fill = program.__file__
    return [
        Own(program.__file__, program.two_stages, 8_000, fill),
        Own(joining.__file__, joining.topology, 8_000, fill),
        Own(circling.__file__, circling.topology, 8_000, fill),
        Own(suppression.__file__, suppression.topology, 8_000, fill, "local", "slots"),
        Own(deduplication.__file__, deduplication.topology, 9_000, deduplication.__file__, "local", "slots"),
        Own(demo.__file__, lambda: demo.flights.topology, 0, demo.__file__),
        Live(live.__file__, live.topology, 6_000, live.__file__),
    ]


def main() -> None:
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--kills", type=int, default=500)
    known.add_argument("--seed", type=int, default=None)
    known.add_argument("--round", type=int, default=None)
    known.add_argument("--mode", choices=MODES, action="append")
    known.add_argument("--folder", type=Path, default=None)
    known.add_argument("--keep", action="store_true", help="keep the counts in bench/results.jsonl and RESULTS.md")
    given = known.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # also in the background: what runs is killed on the way out
        signal.signal(number, signal.default_int_handler)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    folder = given.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    print(f"seed {seed}, in {folder}", flush=True)
    done = chaos(subjects(), given.kills, seed, given.mode or MODES, folder, only=given.round)
    for end, count in done.ends.most_common():
        print(f"{count:4} x {end}")
    print(f"seed {seed}: {done.kills} kills ({dict(done.killed)}), and no difference", flush=True)
    if given.keep:
        keep(done, seed)


def keep(done: Tally, seed: int) -> None:
    """Keep the counts among the results of the benchmark."""
    about = (
        "Programs of `tests/faults` and the demo, killed at random and at named points (`penstock.faults`), with full "
        "disks, torn files, rivals and failovers, "
        f"until each was done; by `make chaos SEED={seed}`."
    )
    rows = [figures.Row(f"kills: {what}", f"{number}") for what, number in done.killed.most_common()]
    rows += [
        figures.Row("kills in all", f"{done.kills}"),
        figures.Row("disks that became full", f"{done.full}"),
        figures.Row("torn files", f"{done.torn}"),
        figures.Row("named points come to", f"{len(done.points)} of {len(POINTS + START_POINTS + LOG_POINTS)}"),
        figures.none_differed("rounds whose outputs or state"),
    ]
    figures.keep("CHAOS: kill -9 at any instant", about, rows)


if __name__ == "__main__":
    sys.exit(main())

"""Runs the programs of this folder while parts of them are killed at random, and compares what comes out.

python tests/faults/chaos.py --kills 300 --seed 7 [--mode local|spark] [--folder FOLDER]

A round takes one program to its end. On the way its processes are killed (on Spark: driver, JVM, slots, their daemons,
any helper), it goes on with another state folder and comes back, rivals start in the middle of it, or while all of it
is stopped and goes on later, producers write and are killed meanwhile, what is processed is removed from its input, and
what killed processes leave behind stays. At its end outputs and state must equal those of an undisturbed run; then its
topics are removed and made anew.

The seed of a failure and what was done before it are printed. The same seed makes the same decisions; how far the
program has come at each of them is up to the machine.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deduplication
import harness
import joining
import live
import program
import suppression

from penstock import Topology
from penstock.engine.layout import TaskId
from penstock.engine.manifest import Manifests
from penstock.log.file.log import FileLog
from penstock.storage import LocalStorage


@dataclass(frozen=True)
class Subject:
    """A program that is killed."""

    name: str
    script: Path
    topology: Callable[[], Topology]
    filler: Path
    records: int
    modes: tuple[str, ...] = ("local", "spark")


SUBJECTS = [
    Subject("program", Path(program.__file__), program.two_stages, Path(program.__file__), 8_000),
    Subject("joining", Path(joining.__file__), joining.topology, Path(program.__file__), 8_000),
    Subject("suppression", Path(suppression.__file__), suppression.topology, Path(program.__file__), 8_000, ("local",)),
    Subject(
        "deduplication", Path(deduplication.__file__), deduplication.topology, Path(deduplication.__file__), 9_000,
        ("local",),
    ),
    Subject("live", Path(live.__file__), live.topology, Path(live.__file__), 6_000),
]  # fmt: skip

KINDS = {"local": ["driver"], "spark": ["driver", "jvm", "slot", "daemon", "helper"]}
STATES = ["state", "elsewhere"]
_EXPECTED = re.compile(
    r"FencedError|AlreadyRunningError|SparkLostError|CommitError|is in use by another process|is still held by process"
)
"""How a program may end that was killed in part, or that another one has taken over from."""
_LOST = re.compile(r"Py4J|ConnectionRefused|Connection reset|SparkContext|Broken pipe|java\.|Java gateway|EOFError")
"""How PySpark itself ends when its JVM or a helper process dies."""


_PATIENCE = 900
"""Seconds after which a program hangs: other programs may be running on this machine."""


class ChaosError(AssertionError):
    """Something came out differently, or a program ended as it must not."""


@dataclass
class Round:
    """One program, from its start to its end."""

    subject: Subject
    mode: str
    folder: Path
    rng: random.Random
    kills: int
    events: list[str] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    state: str = STATES[0]
    left_behind: list[harness.Program] = field(default_factory=list)

    def run(self) -> None:
        """Start the program until it ends by itself."""
        producer: harness.Program | None = None
        try:
            for _ in range(300):
                if self.subject.name == "live":
                    producer = self._produce(producer)
                if self._start():
                    return
            raise ChaosError("not done after 300 starts")
        finally:
            for one in [*self.left_behind, *([producer] if producer else [])]:
                one.kill_what_is_left()

    def _start(self) -> bool:
        """One start, disturbed or not; whether the program has done everything."""
        if self.rng.random() < 0.3:
            self.state = self.rng.choice(STATES)
        running = self._program(self.state)
        self.events.append(f"start with {self.state}")
        if sum(self.killed.values()) < self.kills:
            self._disturb(running)
        return self._ended(running)

    def _program(self, state: str) -> harness.Program:
        return harness.Program(self.folder, f"--{self.mode}", self.subject.script, STATE=state)

    def _disturb(self, running: harness.Program) -> None:
        slow, most = (1.5, 12) if self.mode == "spark" else (0.3, 3)  # what takes long to start is killed more often
        if self.rng.random() < 0.8:  # now and then something dies while the program starts
            running.wait_for_commits(self.rng.randint(1, 4))
        time.sleep(self.rng.uniform(0, slow))
        if self.subject.name == "live" and self.rng.random() < 0.5:
            self._trim()
        if self.rng.random() < 0.2:
            self._rival()
        elif self.rng.random() < 0.2:
            running.pause()
            self.events.append("pause")
            self._rival()
            running.go_on()
        for _ in range(self.rng.randint(1, most)):
            kind = self.rng.choice(KINDS[self.mode])
            if running.is_running and running.kill(kind, self.rng):
                self.killed[kind] += 1
                self.events.append(f"kill {kind}")
            if kind in ("driver", "jvm"):
                return
            time.sleep(self.rng.uniform(0, slow))

    def _rival(self) -> None:
        """Another program of the same application, which takes over, or is refused, and is killed in turn."""
        state = self.rng.choice(STATES)
        self.events.append(f"rival with {state}")
        rival = self._program(state)
        rival.wait_for_commits(self.rng.randint(0, 2))
        time.sleep(self.rng.uniform(0, 0.5))
        if rival.is_running and rival.kill("driver", self.rng):
            self.killed["rival"] += 1
        self._ended(rival)

    def _produce(self, before: harness.Program | None) -> harness.Program:
        """A producer, in place of the one before, which is killed if it still runs."""
        if before is not None:
            if before.is_running and before.kill("driver", self.rng):
                self.killed["producer"] += 1
                self.events.append("kill producer")
            before.wait()
        return harness.Program(self.folder, "--produce", self.subject.script)

    def _trim(self) -> None:
        """Remove what is processed from the input topic."""
        newest = Manifests(LocalStorage(self.folder / "state" / "checkpoint")).newest()
        if newest is not None:
            offsets = {
                TaskId.parse(task).partition: entry.offsets[program.INPUT]
                for task, entry in newest.tasks.items()
                if program.INPUT in entry.offsets
            }
            FileLog(self.folder / "log").trim(program.INPUT, offsets)
            self.events.append("trim")

    def _ended(self, running: harness.Program) -> bool:
        tidy = self.rng.random() < 0.5
        if not tidy:
            self.left_behind.append(running)
        done = running.wait(tidy, _PATIENCE)
        errors = running.errors()
        if not done and errors.strip():
            last = [line for line in errors.splitlines() if re.match(r"\w[\w.]*(Error|Exception|Exit)\b", line)]
            self.ends[(last or ["?"])[-1][:160]] += 1
            is_expected = _EXPECTED.search(errors) or (self.mode == "spark" and _LOST.search(errors))
            if last and not is_expected:
                raise ChaosError(f"a program ended with\n{errors}")
        return done


def undisturbed(subject: Subject, root: Path) -> tuple[Path, dict[str, Any]]:
    """The input of a program, and what comes of it."""
    base = harness.prepared(root / subject.name / "base", subject.records, subject.filler)
    folder = harness.copy_of(base, root / subject.name / "undisturbed")
    if subject.name == "live":
        harness.Program(folder, "--produce", subject.script).wait()
    if not harness.Program(folder, "--local", subject.script).wait():
        raise ChaosError(f"{subject.name} does not even run undisturbed")
    return base, harness.outcome(folder, subject.topology())


def compare(subject: Subject, folder: Path, expected: dict[str, Any]) -> None:
    found = harness.outcome(folder, subject.topology())
    if subject.name == "live":
        live.check(folder, found)
        return
    for name in expected:
        if found.get(name) != expected[name]:
            raise ChaosError(f"{name} differs: {_difference(found.get(name), expected[name])}")


def _difference(found: Any, expected: Any) -> str:
    if isinstance(found, list) and isinstance(expected, list):
        at = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), -1)
        return f"{len(found)} rows for {len(expected)}, first at {at}: {found[at : at + 2]} for {expected[at : at + 2]}"
    return f"{found} for {expected}"


def make_topic_anew(subject: Subject, folder: Path, rng: random.Random) -> str:
    """Remove a topic and make it anew behind the program's back: it goes on with new outputs, or refuses by name."""
    log = FileLog(folder / "log")
    topic = rng.choice([program.INPUT, *subject.topology().sink_topics])
    info = log.topic(topic)
    log.delete_topic(topic)
    if topic == program.INPUT or rng.random() < 0.5:
        log.create_topic(info)
    again = harness.Program(folder, "--local", subject.script)
    done = again.wait()
    if topic == program.INPUT and done:
        raise ChaosError(f"{topic} was made anew, and the program goes on as if nothing had happened")
    if not done and (topic not in again.errors() or "KeyError" in again.errors()):
        raise ChaosError(f"{topic} was made anew:\n{again.errors()}")
    for name in log.topics():
        for partition, (start, end) in enumerate(zip(log.start_offsets(name), log.end_offsets(name), strict=True)):
            for _ in log.read(name, partition, start, end):
                pass
    return f"{topic}: {'goes on' if done else again.errors().strip().splitlines()[-1][:120]}"


def chaos(kills: int, seed: int, modes: list[str], root: Path, say: Callable[[str], None] = print) -> Counter[str]:
    """Rounds until so many processes were killed; how many of each kind."""
    rng = random.Random(seed)
    bases: dict[str, tuple[Path, dict[str, Any]]] = {}
    killed: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    number = 0
    while sum(killed.values()) < kills:
        number += 1
        mode = rng.choice(modes)
        subject = rng.choice([one for one in SUBJECTS if mode in one.modes])
        if subject.name not in bases:
            bases[subject.name] = undisturbed(subject, root)
        base, expected = bases[subject.name]
        folder = harness.copy_of(base, root / f"round-{number}")
        left = kills - sum(killed.values())
        one = Round(subject, mode, folder, random.Random(rng.random()), min(left, rng.randint(3, 25)))
        try:
            one.run()
            compare(subject, folder, expected)
            anew = make_topic_anew(subject, folder, one.rng)
        except BaseException as error:
            say(f"FAILED: seed {seed}, round {number}: {subject.name} on {mode}, in {folder}")
            say("  " + ", ".join(one.events))
            raise error
        killed += one.killed
        ends += one.ends
        say(f"round {number}: {subject.name} on {mode}: {dict(one.killed)}; {anew}; {sum(killed.values())} in all")
        shutil.rmtree(folder)
    for end, count in ends.most_common():
        say(f"{count:4} x {end}")
    return killed


def main() -> None:
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--kills", type=int, default=300)
    known.add_argument("--seed", type=int, default=None)
    known.add_argument("--mode", choices=["local", "spark"], action="append")
    known.add_argument("--folder", type=Path, default=None)
    given = known.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    folder = given.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    print(f"seed {seed}, in {folder}", flush=True)
    killed = chaos(given.kills, seed, given.mode or ["local", "spark"], folder, lambda line: print(line, flush=True))
    print(f"seed {seed}: {sum(killed.values())} kills ({dict(killed)}), and no difference", flush=True)


if __name__ == "__main__":
    sys.exit(main())

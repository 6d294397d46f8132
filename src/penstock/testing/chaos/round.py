"""One round of chaos: a program is taken to its end, through kills, failovers, rivals, full disks and torn files."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.faults import LOG_POINTS, POINTS, START_POINTS
from penstock.testing.chaos.processes import Program
from penstock.testing.chaos.subject import STATES, ChaosError, Subject
from penstock.testing.chaos.torn import tear

KINDS = {
    "local": ["driver"],
    "slots": ["driver", "slot", "slot", "daemon"],
    "spark": ["driver", "jvm", "slot", "daemon", "helper"],
}
"""The processes that are killed in each mode."""
_PACES = {"local": (0.1, 3), "slots": (0.5, 12), "spark": (1.5, 12)}
"""The most seconds between two kills, and the most kills of a start; what starts slowly is killed more often."""
_MOST_STARTS = 300
_PATIENCE = 900
"""Seconds after which a program counts as hanging: other programs may be running on this machine."""

_EXPECTED = re.compile(
    r"FencedError|AlreadyRunningError|SparkLostError|CommitError|is in use by another process|is still held by process"
)
"""How a program may end that was partly killed, or that another one has taken over from."""
_LOST = re.compile(r"Py4J|ConnectionRefused|Connection reset|SparkContext|Broken pipe|java\.|Java gateway|EOFError")
"""How PySpark itself ends when its JVM or a helper process dies."""
_FULL = re.compile(r"No space left on device")


@dataclass
class Tally:
    """The faults that programs have had so far."""

    killed: Counter[str] = field(default_factory=Counter)
    """Kills, by target: a part of a program, or all of it at a named point."""
    points: Counter[str] = field(default_factory=Counter)
    """The named points at which programs were killed, or their disk became full."""
    full: int = 0
    """How often a disk became full."""
    torn: int = 0
    """How many files were damaged that no manifest named yet."""
    ends: Counter[str] = field(default_factory=Counter)
    """The classes of the errors that ended programs before they had done everything."""

    @property
    def kills(self) -> int:
        return self.killed.total()

    def add(self, other: Tally) -> None:
        self.killed += other.killed
        self.points += other.points
        self.ends += other.ends
        self.full += other.full
        self.torn += other.torn


class Round:
    """One program, from its start to its end.

    Args:
        kills: after so many kills it is left undisturbed.
        on_event: called with every event.
    """

    def __init__(
        self,
        subject: Subject,
        mode: str,
        folder: Path,
        rng: random.Random,
        kills: int,
        on_event: Callable[[Round], None] = lambda _: None,
    ):
        self.subject, self.mode, self.folder, self.kills = subject, mode, folder, kills
        self.events: list[str] = []
        self.done = Tally()
        self._rng = rng
        self._on_event = on_event
        self._state = STATES[0]
        self._left_behind: list[Program] = []
        self._markers = 0

    def run(self) -> None:
        """Start the program until it ends by itself.

        Raises:
            ChaosError: it ended in a way that is not allowed.
        """
        beside: Program | None = None
        try:
            for _ in range(_MOST_STARTS):
                beside = self._beside(beside)
                if self._start():
                    return
            raise ChaosError(f"not done after {_MOST_STARTS} starts")
        finally:
            for one in [*self._left_behind, *([beside] if beside else [])]:
                one.kill_what_is_left()

    def tell(self, event: str) -> None:
        self.events.append(event)
        self._on_event(self)

    def _beside(self, before: Program | None) -> Program | None:
        """Return the program that runs beside it. The previous one is killed if it still runs."""
        if before is not None:
            if before.is_running and before.kill("driver", self._rng):
                self.done.killed["producer"] += 1
                self.tell("kill producer")
            before.wait()
        return self.subject.beside(self.folder)

    def _start(self) -> bool:
        """Start the program once, disturbed or not. Return whether it has done everything."""
        if self._rng.random() < 0.3:
            self._state = self._rng.choice(STATES)
        disturbs = self.done.kills < self.kills
        faults = self._faults() if disturbs else {}
        self.tell(f"start with {self._state}{''.join(f', {fault}' for fault in faults)}")
        running = self._program(self._state, faults)
        try:
            if disturbs:
                if faults:
                    running.wait_for_commits(self.subject.commits // 2)  # it has come to the named point, or does not
                self._disturb(running)
            return self._ended(running, faults)
        except BaseException:
            running.kill_what_is_left()
            raise

    def _program(self, state: str, faults: dict[str, tuple[str, str]] | None = None) -> Program:
        return self.subject.start(self.folder, self.mode, {"STATE": state, **dict((faults or {}).values())})

    def _faults(self) -> dict[str, tuple[str, str]]:
        """Choose named points at which the program is killed, or its disk becomes full. Return their variables by fault
        name.
        """
        faults = {}
        for chance, kind, variable in ((0.6, "kill", "PENSTOCK_CRASH_AT"), (0.1, "full disk", "PENSTOCK_FULL_AT")):
            if self._rng.random() < chance:
                point = self._rng.choice(POINTS * 2 + START_POINTS + LOG_POINTS)
                count = self._rng.randint(1, max(self.subject.commits // 3, 2)) if point in POINTS else 1
                self._markers += 1
                marker = self.folder / "points" / f"{self._markers}"
                marker.parent.mkdir(exist_ok=True)
                faults[f"{kind} at {point}"] = variable, f"{point}:{count}:{marker}"
        return faults

    def _disturb(self, running: Program) -> None:
        rng = self._rng
        slow, most = _PACES[self.mode]
        if rng.random() < 0.8:  # sometimes kill during the start
            running.wait_for_commits(rng.randint(1, max(self.subject.commits * 2 // 3, 2)))
        time.sleep(rng.uniform(0, slow))
        if did := self.subject.meanwhile(self.folder, rng):
            self.tell(did)
        if rng.random() < 0.2:
            self._rival()
        elif rng.random() < 0.2:
            running.pause()
            self.tell("pause")
            self._rival()
            running.go_on()
        for _ in range(rng.randint(1, most)):
            kind = rng.choice(KINDS[self.mode])
            if running.is_running and running.kill(kind, rng):
                self.done.killed[kind] += 1
                self.tell(f"kill {kind}")
            if kind in ("driver", "jvm"):
                return
            time.sleep(rng.uniform(0, slow))

    def _rival(self) -> None:
        """Start another program of the same application, which takes over, or is refused, and is killed in turn."""
        state = self._rng.choice(STATES)
        self.tell(f"rival with {state}")
        rival = self._program(state)
        try:
            rival.wait_for_commits(self._rng.randint(0, 2))
            time.sleep(self._rng.uniform(0, 0.5))
            if rival.is_running and rival.kill("driver", self._rng):
                self.done.killed["rival"] += 1
            self._ended(rival)
        except BaseException:
            rival.kill_what_is_left()
            raise

    def _ended(self, running: Program, faults: dict[str, tuple[str, str]] | None = None) -> bool:
        tidy = self._rng.random() < 0.5
        if not tidy:
            self._left_behind.append(running)
        done = running.wait(tidy, _PATIENCE)
        is_full = self._count_points(faults or {})
        if not done:
            self._check_end(running.errors(), running.exit_status, is_full)
            if tidy and faults is not None and self._rng.random() < 0.5:  # else the one whose rival it is still runs
                self._tear()
        return done

    def _count_points(self, faults: dict[str, tuple[str, str]]) -> bool:
        """Count the points that the program reached. Return whether its disk became full."""
        is_full = False
        for fault, (_, value) in faults.items():
            point, _, marker = value.split(":", 2)
            if Path(marker).exists():
                self.done.points[point] += 1
                if fault.startswith("full"):
                    self.done.full += 1
                    is_full = True
                else:
                    self.done.killed["at a named point"] += 1
                self.tell(f"came to {point}")
        return is_full

    def _check_end(self, errors: str, code: int | None, is_full: bool) -> None:
        """Raise ``ChaosError`` when a program ended with an error that its faults do not explain."""
        last = [line for line in errors.splitlines() if re.match(r"\w[\w.]*(Error|Exception|Exit)\b", line)]
        if not errors.strip() and code == 1:
            raise ChaosError("a program ended with exit status 1, and said nothing")
        if errors.strip():
            self.done.ends[last[-1].partition(":")[0] if last else "killed while it told something"] += 1
        is_expected = _EXPECTED.search(errors) or (self.mode == "spark" and _LOST.search(errors))
        if last and not is_expected and not (is_full and _FULL.search(errors)):
            raise ChaosError(f"a program ended with\n{errors}")

    def _tear(self) -> None:
        """Damage unfinished files, once all programs are dead."""
        for one in self._left_behind:
            one.kill_what_is_left()
        self._left_behind.clear()
        torn = tear(self.folder, self._rng)
        if torn:
            self.done.torn += len(torn)
            self.tell(f"tear {len(torn)} files")

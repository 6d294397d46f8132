"""A program under chaos: how it is started, and its expected results."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path

from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.testing.chaos.outcome import Outcome, differences, outcome
from penstock.testing.chaos.processes import Program

STATES = ("state", "elsewhere")
"""The folders of databases that a program alternates between, as if it moved to another machine and back. The variable
``STATE`` names the present one; its commits are always in the first.
"""


MODES = ("local", "slots", "spark")
"""How a program can run: in one process, in processes of the local engine, on Spark."""


class ChaosError(AssertionError):
    """A result differs, or a program ended in a way that is not allowed."""


class Subject:
    """A program.

    In a folder where it runs, its topics are in ``log`` and its checkpoint in ``state/checkpoint``. It processes the
    present input and ends, with exit status 0 when all is done; for each commit it prints a line.

    Args:
        modes: how it can run: in one process (``local``), in ``slots`` of the local engine, or on ``spark``.
    """

    def __init__(self, name: str, topology: Topology, application_id: str, modes: tuple[str, ...] = MODES):
        self.name = name
        self.topology = topology
        self.application_id = application_id
        self.modes = modes
        self.expected: Outcome | None = None
        """The undisturbed result, as far as it is compared."""
        self.commits = 4
        """In how many commits it processes its input, if known."""
        self.base = Path()
        """A folder with its unprocessed input."""

    def command(self, folder: Path, mode: str) -> list[str]:
        """Return the Python file that runs the program in a folder, and its arguments."""
        raise NotImplementedError

    def settings(self, folder: Path) -> Settings:
        """Return its settings there."""
        raise NotImplementedError

    def prepare(self, folder: Path) -> None:
        """Make the input in a folder."""
        raise NotImplementedError

    def start(
        self, folder: Path, mode: str, environment: Mapping[str, str] | None = None, is_forked: bool = True
    ) -> Program:
        return Program(self.command(folder, mode), is_forked and mode == "local", **(environment or {}))

    def outcome(self, folder: Path) -> Outcome:
        """Return its results there."""
        return outcome(folder, self.topology, self.application_id, self.settings(folder))

    def make_base(self, root: Path) -> None:
        """Make the input, and run the program once without disturbing it."""
        self.base = root / self.name / "base"
        self.prepare(self.base)
        self.expected = self.undisturbed(root / self.name / "undisturbed", "local")

    def undisturbed(self, folder: Path, mode: str, is_forked: bool = True) -> Outcome:
        """Return the results of a run without kills."""
        running = self.start(self.copy(folder), mode, is_forked=is_forked)
        try:
            if not running.wait(patience=3600):
                raise ChaosError(f"{self.name} does not even run undisturbed:\n{running.errors()}")
        finally:
            running.kill_what_is_left()
        self.commits = max(len(running.lines), 2)
        return self.outcome(folder)

    def copy(self, folder: Path) -> Path:
        """Copy the unprocessed input into another folder."""
        shutil.copytree(self.base / "log", folder / "log")
        return folder

    def compare(self, folder: Path) -> None:
        """Raise ``ChaosError`` unless the output equals that of the undisturbed run."""
        assert self.expected is not None
        outcome = self.outcome(folder)
        found = differences({name: outcome.get(name) for name in self.expected}, self.expected)
        if found:
            raise ChaosError("\n".join(f"{name} differs: {how}" for name, how in found.items()))

    # --- what else goes on -------------------------------------------------------------------------------------------

    def beside(self, folder: Path) -> Program | None:
        """Return another program that runs beside it, such as a producer; started again before each start."""
        return None

    def meanwhile(self, folder: Path, rng: random.Random) -> str | None:
        """Interfere while it runs. Return what was done."""
        return None

    def afterwards(self, folder: Path, rng: random.Random) -> str | None:
        """Do something after it is done and compared. Return what was done."""
        return None

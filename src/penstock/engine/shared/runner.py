"""The interface of runners, which run the tasks of a commit, and the error for lost work."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from math import inf
from typing import Protocol

from penstock import errors
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.places import SlotPlace
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.errors import PenstockError, ProcessingError


class StageRunner(Protocol):
    """Runs the tasks of a stage, in this process or in others."""

    look_seconds: float = inf
    """The longest time between two looks whether the processes that run tasks can still be reached; infinite if their
    loss is reported at once.
    """

    @abstractmethod
    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        """Run all tasks. Raise ``LostWorkError`` when the whole attempt has to be repeated."""

    def follow(self, application: str, manifest: Manifest, changed: Iterable[str]) -> None:
        """Let follower copies of tasks apply a commit, in which the `changed` tasks took part."""
        return

    def give_up(self) -> None:
        """Turn the running stage into a lost attempt; from any thread."""
        return

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds that the processes of its slots have used so far; 0 if this process runs the tasks."""
        return 0.0

    @property
    def places(self) -> list[SlotPlace] | None:
        """The place of each slot, by slot number; None if this runner has no slots."""
        return None


class LostWorkError(Exception):
    """A process that ran tasks died; the attempt has to be repeated."""


class TooManyWritesError(Exception):
    """Records made more uncommitted writes than the stores of their tasks may hold; the attempt has to be repeated.

    Attributes:
        most: how many records may be taken then, by task, or by the cycle that they enter; 0 for as few as possible.
    """

    def __init__(self, most: dict[str, int]):
        super().__init__(f"too many uncommitted writes: {most}")
        self.most = most


def error_of(done: TaskDone) -> PenstockError:
    """Return the error that a task reported."""
    kind = getattr(errors, done.error_type, ProcessingError)
    return kind(f"task {done.task}: {done.error}")

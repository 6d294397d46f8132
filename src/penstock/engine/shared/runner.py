"""Whoever runs the tasks of a commit, and how it tells that their work is lost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from penstock import errors
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.places import SlotPlace
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.errors import PenstockError, ProcessingError


class StageRunner(ABC):
    """Whoever runs the tasks of a stage, in this process or in others."""

    @abstractmethod
    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        """Run all tasks; raises ``LostWorkError`` when the attempt is to be repeated as a whole."""

    def follow(self, application: str, manifest: Manifest, changed: Iterable[str]) -> None:  # noqa: B027 - most have none
        """Have copies of tasks moved on to a commit, in which some tasks took part."""

    def give_up(self) -> None:  # noqa: B027 - what runs in this process is over when it is over
        """Let the stage that is under way be a lost attempt; from any thread."""

    @property
    def places(self) -> list[SlotPlace] | None:
        """Where each slot lives, by its number; None where there are no slots."""
        return None


class LostWorkError(Exception):
    """A process that ran tasks is gone; the attempt has to be repeated."""


def error_of(done: TaskDone) -> PenstockError:
    """The error that a task told."""
    kind = getattr(errors, done.error_type, ProcessingError)
    return kind(f"task {done.task}: {done.error}")

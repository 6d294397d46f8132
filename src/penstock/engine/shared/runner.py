"""Whoever runs the tasks of a commit, and how it tells that their work is lost."""

from __future__ import annotations

from typing import Protocol

from penstock import errors
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.errors import PenstockError, ProcessingError


class StageRunner(Protocol):
    """Whoever runs the tasks of a stage, in this process or in others."""

    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        """Run all tasks; raises ``LostWorkError`` when the attempt is to be repeated as a whole."""


class LostWorkError(Exception):
    """A process that ran tasks is gone; the attempt has to be repeated."""


def error_of(done: TaskDone) -> PenstockError:
    """The error that a task told."""
    kind = getattr(errors, done.error_type, ProcessingError)
    return kind(f"task {done.task}: {done.error}")
